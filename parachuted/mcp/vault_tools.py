"""Vault tools: changes, contexts, history, undo and suggestions, mostly by the API's routes."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from itertools import groupby
from typing import Any, Literal

from pydantic import TypeAdapter

from parachuted.access.events import EventFilter
from parachuted.access.strangers import ORIGINS
from parachuted.api import ContextRoutes, HistoryRoutes, RunRoutes, SuggestionRoutes
from parachuted.errors import ActRefusedError, EditRefusedError, ParachuteError
from parachuted.events import Bus, Event
from parachuted.mcp.clients import ClientSources, McpClient
from parachuted.mcp.tools import ToolCall
from parachuted.search import NoteQuery
from parachuted.suggestions import suggestion_tool
from parachuted.texts.times import moment, time_of
from parachuted.tools.definitions import an_object, tool
from parachuted.vault import VaultPath, printable

_CURATOR, _MOST_LISTED, _HEAD = "curator", 200, 256 << 10
_CHANGES = frozenset({"file.created", "file.modified", "file.moved", "file.deleted"})
_MOST_CHANGES, _MOST_LINES = 500, 10_000_000
_PATIENCE_S = 2.0
_VERSION = ("version", "at", "by", "run", "added", "removed")
_RUN = ("agent", "watcher", "started", "outcome")
_SUGGESTION = ("id", "title", "path", "action", "status", "source_agent")
_CONTEXT = ("path", "level", "tokens", "included", "reason")


class VaultTools:
    """`started` tells the cursors of this daemon from the last one's."""

    def __init__(
        self,
        sources: ClientSources,
        bus: Bus,
        started: datetime,
        *,
        contexts: ContextRoutes,
        history: HistoryRoutes,
        runs: RunRoutes,
        suggested: SuggestionRoutes,
    ) -> None:
        self._vaults, self._bus = sources.vaults, bus
        self._strangers = sources.vaults.strangers
        self._life = f"{int(started.timestamp() * 1000):x}"
        self._contexts, self._history, self._runs = contexts, history, runs
        self._suggested = suggested

    @tool(
        "Notes that changed since a cursor; without one, lately.",
        "vault",
        "read",
        an_object("changes", "cursor", changes="array", cursor="string", complete="boolean"),
        for_path_keys=True,
    )
    async def changed_since(self, call: ToolCall, cursor: str = "") -> Mapping[str, object]:
        """Deletions and moves are known as long as the daemon remembers the events."""
        life, number, seconds = _read_cursor(cursor) if cursor else ("", 0, 0.0)
        is_known = life == self._life and self._bus.remembers(number)
        latest = self._bus.last_id
        events = EventFilter.of_key(call.client.identity)
        changes: dict[str, Mapping[str, object]] = {}
        for event in self._bus.since(number if is_known else 0):
            received = event.visible_to(events) if event.event in _CHANGES else None
            if received is not None and self._may_be_named(call.client, received):
                path = str(received.data["path"])
                changes.pop(path, None)  # the last change is listed last
                changes[path] = _change(received)
                if len(changes) == _MOST_CHANGES:
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

    @tool(
        "Folders with an AGENTS.md, or the context files a folder loads.",
        "vault",
        "read",
        an_object(folders="array", files="array"),
    )
    async def contexts(self, call: ToolCall, folder: str | None = None) -> Mapping[str, object]:
        if folder is not None:
            within = call.within("vault", "read")
            chain = _document(await self._contexts.chain(within, (folder,)))
            return {"files": [_some(one, _CONTEXT) for one in chain["files"]]}
        return {
            "folders": [
                printable(found.path)
                for found in await self._contexts.folders()
                if call.client.taint or not self._is_strangers(found.context_file)
            ]
        }

    @tool(
        "Versions of a note.",
        _CURATOR,
        "read",
        an_object("versions", versions="array"),
        for_path_keys=True,
    )
    async def history(self, call: ToolCall, path: str, limit: int = 20) -> Mapping[str, object]:
        call.touch(path)
        within = call.within(_CURATOR, "read")
        found = await self._history.history(within, VaultPath.parse(path), _between(limit))
        versions = _document(found)["versions"]
        return {"versions": [_some(version, _VERSION) for version in versions]}

    @tool(
        "Who wrote each line of a note, in which run.",
        _CURATOR,
        "read",
        an_object("lines", lines="array", runs="object"),
    )
    async def why(self, call: ToolCall, path: str, line: int | None = None) -> Mapping[str, object]:
        """What a note says may be a stranger's, so it counts as read."""
        call.touch(path)
        place = VaultPath.parse(path)
        if line is not None and not 1 <= line <= _MOST_LINES:
            raise EditRefusedError(f"there is no line {line}; the first is 1")
        await call.client.vault.read_with_digest(place)
        within = call.within(_CURATOR, "read")
        found = _document(await self._runs.why(within, place, line))
        runs = {name: self._shown(run) for name, run in found["runs"].items() if run is not None}
        return {"lines": list(_spans(found["lines"])), "runs": runs}

    @tool(
        "Take back a run and what followed from it.",
        _CURATOR,
        "write",
        an_object("paths", paths="array", kept="object", undo="string"),
        is_destructive=True,
    )
    async def undo(self, call: ToolCall, run: str) -> Mapping[str, object]:
        if call.client.taint:
            raise ActRefusedError(
                f"{call.client.taint.why()}, so it may take back nothing; a person can, with "
                f"`parachute undo {run}`"
            )
        return _document(await self._runs.undo(call.within(_CURATOR, "write"), run))

    @tool(
        "Changes that wait for a person.",
        _CURATOR,
        "read",
        an_object("suggestions", suggestions="array", left_out="integer"),
    )
    async def suggestions(self, call: ToolCall, limit: int = 50) -> Mapping[str, object]:
        listed = await self._suggested.listing("pending", limit=_between(limit))
        found = _document(listed)["suggestions"]
        visible = [entry for entry in found if call.client.taint or entry["origin"] not in ORIGINS]
        return {
            "suggestions": [_some(entry, _SUGGESTION) for entry in visible],
            "left_out": len(found) - len(visible),
        }

    @tool(
        "Suggest a change to a person. payload: {text}, {section, content}, {key, value} or {to}.",
        "vault",
        "write",
        an_object("result", result="string"),
    )
    async def suggest(
        self,
        call: ToolCall,
        action: Literal["create", "update", "delete", "link"],
        path: str,
        payload: dict[str, Any],
        reasoning: str,
    ) -> Mapping[str, object]:
        call.touch(path)
        suggestions = call.client.suggestions
        proposed = {"action": action, "path": path, "payload": payload, "reasoning": reasoning}
        result = await suggestion_tool(suggestions, suggestions.run).call(proposed)
        if result.is_error:
            raise ActRefusedError(result.text)
        return {"result": result.text}

    async def _modified(self, call: ToolCall, since: datetime) -> dict[str, Mapping[str, object]]:
        """What the index says of a time of which no events are remembered."""
        search = self._vaults.search
        await asyncio.to_thread(search.settle, _PATIENCE_S)
        query = NoteQuery(sort="-modified", limit=_MOST_CHANGES)
        page = await asyncio.to_thread(search.catalogue.notes, query, call.api.files.sees)
        found = {
            printable(row.path): moment(row.modified)
            for row in page.rows
            if row.modified > since.timestamp()
            and (call.client.taint or not self._strangers.is_row(row.path, row.typed))
        }
        return {path: {"path": path, "kind": "modified", "at": at} for path, at in found.items()}

    def _may_be_named(self, client: McpClient, event: Event) -> bool:
        """A stranger's name is shown only to a client that has read a stranger's text."""
        if client.taint:
            return True
        names = [str(event.data[key]) for key in ("path", "from") if key in event.data]
        if any(map(self._strangers.is_place, names)):
            return False
        path = VaultPath.parse(names[0])
        return not (self._vaults.store.root.is_there(path) and self._is_strangers(path))

    def _is_strangers(self, path: str) -> bool:
        try:
            data, _size = self._vaults.store.root.read_head(VaultPath.parse(path), _HEAD)
        except ParachuteError:  # it is gone, so what it said is unknown
            return True
        return self._strangers.is_text(path, data)

    def _shown(self, run: Mapping[str, Any]) -> dict[str, object]:
        """Its reason may repeat a stranger's text that it had read."""
        names = [run["watcher"], *(note["path"] for note in (*run["reviewed"], *run["wrote"]))]
        names += [note["source"] for note in run["reviewed"] if note["source"]]
        is_clean = bool(run["wrote"]) and not any(map(self._is_strangers, names))
        return _some(run, (*_RUN, "reason") if is_clean else _RUN)


def _document(answer: object) -> dict[str, Any]:
    """What the API would answer."""
    document: dict[str, Any] = TypeAdapter(type(answer)).dump_python(answer, mode="json")
    return document


def _between(limit: int) -> int:
    return max(1, min(limit, _MOST_LISTED))


def _some(document: Mapping[str, Any], names: Sequence[str]) -> dict[str, object]:
    return {name: document[name] for name in names if document.get(name) is not None}


def _spans(lines: Sequence[Mapping[str, Any]]) -> Iterator[dict[str, object]]:
    for (by, at, run), group in groupby(lines, lambda line: (line["by"], line["at"], line["run"])):
        several = list(group)
        span = {"from": several[0]["number"], "to": several[-1]["number"], "by": by}
        yield {**span, **({"at": at} if at else {}), **({"run": run} if run else {})}


def _change(event: Event) -> Mapping[str, object]:
    data = event.data
    return {
        "path": data["path"],
        "kind": event.event.removeprefix("file."),
        "at": time_of(event.timestamp),
        "by": data.get("by"),
        **({"from": data["from"]} if "from" in data else {}),
    }


def _read_cursor(text: str) -> tuple[str, int, float]:
    try:
        life, number, seconds = text.split("-")
        return life, int(number), float(int(seconds))
    except (ValueError, OverflowError) as error:
        raise EditRefusedError("invalid cursor; pass `cursor` back unchanged") from error
