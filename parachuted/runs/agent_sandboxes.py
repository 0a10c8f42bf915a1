"""Agent sandboxes: the container of one run: a slot, the private copy of the notes in it, and the
gate around the CLI's tools.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from parachuted.access.own_folders import OwnFolders
from parachuted.agents import RunSandbox
from parachuted.agents.sandbox.options import SandboxSlot
from parachuted.agents.sandbox.proxy import Proxy, open_proxy
from parachuted.agents.sandbox.sandboxes import Sandboxes
from parachuted.errors import StorageFailedError
from parachuted.processes.uninterrupted import run_uninterrupted
from parachuted.runs.checkout import Checkout, CheckoutResult
from parachuted.runs.native import NativeGate
from parachuted.runs.requested_run import OpenedSandbox, RequestedRun
from parachuted.tools.outside_copies import OutsideCopies, copy_outside
from parachuted.vault import Store, VaultIndex

_MOST_TOLD = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentSandboxes:
    """`Boxes` of one vault.

    `private` are folders that are never copied into one, such as the daemon's home.
    """

    sandboxes: Sandboxes
    store: Store
    index: VaultIndex
    user_home: Path
    private: tuple[Path, ...] = ()
    own_folders: OwnFolders | None = None

    async def problem(self) -> str | None:
        return (await self.sandboxes.status()).problem

    @asynccontextmanager
    async def open(self, run: RequestedRun) -> AsyncIterator[OpenedSandbox]:
        is_conversation = run.request.budget.pool == "conversation"
        async with self.sandboxes.prepare(is_conversation=is_conversation) as slot:
            checkout = Checkout(
                run.vault.files,
                self.index,
                run.grant,
                run.guard,
                folder=slot.work,
                uid=self.sandboxes.user[0],
                hook_refused=run.hooks.refused,
            )
            filled = await checkout.fill()
            outside = await run_uninterrupted(self._copy_outside, run, slot)
            sandbox = RunSandbox(
                config=run.grant.sandbox,
                work=slot.work,
                is_writable=run.grant.sandbox.workspace_access == "rw",
                home=slot.home,
                sockets=slot.sockets,
                network=run.grant.network,
            )
            async with _open_network(run, slot.sockets) as proxy:
                gate = NativeGate(
                    grant=run.grant,
                    taint=run.taint,
                    hooks=run.hooks,
                    audit=run.audit,
                    ask_command=run.guard.command,
                    cut_network=proxy.cut if proxy is not None else lambda: None,
                )
                yield OpenedSandbox(native=gate.tools(sandbox), prompt=_prompt_of(filled, outside))
            if words := (await checkout.check_in()).words():
                run.add_words(words)

    def _copy_outside(self, run: RequestedRun, slot: SandboxSlot) -> OutsideCopies:
        """Copy the folders beside the vault that it was granted; what is not the person's own
        counts as read. Raises StorageFailedError.
        """
        own = self.own_folders or OwnFolders((), self.user_home)
        try:
            copies = copy_outside(
                run.grant.outside,
                slot.outside,
                uid=self.sandboxes.user[0],
                user_home=self.user_home,
                never=(self.store.root.folder, *self.private),
                own=own,
            )
        except OSError as error:
            what = f"folders beside the vault could not be copied: {error.strerror or error}"
            raise StorageFailedError(what, errno=error.errno) from error
        for path in copies.strange:
            advice = own.advice(path.removesuffix("/**"))
            run.taint.read_words(f"a copy of {path} ({advice})", "imported")
        return copies


@asynccontextmanager
async def _open_network(run: RequestedRun, sockets: Path) -> AsyncIterator[Proxy | None]:
    """The filtering proxy, for a run that was granted any network.

    What a host answers is a stranger's text, after which there is none: no new connection, and of
    those that are open only the one that answered goes on, so that the answer comes whole.
    """
    grant, taint = run.grant, run.taint
    if grant.network in ("none", ()):
        yield None
        return

    async def allowed(_host: str, _port: int) -> str | None:
        return (
            f"{taint.why(grant.may_read)}, so it may reach no network any more" if taint else None
        )

    async def beyond(host: str, port: int) -> str | None:
        if not taint and await run.guard.host(f"{host}:{port}"):
            return None
        return f"{grant.agent} was not granted {host}:{port}"

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


def _prompt_of(filled: CheckoutResult, outside: OutsideCopies) -> str:
    lines = [f"Your copy has {filled.files} files."]
    lines += [f"/outside/{name} is a copy of {path}, to read." for path, name in outside.copied]
    left_out = [*filled.left_out, *outside.left_out]
    if left_out:
        lines.append("Left out of it:")
        lines += [f"- {path}: {why}" for path, why in left_out[:_MOST_TOLD]]
    if len(left_out) > _MOST_TOLD:
        lines.append(f"- and {len(left_out) - _MOST_TOLD} more")
    return "\n".join(lines) + "\n"
