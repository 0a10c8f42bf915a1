"""Clients: who is connected over MCP, what each may touch, and what it has read.

What a client writes is its own run, for `why` and `undo`. Once it has read a stranger's text, what
it would write is suggested to a person instead, as for every agent.
"""

from __future__ import annotations

import asyncio
import re
import secrets
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from datetime import datetime
from functools import partial

from parachuted.access.caller import Caller, CallRecord, WorkRequest
from parachuted.access.grant import CallerGrant, Grant
from parachuted.access.strangers import RunGuard, Taint
from parachuted.history.run_account import CLIENT, Operation, new_act
from parachuted.keys import NOWHERE, Identity
from parachuted.runs.agent_hooks import AgentHooks, RunHooks
from parachuted.runs.bounds import ModuleBounds
from parachuted.runs.granted_files import VaultUser
from parachuted.runs.granted_vault import GrantedVault, GrantedVaults
from parachuted.runs.note_tools import SeenNotes
from parachuted.runs.run import RunSuggestions
from parachuted.suggestions import SuggestingRun
from parachuted.suggestions.payload import ProposalSink
from parachuted.vault import Author, Requester, VaultPath, WriteResult

MOST_CLIENTS = 256
_LONGEST_NAME = 40
_ODD = re.compile(r"[^a-z0-9._-]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientSources:
    """`holds` says whether an identity still may ask."""

    vaults: GrantedVaults
    suggestions: ProposalSink
    hooks: RunHooks
    holds: Callable[[Identity], bool]
    clock: Callable[[], datetime]


class McpClient:
    """`id` names its session; `by` is how the history and the audit name it."""

    def __init__(self, sources: ClientSources, identity: Identity, name: str) -> None:
        self.id, self.identity = secrets.token_hex(16), identity
        self.by = _name_of(name, identity)
        self.taint = Taint()
        self.seen = SeenNotes()
        reads = identity.grant("vault", "read") or NOWHERE
        writes = identity.grant("vault", "write") or NOWHERE
        grant = Grant(agent=self.by, reads=reads, writes=writes, tainted_writes=NOWHERE)
        is_valid = partial(sources.holds, identity)
        caller = Caller(
            request=WorkRequest(by="person", entry="http", key=identity.api_key, is_valid=is_valid),
            grant=CallerGrant(reads, writes),
            taint=self.taint,
        )
        self.hooks = AgentHooks(sources.hooks, self.id, self.by, self.taint)
        self._sources, self._turn = sources, asyncio.Lock()
        self._act: Operation | None = None
        self._has_written = False
        suggesting = SuggestingRun(
            agent=self.by,
            sees=self._may_read,
            is_tainted=lambda: bool(self.taint),
            read=self.seen.digests,
        )
        self.suggestions = RunSuggestions(sink=sources.suggestions, run=suggesting, who="client")
        guard = RunGuard(grant=grant, taint=self.taint, put_forward=self.suggestions.put_forward)
        user = VaultUser(
            caller=lambda: caller,
            author=self._author,
            writing=self._recorded,
            run=guard,
            strangers=sources.vaults.strangers,
        )
        bounds = ModuleBounds(who=f"the client {self.by}", reads=reads, writes=writes)
        self.vault = GrantedVault(sources.vaults, bounds, user)

    @asynccontextmanager
    async def writing(self, what: str, path: str, request_id: str = "") -> AsyncIterator[str]:
        """All that is written within is one run, one at a time for each client."""
        async with self._turn:
            act = self._act = new_act(
                self.by,
                self._sources.clock(),
                watcher=path,
                reason=f"{what} {path}",
                carries=True,
                requester=Requester("agent", self.by, request_id, self.identity.limited_key),
            )
            self._has_written = False
            try:
                yield act.run
            finally:
                self._act = None
                if self._has_written:
                    store = self._sources.vaults.store
                    await asyncio.to_thread(act.end, store, act.reason, is_durable=False)

    def _may_read(self, path: str) -> bool:
        return self.vault.files.bounds.may_read(path)

    def _author(self, _call: CallRecord | None) -> Author:
        if self._act is None:
            raise RuntimeError("a client writes inside of `writing`")
        return self._act.author

    @contextmanager
    def _recorded(self, _path: VaultPath) -> Iterator[Callable[[WriteResult], None]]:
        """The run is in the history from its first write on."""
        if self._act is not None and not self._has_written:
            self._act.begin(self._sources.vaults.store, is_durable=False)
            self._has_written = True
        yield lambda _written: None


def _name_of(name: str, identity: Identity) -> str:
    """`mcp:claude-code`, with the name of its key where it showed one."""
    own = _plain(name) or "client"
    key = f"@{_plain(identity.name) or identity.id}" if identity.kind == "key" else ""
    return f"{CLIENT}{own}{key}"


def _plain(name: str) -> str:
    return _ODD.sub("-", name.lower()).strip("-")[:_LONGEST_NAME]


class ClientTable:
    """Each is found by its session and its identity; the least recently used makes room."""

    def __init__(self, sources: ClientSources, *, most: int = MOST_CLIENTS) -> None:
        self.sources, self._most = sources, most
        self._clients: OrderedDict[str, McpClient] = OrderedDict()

    def keep(self, client: McpClient, key: str = "") -> None:
        self._clients[key or client.id] = client
        self._clients.move_to_end(key or client.id)
        if len(self._clients) > self._most:
            self._clients.popitem(last=False)

    def find(self, session: str, identity: Identity) -> McpClient | None:
        """None where there is none, or it is another identity's."""
        client = self._clients.get(session)
        if client is None or client.identity != identity:
            return None
        self._clients.move_to_end(session)
        return client

    def sessionless(self, identity: Identity, name: str) -> McpClient:
        """One for each identity and name."""
        key = f"{identity.id} {name}"
        client = self.find(key, identity) or McpClient(self.sources, identity, name)
        self.keep(client, key)
        return client

    def end(self, session: str) -> None:
        self._clients.pop(session, None)

    def recheck(self) -> None:
        for key, client in tuple(self._clients.items()):
            if not self.sources.holds(client.identity):
                del self._clients[key]
