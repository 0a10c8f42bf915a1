"""The gate around the CLI's own tools.

Before a call, these are checked: the grant, what the run has read, the gate of shell commands, the
path of a file tool, and hooks, which see Claude Code's names and the vault's paths.
"""

from __future__ import annotations

import json
import posixpath
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace

from parachuted.access.bash_rules import check_command
from parachuted.access.grant import Grant
from parachuted.access.origin import Taint
from parachuted.access.paths import is_control, is_hidden
from parachuted.agents import ToolResult
from parachuted.agents.job import NativeCallResult, NativeTools, RunSandbox
from parachuted.runs.agent_hooks import AgentHooks
from parachuted.runs.run_audit import RunAudit
from parachuted.tools.folder_files import shown

VAULT = "/vault"
_READABLE = (VAULT, "/outside", "/tmp")  # noqa: S108  the container's own
_WRITERS = frozenset({"Write", "Edit", "MultiEdit", "NotebookEdit"})
_READERS = frozenset({"Read", "Glob", "Grep", "LS"})
_REACHERS = frozenset({"Bash", "WebFetch", "WebSearch"})
_PLACES = ("file_path", "notebook_path", "path")
_PLACES_TOLD = frozenset({"file", "filePath", "filenames"})
_MOST_WAITING = 100


@dataclass(slots=True)
class _Call:
    """A call that was let through: its number, when it began, and what hooks want the agent to
    know.
    """

    use: str
    began: float
    context: tuple[str, ...]


@dataclass(slots=True, kw_only=True)
class NativeGate:
    """One run's. `ask_command` asks a person for a shell command beyond the list; `cut_network`
    leaves no way out open for the next call, once the run has read a stranger's text.
    """

    grant: Grant
    taint: Taint
    hooks: AgentHooks
    audit: RunAudit
    ask_command: Callable[[str], Awaitable[bool]]
    cut_network: Callable[[], object]
    _waiting: dict[str, list[_Call]] = field(default_factory=lambda: defaultdict(list))
    _number: int = 0

    def tools(self, sandbox: RunSandbox) -> NativeTools:
        """The CLI's own tools in that container."""
        return NativeTools(
            tools=self.grant.native, sandbox=sandbox, before=self.before, after=self.after
        )

    async def before(self, name: str, arguments: Mapping[str, object]) -> str | None:
        if self.taint:
            self.cut_network()
        grant = self.grant
        if await self._is_allowed_by_person(name, arguments):
            grant = replace(grant, bash=True)
        reason = call_objection(name, arguments, grant, self.taint)
        if reason is not None:
            return reason
        self._number += 1
        use = f"{self.hooks.session_id}-n{self._number}"
        reason, context = await self.hooks.before_call(
            name, _hook_arguments(arguments, self.hooks), use
        )
        if reason is not None:
            return reason
        if (
            self.taint and name in _REACHERS
        ):  # hooks took a while, and a call beside this one may have read something
            return call_objection(name, arguments, grant, self.taint)
        if len(self._waiting) < _MOST_WAITING:
            self._waiting[_key(name, arguments)].append(_Call(use, time.perf_counter(), context))
        return None

    async def _is_allowed_by_person(self, name: str, arguments: Mapping[str, object]) -> bool:
        """Whether a person, asked now, allows a command beyond the list, this once. A run that has
        read strangers' text asks for none.
        """
        command, grant = arguments.get("command"), self.grant
        if name != "Bash" or not isinstance(command, str) or "Bash" not in grant.native:
            return False
        if self.taint or check_command(command, grant.bash) is None:
            return False
        return await self.ask_command(command)

    async def after(
        self, name: str, arguments: Mapping[str, object], result: ToolResult
    ) -> NativeCallResult:
        """What hooks want the agent to know, and what it reads as its answer where they replaced
        it.
        """
        if self.taint:
            self.cut_network()
        call = self._begun(name, arguments)
        took = (time.perf_counter() - call.began) * 1000
        if name in {"WebFetch", "WebSearch"}:
            self.taint.read_words(f"an answer to {name}", "web")
        self.audit.record_call(name, _in_vault(arguments), result, took)
        result = replace(result, response=_in_shown_places(result.response, self.hooks))
        decision = await self.hooks.after_call(
            name, _hook_arguments(arguments, self.hooks), call.use, result, took
        )
        context = "\n\n".join((*call.context, *decision.context))
        return NativeCallResult(context=context, output=decision.updated_output)

    def _begun(self, name: str, arguments: Mapping[str, object]) -> _Call:
        key = _key(name, arguments)
        calls = self._waiting.get(key)
        if not calls:
            return _Call(f"{self.hooks.session_id}-n0", time.perf_counter(), ())
        call = calls.pop(0)
        if not calls:
            del self._waiting[key]
        return call


def call_objection(
    name: str, arguments: Mapping[str, object], grant: Grant, taint: Taint
) -> str | None:
    """Why that call of a native tool may not be made, hooks aside."""
    if name not in grant.native:
        return f"this agent does not have {name[:80]}"
    if taint and name in _REACHERS:
        return (
            f"{taint.why(grant.may_read)}, so it may run no shell and reach no network any more; "
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
    """File tools work on the copy of the notes.

    A link that leads elsewhere leads to the container's own, which holds nothing.
    """
    for field_name in _PLACES:
        place = arguments.get(field_name)
        if place is None:
            continue
        if not isinstance(place, str) or "\0" in place:
            return f"{field_name} must be a path"
        reason = _objection_to(name, posixpath.normpath(posixpath.join(VAULT, place)), grant)
        if reason is not None:
            return reason
    return None


def _objection_to(name: str, place: str, grant: Grant) -> str | None:
    root = next((top for top in _READABLE if f"{place}/".startswith(f"{top}/")), None)
    if root is None or (name in _WRITERS and root == "/outside"):
        return f"{shown(place)} is not among the notes, which are under {VAULT}"
    path = place.removeprefix(VAULT).strip("/")
    if root != VAULT or not path:
        return None
    if name in _WRITERS and is_control(path):
        return f"{shown(path)} belongs to a program or to a person, and no agent writes it"
    if name in _WRITERS and not grant.may_write(path):
        return f"{grant.agent} may not write {shown(path)}"
    return (
        f"{shown(path)} is hidden: a name that begins with a dot is not a note"
        if name in _READERS and is_hidden(path)
        else None
    )


def _hook_arguments(arguments: Mapping[str, object], hooks: AgentHooks) -> dict[str, object]:
    """The arguments with the vault's own paths, as a hook's rules and scripts know them."""
    given = dict(arguments)
    for name, path in _in_vault(arguments).items():
        if name in _PLACES and isinstance(path, str) and path != arguments.get(name):
            given[name] = posixpath.join(hooks.vault, path)
    return given


def _in_shown_places(response: object, hooks: AgentHooks) -> object:
    """An answer with the vault's own paths, where one of the CLI's tools names them."""
    if isinstance(response, str) and f"{response}/".startswith(f"{VAULT}/"):
        return posixpath.join(hooks.vault, response.removeprefix(VAULT).lstrip("/"))
    if isinstance(response, list):
        return [_in_shown_places(part, hooks) for part in response]
    if isinstance(response, Mapping):
        return {
            name: _in_shown_places(one, hooks) if name in _PLACES_TOLD else one
            for name, one in response.items()
        }
    return response


def _in_vault(arguments: Mapping[str, object]) -> dict[str, object]:
    given = dict(arguments)
    for name in _PLACES:
        place = given.get(name)
        if isinstance(place, str):
            whole = posixpath.normpath(posixpath.join(VAULT, place))
            given[name] = (
                whole.removeprefix(f"{VAULT}/") if whole.startswith(f"{VAULT}/") else place
            )
    return given


def _key(name: str, arguments: Mapping[str, object]) -> str:
    return f"{name} {json.dumps(arguments, sort_keys=True, default=repr)}"
