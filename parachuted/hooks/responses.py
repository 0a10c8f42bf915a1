"""Hooks, their runs and trials as the documents that the API returns and the command prints."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from difflib import unified_diff
from typing import Literal, TypeAlias, cast, get_args

from typing_extensions import TypedDict

from parachuted.events.catalog import CATALOG
from parachuted.hooks.approvals import ScriptReview
from parachuted.hooks.hook import Hook, HookError, HookStatus
from parachuted.hooks.matching import compile_matcher
from parachuted.hooks.run_recorder import HookRunRecord
from parachuted.hooks.tool_names import CLI_TOOLS, OUR_TOOLS, TOOL_EVENTS
from parachuted.hooks.trials import HookTrial
from parachuted.times import Time, time_of

_AT = datetime(2026, 1, 6, tzinfo=UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class OfferedTools:
    """The modules that run, and the tools that they offer."""

    modules: frozenset[str]
    tools: frozenset[str]


def why_idle(hook: Hook, offered: OfferedTools | None) -> str | None:
    """A sentence for a person; None: it may run.

    `offered` is None where it is not known which modules run.
    """
    if hook.event in TOOL_EVENTS:
        return _fits_no_tool(hook, offered)
    kind = CATALOG.get(hook.event)
    publisher = hook.event.partition(".")[0] if kind is None else kind.publisher
    if publisher is None or offered is None or publisher in offered.modules:
        return None
    return (
        f"nothing here fires {hook.event}, which the module {publisher} publishes: it does not run"
    )


def _fits_no_tool(hook: Hook, offered: OfferedTools | None) -> str | None:
    try:
        test = compile_matcher(hook.matcher, hook.event)
    except ValueError:
        return None  # the problems of its file say why
    names = OUR_TOOLS | CLI_TOOLS | (offered.tools if offered is not None else frozenset())
    return None if any(map(test, names)) else f"its matcher {hook.matcher!r} fits no tool here"


_TextName: TypeAlias = Literal["stdin", "stdout", "stderr"]
_TEXTS: tuple[_TextName, ...] = get_args(_TextName)
_ELSEWHERE = "it does not run; `parachute hooks list`, on its machine, says why"


class HookResponse(TypedDict):
    """A hook.

    `problem`: why it does not run; `idle`: why nothing ever asks for it to. Times are of this life
    of the daemon.

    `command`: for those who may administer.
    """

    name: str
    events: list[str]
    blocking: bool
    description: str | None
    claude: str | None
    source: Literal["settings", "script"]
    matcher: str | None
    is_async: bool
    timeout_s: float
    command: str | None
    problem: str | None
    idle: str | None
    runs: int
    failures: int
    last_ms: float | None
    slowest_ms: float | None


class HooksHealthResponse(TypedDict):
    """How hooks do."""

    recent_errors_count: int


class HooksResponse(TypedDict):
    """The hooks that are in force.

    `problems`: what is wrong with the files in which they are declared.
    """

    hooks: list[HookResponse]
    health: HooksHealthResponse
    problems: list[str]


class HookErrorResponse(TypedDict):
    """A hook that failed; server and app never agreed on two of the names, so all four are
    there.
    """

    hook: str
    hook_name: str
    message: str
    error: str
    timestamp: Time


class HookErrorsResponse(TypedDict):
    """The latest failures of hooks, the newest first."""

    errors: list[HookErrorResponse]


class HookRunResponse(TypedDict):
    """A run of a hook.

    `decision`: what its answer came to; `strays`: how many processes it left behind, which were
    ended.
    """

    id: str
    hook: str
    event: str
    at: Time
    decision: str
    exit_code: int | None
    timed_out: bool
    problem: str | None
    took_ms: float
    strays: int


class HookRunDetailResponse(HookRunResponse):
    """The same with what went in and what came out, each at most 64 KB; `cut` names those that were
    longer.
    """

    stdin: str
    stdout: str
    stderr: str
    cut: list[_TextName]


class HookRunsResponse(TypedDict):
    """The latest runs, the newest first."""

    runs: list[HookRunResponse]


class HookTrialResponse(TypedDict):
    """The result of trying an event's hooks.

    `passed_over`: those whose matcher did not match.
    """

    event: str
    allowed: bool
    runs: list[HookRunDetailResponse]
    passed_over: list[str]


class ApproveHooksResponse(TypedDict):
    """The scripts that may run as they are now, and could not before."""

    approved: list[str]


class HookScriptResponse(TypedDict):
    """A script of a hook. `hash` names it as it is now, null where it may not run; `diff` is from
    what was approved, or from nothing where that was not kept.
    """

    path: str
    hash: str | None
    state: Literal["approved", "changed", "unfit"]
    diff: str


class HookDiffResponse(TypedDict):
    """The scripts of a hook."""

    files: list[HookScriptResponse]


class HookEventResponse(TypedDict):
    """An event that hooks may be for."""

    name: str
    claude: str | None
    may_block: bool
    tells: str
    fields: list[str]


def show_hook(
    listed: HookStatus, *, is_whole: bool, offered: OfferedTools | None = None
) -> HookResponse:
    """`is_whole` includes the command and its folder, which may contain secrets."""
    hook = listed.hook
    return {
        "name": hook.id,
        "events": [hook.event],
        "blocking": listed.blocking,
        "description": hook.description,
        "claude": listed.claude,
        "source": hook.source,
        "matcher": hook.matcher,
        "is_async": hook.is_async,
        "timeout_s": hook.timeout_s,
        "command": hook.shown if is_whole else None,
        "problem": listed.problem if is_whole or listed.problem is None else _ELSEWHERE,
        "idle": why_idle(hook, offered),
        "runs": listed.runs,
        "failures": listed.failures,
        "last_ms": listed.last_ms,
        "slowest_ms": listed.slowest_ms,
    }


def show_error(error: HookError) -> HookErrorResponse:
    return {
        "hook": error.hook,
        "hook_name": error.hook,
        "message": error.message,
        "error": error.message,
        "timestamp": time_of(error.timestamp),
    }


def show_run(record: HookRunRecord) -> HookRunResponse:
    fields = {name: getattr(record, name) for name in HookRunResponse.__annotations__}
    return cast("HookRunResponse", {**fields, "at": time_of(record.at)})


def show_whole_run(record: HookRunRecord) -> HookRunDetailResponse:
    return {
        **show_run(record),
        "stdin": record.stdin,
        "stdout": record.stdout,
        "stderr": record.stderr,
        "cut": [name for name in _TEXTS if getattr(record, f"is_{name}_cut")],
    }


def show_trial(trial: HookTrial) -> HookTrialResponse:
    return {
        "event": trial.event,
        "allowed": trial.allowed,
        "runs": [show_whole_run(run) for run in trial.runs],
        "passed_over": list(trial.passed_over),
    }


def show_events() -> list[HookEventResponse]:
    """Every event that hooks may be for, those that may be stopped last."""
    return [
        {
            "name": kind.name,
            "claude": kind.claude or None,
            "may_block": kind.blocks,
            "tells": kind.tells,
            "fields": list(kind.fields),
        }
        for kind in sorted(CATALOG.values(), key=lambda kind: (kind.blocks, kind.name))
    ]


def show_diff(scripts: Iterable[ScriptReview]) -> HookDiffResponse:
    return {
        "files": [
            {
                "path": str(one.path),
                "hash": one.digest,
                "state": "unfit"
                if one.digest is None
                else "approved"
                if one.is_approved
                else "changed",
                "diff": _diff(one),
            }
            for one in scripts
        ]
    }


def _diff(script: ScriptReview) -> str:
    """What is new in it; a sentence where it runs, but cannot be shown, and so would look empty."""
    if script.digest is not None and script.now is None:
        return "(it is larger than 1 MB, or no text: open it yourself before you approve it)\n"
    return "".join(
        unified_diff(
            (script.before or "").splitlines(keepends=True),
            (script.now or "").splitlines(keepends=True),
            "approved",
            "now",
        )
    )
