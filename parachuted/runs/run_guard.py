"""Native gate: the check of each call of the CLI's own tools, and what a run may only suggest."""

from __future__ import annotations

import posixpath
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import PurePath

from parachuted.access.bash_rules import check_command
from parachuted.access.grant import Grant
from parachuted.access.paths import is_control, is_hidden
from parachuted.access.run_guard import ProposedChange, RunGuard
from parachuted.access.strangers import SessionTaints, Taint
from parachuted.agents.job import NativeTools, RunSandbox, ToolResult
from parachuted.agents.permission import (
    Answer,
    PendingPermission,
    PermissionRequests,
)
from parachuted.errors import ActRefusedError, EditRefusedError
from parachuted.runs.agent_hooks import AgentHooks
from parachuted.suggestions import Proposal, SuggestingRun, Suggestion
from parachuted.suggestions.payload import ProposalSink
from parachuted.vault import printable

_SHOWN_CHARS = 200
_LONGEST_TOLD = 300
_VAULT = "/vault"
_READABLE = (_VAULT, "/outside", "/tmp")  # noqa: S108  the container's own
_WRITERS = frozenset({"Write", "Edit", "MultiEdit", "NotebookEdit"})
_READERS = frozenset({"Read", "Glob", "Grep", "LS"})
_REACHERS = frozenset({"Bash", "WebFetch", "WebSearch"})
_PLACES = ("file_path", "notebook_path", "path")
_MOST_WAITING = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSuggestions:
    sink: ProposalSink
    run: SuggestingRun
    who: str = "agent"
    names: list[str] = field(default_factory=list)

    async def propose(self, proposal: Proposal) -> Suggestion:
        suggestion = await self.sink.propose(proposal)
        self.names.append(suggestion.id)
        return suggestion

    async def put_forward(self, change: ProposedChange, why: str) -> str:
        """File what it would have done; its id. Raises EditRefusedError for what is no text."""
        try:
            payload = {} if change.data is None else {"text": change.data.decode("utf-8")}
        except UnicodeDecodeError as error:
            raise EditRefusedError(
                f"{printable(change.path)} would not be text, which a person could not review"
            ) from error
        proposal = Proposal(
            source_agent=self.run.agent,
            source_session=self.run.session,
            action=change.action,
            path=change.path,
            payload=payload,
            reasoning=f"The {self.who} would have done this at once, but {why[:_LONGEST_TOLD]}.",
            base=change.base,
            run=self.run.run,
            causes=self.run.causes,
            is_strangers=self.run.is_tainted(),
        )
        return (await self.propose(proposal)).id


@dataclass(frozen=True, slots=True, kw_only=True)
class RunGuards:
    taints: SessionTaints | None = None
    suggestions: ProposalSink | None = None
    permissions: PermissionRequests | None = None
    answer_s: float = 1500.0

    def answer(self, question: PendingPermission, value: object) -> bool:
        """As a conversation does: `allow` (to begin: for the session), `deny` or a pattern."""
        if self.permissions is None:
            return False
        if value in ("allow", "deny"):
            allowed: Answer = "session" if question.kind == "trusted" else "once"
            self.permissions.answer(question.id, allowed if value == "allow" else "deny")
        elif isinstance(value, Mapping) and isinstance(value.get("pattern"), str):
            self.permissions.answer(question.id, "session", pattern=str(value["pattern"]))
        else:
            raise ActRefusedError('a permission request takes "allow", "deny" or {"pattern": ...}')
        return True

    def end(self, run: str, sessions: Sequence[str], taint: Taint, agent: str) -> None:
        """Its sessions are as tainted as the run is, and it asks for nothing more."""
        if self.permissions is not None:
            self.permissions.end_run(run, next(iter(sessions), None))
        if self.taints is not None:
            for session in sessions:
                self.taints.keep(session, taint, agent=agent)


@dataclass(slots=True, kw_only=True)
class NativeGate:
    """`cut_network` leaves no way out open, once the run has read a stranger's text."""

    guard: RunGuard
    hooks: AgentHooks
    record_call: Callable[[str, Mapping[str, object], ToolResult, float], None]
    cut_network: Callable[[], object]
    # calls that were let through, by their ids: when each began, what hooks add to its answer
    _waiting: dict[str, tuple[float, tuple[str, ...]]] = field(default_factory=dict)

    def tools(self, sandbox: RunSandbox) -> NativeTools:
        native = self.guard.grant.native
        return NativeTools(tools=native, sandbox=sandbox, before=self.before, after=self.after)

    async def before(self, name: str, arguments: Mapping[str, object], use: str = "") -> str | None:
        grant, taint = self.guard.grant, self.guard.taint
        if taint:
            self.cut_network()
        if await self._is_allowed_by_person(name, arguments):
            grant = replace(grant, bash=True)
        reason = call_objection(name, arguments, grant, taint)
        if reason is not None:
            return reason
        named = _placed(arguments, self.hooks.vault)
        reason, context = await self.hooks.before_call(name, named, use)
        if reason is not None:
            return reason
        if taint and name in _REACHERS:  # a call beside this one read it while hooks worked
            return call_objection(name, arguments, grant, taint)
        if len(self._waiting) < _MOST_WAITING:
            self._waiting[use] = time.perf_counter(), context
        return None

    async def _is_allowed_by_person(self, name: str, arguments: Mapping[str, object]) -> bool:
        """A command beyond the list, this once; a run that read strangers' text asks for none."""
        command, grant = arguments.get("command"), self.guard.grant
        if name != "Bash" or not isinstance(command, str) or "Bash" not in grant.native:
            return False
        if self.guard.taint or check_command(command, grant.bash) is None:
            return False
        return await self.guard.beyond("bash", command)

    async def after(
        self, name: str, arguments: Mapping[str, object], result: ToolResult, use: str = ""
    ) -> str:
        if self.guard.taint:
            self.cut_network()
        now = time.perf_counter()
        began, context = self._waiting.pop(use, (now, ()))
        took = (now - began) * 1000
        if name in {"WebFetch", "WebSearch"}:
            self.guard.taint.read(f"an answer to {name}")
        self.record_call(name, _placed(arguments), result, took)
        named = _placed(arguments, self.hooks.vault)
        decision = await self.hooks.after_call(name, named, use, result, took)
        return "\n\n".join((*context, *decision.context))


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
    return _place_objection(name, arguments, grant)


def _bash_objection(arguments: Mapping[str, object], grant: Grant) -> str | None:
    command = arguments.get("command")
    if not isinstance(command, str):
        return "command must be a text"
    if arguments.get("run_in_background"):
        return "background commands are not allowed here, because nothing would end them"
    return check_command(command, grant.bash)


def _place_objection(name: str, arguments: Mapping[str, object], grant: Grant) -> str | None:
    """A link in the copy leads to the container's own files, of which there are none."""
    for field_name in _PLACES:
        place = arguments.get(field_name)
        if place is None:
            continue
        if not isinstance(place, str) or "\0" in place:
            return f"{field_name} must be a path"
        reason = _objection_to(name, posixpath.normpath(posixpath.join(_VAULT, place)), grant)
        if reason is not None:
            return reason
    return None


def _objection_to(name: str, place: str, grant: Grant) -> str | None:
    root = next((top for top in _READABLE if f"{place}/".startswith(f"{top}/")), None)
    if root is None or (name in _WRITERS and root == "/outside"):
        return f"{shown(place)} is not among the notes, which are under {_VAULT}"
    path = place.removeprefix(_VAULT).strip("/")
    if root != _VAULT or not path:
        return None
    if name in _WRITERS and is_control(path):
        return f"{shown(path)} belongs to a program or to a person, and no agent writes it"
    if name in _WRITERS and not grant.may_write(path):
        return f"{grant.agent} may not write {shown(path)}"
    if name in _READERS and is_hidden(path):
        return f"{shown(path)} is hidden: a name that begins with a dot is not a note"
    return None


def shown(path: str) -> str:
    """A path that an agent chose, as messages may show it."""
    text = printable(path)
    return text if len(text) <= _SHOWN_CHARS else f"{text[:_SHOWN_CHARS]}…"


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
