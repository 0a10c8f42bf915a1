"""Run container: the copy, the network and the checked calls of a run with tools of the CLI's."""

from __future__ import annotations

import asyncio
import json
import posixpath
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, closing
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path, PurePath

from parachuted.access.bash_rules import check_command
from parachuted.access.grant import Grant
from parachuted.access.own_folders import OwnFolders
from parachuted.access.paths import is_control, is_hidden
from parachuted.access.strangers import Taint
from parachuted.agents.job import Job, NativeTools, RunFolder, RunSandbox, ToolResult
from parachuted.agents.sandbox.archive import ArchiveWriter
from parachuted.agents.sandbox.proxy import Proxy, open_proxy
from parachuted.agents.sandbox.sandboxes import Sandboxes
from parachuted.errors import AgentUnavailableError, storage_errors
from parachuted.processes.uninterrupted import run_uninterrupted
from parachuted.runs.checkout import Checkout, CheckoutResult, shown
from parachuted.runs.outside_folders import OutsideCopies, copy_outside
from parachuted.runs.run import Run
from parachuted.vault import Store, VaultIndex

_LONGEST_INPUT = 2_000
_VAULT = "/vault"
_READABLE = (_VAULT, "/outside", "/tmp")  # noqa: S108  the container's own
_WRITERS = frozenset({"Write", "Edit", "MultiEdit", "NotebookEdit"})
_READERS = frozenset({"Read", "Glob", "Grep", "LS"})
_REACHERS = frozenset({"Bash", "WebFetch", "WebSearch"})
_PLACES = ("file_path", "notebook_path", "path")
_MOST_WAITING = 100
_MOST_NAMED = 20
_NONE = "this daemon has none"


@dataclass(frozen=True, slots=True, kw_only=True)
class RunContainers:
    """Without `sandboxes` no agent has a shell."""

    sandboxes: Sandboxes | None
    store: Store
    index: VaultIndex
    user_home: Path
    own_folders: OwnFolders
    private: tuple[Path, ...] = ()

    async def problem(self) -> str | None:
        if self.sandboxes is None:
            return _NONE
        return (await self.sandboxes.status()).problem

    @asynccontextmanager
    async def open(self, run: Run) -> AsyncIterator[Job]:
        """The job over a private copy, which is checked in when this is left without an error."""
        config = run.grant.sandbox
        sandboxes = self.sandboxes
        if sandboxes is None:
            raise AgentUnavailableError(_NONE)
        async with sandboxes.prepare() as folder:
            checkout = Checkout(
                run.vault.files,
                self.index,
                run.grant,
                run.guard,
                folder=folder,
                owner=sandboxes.user if config.workspace_access == "rw" else None,
                hook_refused=run.hooks.refused,
            )
            filled = await checkout.fill()
            outside = await run_uninterrupted(self._copy_outside, run, folder)
            sandbox = RunSandbox(config=config, folder=folder, network=run.grant.network)
            async with _open_network(run, folder.sockets) as cut:
                gate = NativeGate(run, cut)
                system = f"{run.job.system_prompt}\n{_prompt_of(filled, outside)}"
                yield replace(run.job, native=gate.tools(sandbox), system_prompt=system)
            if words := (await checkout.check_in()).words():
                run.add_words(words)

    def _copy_outside(self, run: Run, folder: RunFolder) -> OutsideCopies:
        """What is not the person's own counts as read."""
        with (
            storage_errors("folders beside the vault could not be copied"),
            closing(ArchiveWriter(folder.outside, None)) as into,
        ):
            copies = copy_outside(
                run.grant.outside,
                into,
                user_home=self.user_home,
                never=(self.store.root.folder, *self.private),
                own=self.own_folders,
            )
        for path in copies.strange:
            advice = self.own_folders.advice(path.removesuffix("/**"))
            run.taint.read(f"a copy of {path} ({advice})")
        return copies


@asynccontextmanager
async def _open_network(run: Run, sockets: Path) -> AsyncIterator[Callable[[], object]]:
    """The filtering proxy, and what cuts it. What a host answers is a stranger's text: after it
    there is no new connection, and of those that are open only the one that answered goes on, so
    that the answer comes whole.
    """
    grant, taint = run.grant, run.taint
    if grant.network in ("none", ()):
        yield lambda: None
        return

    async def decide(host: str, port: int, objection: str | None) -> str | None:
        if not taint and objection is not None:
            is_allowed = await run.guard.beyond("network", f"{host}:{port}")
            objection = None if is_allowed else f"{grant.agent} was not granted {host}:{port}"
        return f"{taint.why()}, so it may reach no network any more" if taint else objection

    def reached(host: str) -> None:
        taint.read(f"an answer of {host}")

    proxy = Proxy(grant.network, decide=decide, reached=reached)
    loop = asyncio.get_running_loop()
    taint.at_first(lambda: loop.call_soon_threadsafe(partial(proxy.cut, but_answered=True)))
    async with open_proxy(sockets, proxy):
        yield proxy.cut


def _prompt_of(filled: CheckoutResult, outside: OutsideCopies) -> str:
    lines = [f"Your copy has {filled.files} files."]
    lines += [f"/outside/{name} is a copy of {path}, to read." for path, name in outside.copied]
    left_out = [*filled.left_out, *outside.left_out]
    lines += ["Left out of it:"] if left_out else []
    lines += [f"- {path}: {why}" for path, why in left_out[:_MOST_NAMED]]
    lines += [f"- and {len(left_out) - _MOST_NAMED} more"] if left_out[_MOST_NAMED:] else []
    return "\n".join(lines) + "\n"


class NativeGate:
    """Checks each call of the CLI's own tools. `cut_network` leaves no way out open, once the run
    has read a stranger's text.
    """

    def __init__(self, run: Run, cut_network: Callable[[], object]) -> None:
        self._run, self._cut_network = run, cut_network
        # calls that were let through, by their ids: when each began, what hooks add to its answer
        self._waiting: dict[str, tuple[float, tuple[str, ...]]] = {}

    def tools(self, sandbox: RunSandbox) -> NativeTools:
        native = self._run.grant.native
        return NativeTools(tools=native, sandbox=sandbox, before=self.before, after=self.after)

    async def before(self, name: str, arguments: Mapping[str, object], use: str = "") -> str | None:
        reason, context = await self._look_at(name, arguments, use)
        if reason is not None:
            result = ToolResult.refusal(reason)
            self._run.record_call(name, _placed(arguments), result, 0.0)
        elif len(self._waiting) < _MOST_WAITING:
            self._waiting[use] = time.perf_counter(), context
        return reason

    async def _look_at(
        self, name: str, arguments: Mapping[str, object], use: str
    ) -> tuple[str | None, tuple[str, ...]]:
        grant, taint, hooks = self._run.grant, self._run.taint, self._run.hooks
        if taint:
            self._cut_network()
        if await self._is_allowed_by_person(name, arguments):
            grant = replace(grant, bash=True)
        reason = call_objection(name, arguments, grant, taint)
        if reason is not None:
            return reason, ()
        named = _placed(arguments, hooks.vault)
        decision = await hooks.before_call(name, named, use)
        if not decision.allowed:
            return decision.reason, ()
        if decision.updated_input is not None and dict(decision.updated_input) != named:
            wanted = json.dumps(decision.updated_input, ensure_ascii=False, default=repr)
            reason = (
                f"a hook wants {name} to be called otherwise, so nothing was done: call it with "
                f"{wanted[:_LONGEST_INPUT]}"
            )
            return reason, ()
        # a call beside this one may have read a stranger's text while hooks worked
        return call_objection(name, arguments, grant, taint), decision.context

    async def _is_allowed_by_person(self, name: str, arguments: Mapping[str, object]) -> bool:
        """A command beyond the list, this once; a run that read strangers' text asks for none."""
        command, grant = arguments.get("command"), self._run.grant
        if name != "Bash" or not isinstance(command, str) or "Bash" not in grant.native:
            return False
        if self._run.taint or check_command(command, grant.bash) is None:
            return False
        return await self._run.guard.beyond("bash", command)

    async def after(
        self, name: str, arguments: Mapping[str, object], result: ToolResult, use: str = ""
    ) -> str:
        run = self._run
        if run.taint:
            self._cut_network()
        now = time.perf_counter()
        began, context = self._waiting.pop(use, (now, ()))
        if name in {"WebFetch", "WebSearch"}:
            run.taint.read(f"an answer to {name}")
        run.record_call(name, _placed(arguments), result, (now - began) * 1000)
        named = _placed(arguments, run.hooks.vault)
        added = await run.hooks.after_call(name, named, use, result, began)
        return "\n\n".join((*context, *added))


def call_objection(
    name: str, arguments: Mapping[str, object], grant: Grant, taint: Taint
) -> str | None:
    if name not in grant.native:
        return f"this agent does not have {name[:80]}"
    if taint and name in _REACHERS:
        return (
            f"{taint.why()}, so it may run no shell and reach no network any more; "
            "suggest_change proposes a change to a person"
        )
    if name == "Bash":
        return _bash_objection(arguments, grant)
    if name in {"WebFetch", "WebSearch"}:
        return "this agent has no network" if grant.network in ("none", ()) else None
    places = [place for key in _PLACES if (place := arguments.get(key)) is not None]
    return next(filter(None, (_place_objection(name, place, grant) for place in places)), None)


def _bash_objection(arguments: Mapping[str, object], grant: Grant) -> str | None:
    command = arguments.get("command")
    if not isinstance(command, str):
        return "command must be a text"
    if arguments.get("run_in_background"):
        return "background commands are not allowed here, because nothing would end them"
    return check_command(command, grant.bash)


def _place_objection(name: str, place: object, grant: Grant) -> str | None:
    """A link in the copy leads to the container's own files, of which there are none."""
    if not isinstance(place, str) or "\0" in place:
        return f"the place of {name} must be a path"
    place = posixpath.normpath(posixpath.join(_VAULT, place))
    root = next((top for top in _READABLE if f"{place}/".startswith(f"{top}/")), None)
    if root is None or (name in _WRITERS and root == "/outside"):
        return f"{shown(place)} is not among the notes, which are under {_VAULT}"
    path = place.removeprefix(_VAULT).strip("/") if root == _VAULT else ""
    if path and name in _WRITERS and is_control(path):
        return f"{shown(path)} belongs to a program or to a person, and no agent writes it"
    if path and name in _WRITERS and not grant.may_write(path):
        return f"{grant.agent} may not write {shown(path)}"
    if path and name in _READERS and is_hidden(path):
        return f"{shown(path)} is hidden: a name that begins with a dot is not a note"
    return None


def _placed(arguments: Mapping[str, object], vault: PurePath | str = "") -> dict[str, object]:
    """With the vault's own paths, from that folder on, in place of those in the container."""
    placed = dict(arguments)
    for name in _PLACES:
        place = placed.get(name)
        if isinstance(place, str):
            whole = posixpath.normpath(posixpath.join(_VAULT, place))
            if whole.startswith(f"{_VAULT}/"):
                placed[name] = posixpath.join(vault, whole.removeprefix(f"{_VAULT}/"))
    return placed
