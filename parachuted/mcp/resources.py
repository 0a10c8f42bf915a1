"""Resources: the notes that a client may read, by their addresses, and how it hears of changes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from urllib.parse import quote, unquote

from parachuted.access.events import EventFilter
from parachuted.access.filter import AccessFilter
from parachuted.access.origin import UNTRUSTED
from parachuted.access.origins import Origins
from parachuted.errors import EditRefusedError, NotFoundError
from parachuted.events import Bus, Event
from parachuted.mcp.clients import McpClient
from parachuted.mcp.tools import ToolCall
from parachuted.search import NoteQuery, Search
from parachuted.times import moment, time_of
from parachuted.tools.definitions import an_object, tool
from parachuted.vault import VaultRoot, printable

SCHEME = "note:///"
_KINDS = {
    "file.created": "created",
    "file.modified": "modified",
    "file.moved": "moved",
    "file.deleted": "deleted",
}
_TOOLS = frozenset({"module.enabled", "module.disabled"})
_MOST_TOLD = 500
_PATIENCE_S = 2.0


def address_of(path: str) -> str:
    return SCHEME + quote(path)


def path_at(address: str) -> str:
    return unquote(address.removeprefix(SCHEME)) if address.startswith(SCHEME) else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientChanges:
    """What a client may hear of some events: addresses of notes with new texts; whether the list of
    notes, or that of tools, is another.
    """

    updated: frozenset[str] = frozenset()
    has_new_list: bool = False
    has_new_tools: bool = False


@dataclass(slots=True, eq=False)
class Subscription:
    """One client that listens; `tell` is called on the event loop and must not block."""

    client: McpClient
    tell: Callable[[ClientChanges], None]
    events: EventFilter = field(init=False)

    def __post_init__(self) -> None:
        self.events = EventFilter.of_key(self.client.identity.scopes)


class VaultChanges:
    """Tells clients of changes. `life` tells the cursors of this daemon from those of the last."""

    def __init__(self, bus: Bus, search: Search, origins: Origins, started: datetime) -> None:
        self._bus, self._search, self._origins = bus, search, origins
        self._life = f"{int(started.timestamp() * 1000):x}"
        self._subscriptions: list[Subscription] = []
        self._unsubscribe: Callable[[], None] = lambda: None

    def subscribe(
        self, client: McpClient, tell: Callable[[ClientChanges], None]
    ) -> Callable[[], None]:
        subscription = Subscription(client, tell)
        if not self._subscriptions:
            self._unsubscribe = self._bus.subscribe_to_batches(self._hear)
        self._subscriptions.append(subscription)
        client.listeners += 1

        def end() -> None:
            if subscription in self._subscriptions:
                self._subscriptions.remove(subscription)
                client.listeners -= 1
                if not self._subscriptions:
                    self._unsubscribe()

        return end

    def _hear(self, events: Sequence[Event]) -> None:
        for subscription in tuple(self._subscriptions):
            changes = self._changes(subscription, events)
            if changes != ClientChanges():
                subscription.tell(changes)

    def _changes(self, subscription: Subscription, events: Sequence[Event]) -> ClientChanges:
        client, updated, has_new_list = subscription.client, set[str](), False
        for event in events:
            heard = event.heard_by(subscription.events) if event.event in _KINDS else None
            if heard is None or not self._may_be_named(client, heard):
                continue
            updated.add(address_of(str(heard.data["path"])))
            has_new_list = has_new_list or heard.event != "file.modified"
        return ClientChanges(
            updated=frozenset(updated),
            has_new_list=has_new_list,
            has_new_tools=any(event.event in _TOOLS for event in events),
        )

    def _may_be_named(self, client: McpClient, event: Event) -> bool:
        """A stranger's name is shown only to those who have read a stranger's text."""
        names = [event.data[key] for key in ("path", "from") if key in event.data]
        return bool(client.taint) or not any(
            self._origins.of(str(name)) in UNTRUSTED for name in names
        )

    @tool(
        "Notes that changed since a cursor; without one, lately.",
        "vault",
        "read",
        an_object("changes", "cursor", changes="array", cursor="string", complete="boolean"),
    )
    async def changed_since(self, call: ToolCall, cursor: str = "") -> Mapping[str, object]:
        """Deletions and moves are known as long as the daemon remembers the events."""
        life, number, seconds = _read_cursor(cursor)
        is_known = life == self._life and self._bus.remembers(number)
        latest = self._bus.last_id
        events = EventFilter.of_key(call.client.identity.scopes)
        changes: dict[str, Mapping[str, object]] = {}
        for event in self._bus.since(number if is_known else 0):
            heard = event.heard_by(events) if event.event in _KINDS else None
            if heard is not None and self._may_be_named(call.client, heard):
                changes.pop(str(heard.data["path"]), None)
                changes[str(heard.data["path"])] = _change(heard)
                if len(changes) == _MOST_TOLD:
                    latest = event.id
                    break
        if not is_known and life:
            since = datetime.fromtimestamp(seconds, UTC)
            changes = {**await self._modified(call, since), **changes}
        return {
            "changes": list(changes.values()),
            "cursor": f"{self._life}-{latest}-{int(datetime.now(UTC).timestamp())}",
            "complete": is_known,
        }

    async def _modified(self, call: ToolCall, since: datetime) -> dict[str, Mapping[str, object]]:
        """What the index says of a time of which no events are remembered."""
        await asyncio.to_thread(self._search.settle, _PATIENCE_S)
        query = NoteQuery(sort="-modified", limit=_MOST_TOLD)
        page = await asyncio.to_thread(self._search.catalogue.notes, query, call.api.sight.sees)
        return {
            printable(row.path): {
                "path": printable(row.path),
                "kind": "modified",
                "at": moment(row.modified),
            }
            for row in page.rows
            if row.modified > since.timestamp()
            and (call.client.taint or self._origins.of(row.path) not in UNTRUSTED)
        }


def _change(event: Event) -> Mapping[str, object]:
    data = event.data
    more = {"from": data["from"]} if "from" in data else {}
    return {
        "path": data["path"],
        "kind": _KINDS[event.event],
        "at": time_of(event.timestamp),
        "by": data.get("by"),
        **more,
    }


def _read_cursor(text: str) -> tuple[str, int, float]:
    if not text:
        return "", 0, 0.0
    try:
        life, number, seconds = text.split("-")
        return life, int(number), float(int(seconds))
    except (ValueError, OverflowError) as error:
        raise EditRefusedError("invalid cursor; pass `cursor` back unchanged") from error


_A_PAGE = 200
_MOST_SUBSCRIBED = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class NoteResource:
    """One note, as a list of resources has it; `size` in bytes."""

    address: str
    name: str
    title: str
    size: int


class NoteResources:
    def __init__(self, root: VaultRoot, search: Search, origins: Origins) -> None:
        self._root, self._search, self._origins = root, search, origins

    async def page(
        self, client: McpClient, cursor: str | None
    ) -> tuple[list[NoteResource], str | None]:
        """Some notes by path, without strangers' unless the client has read one, and the cursor of
        those that follow. Raises ValueError for a cursor that is none.
        """
        query = NoteQuery(limit=_A_PAGE, after=cursor)
        sees = AccessFilter(self._root, client.authority.reads, for_agents=True).sees
        client.authority.check()
        page = await asyncio.to_thread(self._search.catalogue.notes, query, sees)
        found = [
            NoteResource(
                address=address_of(printable(row.path)),
                name=printable(row.path),
                title=row.title,
                size=row.size,
            )
            for row in page.rows
            if client.taint or self._origins.of(row.path, row.digest) not in UNTRUSTED
        ]
        return found, page.next

    async def read(self, client: McpClient, address: str) -> str:
        """The text of the note at that address. Raises NotFoundError and what reading raises."""
        path = path_at(address)
        if not path:
            raise NotFoundError(f"{address[:200]} is not a note's address; those begin note:///")
        data, digest = await client.vault.read_with_digest(path)
        client.seen.add(path, digest)
        return data.decode("utf-8", "replace")

    def subscribe(self, client: McpClient, address: str) -> None:
        """Tell the client of changes there from now on, as far as it may read it."""
        if len(client.subscribed) < _MOST_SUBSCRIBED:
            client.subscribed.add(address)
