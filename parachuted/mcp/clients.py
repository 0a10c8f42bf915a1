"""Clients: who is connected over MCP, what each may touch, and what it has read.

A client acts with the rights of its API key. What it writes is recorded as its own run, so that
`why` names it and `undo` takes it back. Once it has read a stranger's text, what it would write is
suggested to a person instead, as for every agent.
"""

from __future__ import annotations

import asyncio
import re
import secrets
import time
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Literal

from parachuted.access.authority import Authority
from parachuted.access.grant import Grant
from parachuted.access.origin import Taint
from parachuted.access.origins import Origins
from parachuted.errors import EditRefusedError
from parachuted.history.run_account import CLIENT, Operation, new_act
from parachuted.keys import NOWHERE, Identity
from parachuted.runs.agent_hooks import AgentHooks, RunHooks
from parachuted.runs.bounds import ModuleBounds
from parachuted.runs.granted_files import VaultUser
from parachuted.runs.granted_vault import GrantedVault, GrantedVaults
from parachuted.runs.note_tools import SeenNotes
from parachuted.runs.run_guard import RunGuard
from parachuted.runs.run_request import CurrentRun
from parachuted.suggestions import Proposal
from parachuted.suggestions.payload import ProposalSink
from parachuted.vault import (
    Author,
    Caller,
    VaultPath,
    WriteResult,
    new_id,
    printable,
)

MOST_CLIENTS = 256
IDLE_S = 1800.0
_LONGEST_NAME = 40
_LONGEST_REASON = 300
_ODD = re.compile(r"[^a-z0-9._-]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientSources:
    """What every client's access to the vault is built from.

    `holds` says whether an identity still may ask.
    """

    vaults: GrantedVaults
    origins: Origins
    suggestions: ProposalSink
    hooks: RunHooks
    holds: Callable[[Identity], bool]
    clock: Callable[[], datetime]


@dataclass(slots=True)
class _Act:
    """One call that may write: started in the history with its first write."""

    record: Operation
    is_begun: bool = False


class McpClient:
    """One connected client.

    `id` names its session; `by` is how the history and the audit name it. `subscribed` are
    addresses of notes, and `listeners` counts the streams on which it hears of changes. `hooks` are
    asked about its tool calls.
    """

    def __init__(self, sources: ClientSources, identity: Identity, name: str) -> None:
        self.id, self.identity = secrets.token_hex(16), identity
        self.by = _name_of(name, identity)
        self.taint = Taint()
        self.seen = SeenNotes()
        self.subscribed: set[str] = set()
        self.used_at, self.listeners = time.monotonic(), 0
        reads = identity.grant("vault", "read") or NOWHERE
        writes = identity.grant("vault", "write") or NOWHERE
        grant = Grant(agent=self.by, reads=reads, writes=writes, lane=NOWHERE)
        holds = partial(sources.holds, identity)
        self.authority = Authority(
            reads=reads,
            writes=writes,
            holds=holds,
            entry="http",
            asked_by="person",
            caller=identity.api_key,
            taint=self.taint,
            within=CurrentRun(grant=grant, asker=Authority(holds=holds)),
        )
        self.hooks = AgentHooks(
            shared=sources.hooks, session_id=self.id, agent=self.by, taint=self.taint
        )
        self._sources, self._turn = sources, asyncio.Lock()
        self._act: _Act | None = None
        guard = RunGuard(
            run=self.id,
            session=None,
            grant=grant,
            taint=self.taint,
            origins=sources.origins,
            permissions=None,
            put_forward=self._put_forward,
        )
        user = VaultUser(
            authority=lambda: self.authority,
            author=lambda _call: self._author(),
            writing=self._recorded,
            run=guard,
        )
        bounds = ModuleBounds(who=f"the client {self.by}", reads=reads, writes=writes, lacks=_LACKS)
        self.vault = GrantedVault(sources.vaults, bounds, user)

    @asynccontextmanager
    async def writing(self, what: str, path: str, request_id: str = "") -> AsyncIterator[str]:
        """Around a call that may write: all that it writes is one run, which `undo` takes back.

        One at a time for each client.
        """
        async with self._turn:
            record = new_act(
                self.by,
                self._sources.clock(),
                watcher=path,
                reason=f"{what} {path}",
                carries=True,
                caller=self._caller(request_id),
            )
            act = self._act = _Act(record)
            try:
                yield record.run
            finally:
                self._act = None
                if act.is_begun:
                    await asyncio.to_thread(self._end, act)

    def _end(self, act: _Act) -> None:
        store = self._sources.vaults.store
        now, record = self._sources.clock(), act.record
        record.end(store.history, store.objects, now, record.reason, is_durable=False)

    def _author(self) -> Author:
        return (
            self._act.record.author
            if self._act is not None
            else Author(
                by=self.by,
                causes=(new_id("c", self._sources.clock()),),
                key=self.identity.limited_key,
                caller=self._caller(""),
            )
        )

    def _caller(self, request_id: str) -> Caller:
        return Caller("agent", self.by, request_id, self.identity.limited_key)

    @contextmanager
    def _recorded(self, _path: VaultPath) -> Iterator[Callable[[WriteResult], None]]:
        act = self._act
        if act is not None and not act.is_begun:
            act.record.begin(self._sources.vaults.store.history, is_durable=False)
            act.is_begun = True
        yield lambda _written: None

    async def _put_forward(
        self,
        action: Literal["create", "update", "delete"],
        path: str,
        base: str | None,
        data: bytes | None,
        why: str,
    ) -> str:
        """A change that the client may not make now, as a suggestion; its id."""
        payload: dict[str, object] = {}
        if data is not None:
            try:
                payload = {"text": data.decode("utf-8")}
            except UnicodeDecodeError as error:
                raise EditRefusedError(f"{printable(path)} would not be text") from error
        suggestion = await self._sources.suggestions.propose(
            Proposal(
                source_agent=self.by,
                action=action,
                path=path,
                payload=payload,
                reasoning=f"The client would have done this at once, but {why[:_LONGEST_REASON]}.",
                base=base,
                origin=self.taint.origin,
            )
        )
        return suggestion.id


_LACKS = "its API key's scopes"


def _name_of(name: str, identity: Identity) -> str:
    """`mcp:claude-code`, with the name of its key where it showed one."""
    own = _plain(name) or "client"
    key = f"@{_plain(identity.name) or identity.id}" if identity.kind == "key" else ""
    return f"{CLIENT}{own}{key}"


def _plain(name: str) -> str:
    return _ODD.sub("-", name.lower()).strip("-")[:_LONGEST_NAME]


class ClientTable:
    """The clients that are connected, each found by its session and the identity that began it.

    At most `most`: the one that was used least recently makes room. One that asks nothing for
    `idle_s` seconds is forgotten, unless it listens for changes.
    """

    def __init__(
        self, sources: ClientSources, *, most: int = MOST_CLIENTS, idle_s: float = IDLE_S
    ) -> None:
        self.sources, self._most, self._idle_s = sources, most, idle_s
        self._clients: OrderedDict[str, McpClient] = OrderedDict()

    def make(self, identity: Identity, name: str) -> McpClient:
        return McpClient(self.sources, identity, name)

    def keep(self, client: McpClient) -> None:
        self._keep(client.id, client)

    def find(self, session: str, identity: Identity) -> McpClient | None:
        """The client of that session; None where there is none, or it is another identity's."""
        client = self._clients.get(session)
        if client is None or client.identity != identity:
            return None
        self._keep(session, client)
        return client

    def sessionless(self, identity: Identity, name: str) -> McpClient:
        """The client of requests that name no session: one for each identity and name."""
        key = f"{identity.id} {name}"
        client = self.find(key, identity) or self.make(identity, name)
        self._keep(key, client)
        return client

    def end(self, session: str) -> None:
        self._clients.pop(session, None)

    def recheck(self) -> None:
        for key, client in tuple(self._clients.items()):
            if not self.sources.holds(client.identity):
                del self._clients[key]

    def __iter__(self) -> Iterator[McpClient]:
        return iter(tuple(self._clients.values()))

    def __len__(self) -> int:
        return len(self._clients)

    def _keep(self, key: str, client: McpClient) -> None:
        client.used_at = time.monotonic()
        self._clients[key] = client
        self._clients.move_to_end(key)
        oldest = client.used_at - self._idle_s
        for other, one in tuple(self._clients.items()):
            if one.used_at >= oldest and len(self._clients) <= self._most:
                break  # those that follow were used later
            if other != key and not one.listeners:
                del self._clients[other]
