"""Agent sandboxes: the container of one run: a slot, the private copy of the notes in it, and the
gate around the CLI's tools.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Protocol

from parachuted.access.bash_rules import check_command
from parachuted.access.grant import Grant
from parachuted.access.origin import Taint
from parachuted.access.origins import Origins
from parachuted.access.own_folders import OwnFolders
from parachuted.agents import NativeTools, RunSandbox, ToolResult
from parachuted.agents.job import NativeCallResult
from parachuted.agents.sandbox.proxy import Proxy, open_proxy
from parachuted.agents.sandbox.sandboxes import Sandboxes
from parachuted.audit.chain import AuditRecorder
from parachuted.errors import StorageFailedError
from parachuted.runs.agent_hooks import AgentHooks
from parachuted.runs.lifecycle import RunAudit
from parachuted.runs.native import make_native
from parachuted.runs.run_guard import PutForward
from parachuted.tools.checkin import CheckinProposal
from parachuted.tools.checkout import Checkout, CheckoutResult
from parachuted.vault import Author, Store, VaultIndex, WriteResult

_MOST_TOLD = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class SandboxedRun:
    """What a run's container is made from.

    `wrote` hears of each write that was checked in, `checked_in` what is to be known of that;
    `put_forward` takes what it may not write;
    `ask_host` and `ask_command` ask a person whether it may reach a host, or run a command, that it
    was not granted; `is_conversation`: it takes no place of other runs.
    """

    run: str
    agent: str
    grant: Grant
    author: Author
    taint: Taint
    audit: RunAudit
    hooks: AgentHooks
    wrote: Callable[[WriteResult], None]
    checked_in: Callable[[str], None]
    put_forward: PutForward | None
    ask_host: Callable[[str], Awaitable[bool]] | None = None
    ask_command: Callable[[str], Awaitable[bool]] | None = None
    is_conversation: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenedSandbox:
    """A run's container. `prompt` is what the system prompt says of what is in it."""

    native: NativeTools
    prompt: str


class SandboxProvider(Protocol):
    """Gives runs their containers."""

    async def problem(self) -> str | None:
        """Why no container can be had here, and what to install or do; None: one can."""
        ...

    def open(self, boxed: SandboxedRun) -> AbstractAsyncContextManager[OpenedSandbox]:
        """The run's private copy of what it was granted, and the CLI's own tools over it.

        What it made is checked in when this is left without an error, once no container works in
        it any more, and dropped with one. Raises AgentUnavailableError.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentSandboxes:
    """`Boxes` of one vault.

    `private` are folders that are never copied into one, such as the daemon's home.
    """

    sandboxes: Sandboxes
    store: Store
    index: VaultIndex
    origins: Origins
    audit: AuditRecorder
    user_home: Path
    private: tuple[Path, ...] = ()
    own_folders: OwnFolders | None = None

    async def problem(self) -> str | None:
        return (await self.sandboxes.status()).problem

    @asynccontextmanager
    async def open(self, boxed: SandboxedRun) -> AsyncIterator[OpenedSandbox]:
        grant = boxed.grant
        config, is_writable = grant.sandbox, grant.sandbox.workspace_access == "rw"
        async with self.sandboxes.prepare(is_conversation=boxed.is_conversation) as slot:
            checkout = self._checkout(boxed, slot.work, slot.outside)
            filled = await checkout.fill()
            sandbox = RunSandbox(
                config=config,
                work=slot.work,
                is_writable=is_writable,
                home=slot.home,
                sockets=slot.sockets,
                network=grant.network,
            )
            commands = RunCommandGate(boxed)
            native = make_native(
                grant=grant,
                sandbox=sandbox,
                taint=boxed.taint,
                hooks=boxed.hooks,
                audit=boxed.audit,
                check_command=commands.objection,
            )
            native = commands.asking(native)
            async with _way_out(boxed, slot.sockets) as proxy:
                yield OpenedSandbox(
                    native=_closing(native, boxed.taint, proxy), prompt=_prompt_of(filled)
                )
            if words := (await checkout.check_in()).words():
                boxed.checked_in(words)

    def _checkout(self, boxed: SandboxedRun, work: Path, outside: Path) -> Checkout:
        forward = boxed.put_forward

        async def suggest(change: CheckinProposal) -> str:
            if forward is None:
                raise StorageFailedError("suggestions are not accepted here")
            return await forward(
                change.action,
                change.path,
                change.base,
                change.data,
                boxed.taint.why(boxed.grant.may_read),
            )

        return Checkout(
            store=self.store,
            index=self.index,
            grant=boxed.grant,
            author=boxed.author,
            origins=self.origins,
            taint=boxed.taint,
            folder=work,
            suggest=None if forward is None else suggest,
            uid=self.sandboxes.user[0],
            outside=outside,
            user_home=self.user_home,
            private=self.private,
            own=self.own_folders,
            audit=self.audit,
            wrote=boxed.wrote,
            hook_refused=boxed.hooks.refused,
        )


class RunCommandGate:
    """The gate of shell commands of one run, and the question to a person for one that is beyond
    the list.
    """

    def __init__(self, boxed: SandboxedRun) -> None:
        self._boxed = boxed
        self._allowed: set[str] = set()

    def objection(self, command: str, allowed: bool | tuple[str, ...]) -> str | None:  # noqa: FBT001  the gate's own shape
        return None if command in self._allowed else check_command(command, allowed)

    def asking(self, native: NativeTools) -> NativeTools:
        """The same tools, where a shell's command beyond the list is asked for.

        Who has read strangers' text asks for none.
        """

        async def before(name: str, arguments: Mapping[str, object]) -> str | None:
            command, boxed = arguments.get("command"), self._boxed
            if (
                name != "Bash"
                or not isinstance(command, str)
                or "Bash" not in native.tools
                or boxed.taint
                or boxed.ask_command is None
            ):
                return await native.before(name, arguments)
            if check_command(command, boxed.grant.bash) is None or not await boxed.ask_command(
                command
            ):
                return await native.before(name, arguments)
            self._allowed.add(command)
            try:
                return await native.before(name, arguments)
            finally:
                self._allowed.discard(command)

        return replace(native, before=before)


@asynccontextmanager
async def _way_out(boxed: SandboxedRun, sockets: Path) -> AsyncIterator[Proxy | None]:
    """The filtering proxy, for a run that was granted any network.

    What a host answers is a stranger's text, after which there is none: no new connection, and of
    those that are open only the one that answered goes on, so that the answer comes whole.
    """
    grant, taint = boxed.grant, boxed.taint
    if grant.network in ("none", ()):
        yield None
        return

    async def allowed(_host: str, _port: int) -> str | None:
        return (
            f"{taint.why(grant.may_read)}, so it may reach no network any more" if taint else None
        )

    async def beyond(host: str, port: int) -> str | None:
        said_yes = (
            not taint and boxed.ask_host is not None and await boxed.ask_host(f"{host}:{port}")
        )
        return None if said_yes else f"{grant.agent} was not granted {host}:{port}"

    proxy = Proxy(
        grant.network,
        allowed=allowed,
        beyond=beyond,
        reached=lambda host: taint.read_words(f"an answer of {host}", "web"),
    )
    loop = asyncio.get_running_loop()
    taint.at_first(lambda: loop.call_soon_threadsafe(partial(proxy.cut, but_answered=True)))
    async with open_proxy(sockets, proxy):
        yield proxy


def _closing(native: NativeTools, taint: Taint, proxy: Proxy | None) -> NativeTools:
    """The same tools, of which none leaves a way out open for the next one, once the run has read a
    stranger's text.
    """
    if proxy is None:
        return native

    def close() -> None:
        if taint:
            proxy.cut()

    async def before(name: str, arguments: Mapping[str, object]) -> str | None:
        close()
        return await native.before(name, arguments)

    async def after(
        name: str, arguments: Mapping[str, object], result: ToolResult
    ) -> NativeCallResult:
        close()
        return await native.after(name, arguments, result)

    return replace(native, before=before, after=after)


def _prompt_of(filled: CheckoutResult) -> str:
    lines = [f"Your copy has {filled.files} files."]
    lines += [f"/outside/{name} is a copy of {path}, to read." for path, name in filled.outside]
    if filled.left_out:
        lines.append("Left out of it:")
        lines += [f"- {path}: {why}" for path, why in filled.left_out[:_MOST_TOLD]]
        lines += (
            [f"- and {len(filled.left_out) - _MOST_TOLD} more"]
            if len(filled.left_out) > _MOST_TOLD
            else []
        )
    return "\n".join(lines) + "\n"
