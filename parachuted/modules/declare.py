"""The decorators that make a module's methods routes, tools, listeners and the like."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import KW_ONLY
from inspect import getattr_static, isfunction
from typing import Annotated, Literal, TypeAlias, TypeVar, cast

from pydantic import AfterValidator, BeforeValidator, ConfigDict, Field, ValidationInfo
from pydantic.dataclasses import dataclass

from parachuted.modules.checks import matching
from parachuted.modules.scheduling import Timing, parse_timing

Method: TypeAlias = Literal["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"]
Capability: TypeAlias = Literal["read", "write", "admin"]

_MARKS = "__parachute_marks__"
REST = "..."
STRICT = ConfigDict(extra="forbid")
LONGEST_S = 600
LARGEST_BODY = 4 << 30

_F = TypeVar("_F", bound=Callable[..., object])
_NAME = r"(?!\.\.?(?:/|$))[A-Za-z0-9._~-]+"
_PATH = re.compile(
    rf"/|(/({_NAME}|\{{[a-z][a-z0-9_]*\}}))*/({_NAME}|\{{[a-z][a-z0-9_]*(\.\.\.)?\}})"
)
_FIELD = re.compile(r"\{([a-z][a-z0-9_]*)(?:\.\.\.)?\}")
_EVENT = re.compile(r"[a-z][a-z0-9_-]{0,63}(\.[a-z][a-z0-9_-]{0,63}){1,5}")


def _each_once(path: str) -> str:
    if len(set(path_fields(path))) < len(path_fields(path)):
        raise ValueError(f"{path!r} names a parameter twice")
    return path


DeclaredName: TypeAlias = Annotated[str, Field(max_length=200)]
RoutePath: TypeAlias = Annotated[
    str,
    Field(max_length=500),
    matching(_PATH, "path such as /entries or /entries/{entry_id}"),
    AfterValidator(_each_once),
]
ToolName: TypeAlias = Annotated[
    str, matching(re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,63}"), "name of a tool such as brain_search")
]
EventName: TypeAlias = Annotated[
    str, matching(_EVENT, "name of an event such as daily.entry.created")
]
CommandName: TypeAlias = Annotated[
    str, matching(re.compile(r"[a-z][a-z0-9-]{0,39}"), "name of a command such as add")
]
Interface: TypeAlias = Annotated[
    str,
    matching(
        re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,99}"), "name of an interface such as BrainInterface"
    ),
]


class _Mark:
    """A decorator of a plain method, which it leaves as it is; the topmost comes first."""

    __slots__ = ()

    def __call__(self, function: _F) -> _F:
        if not isfunction(function):
            raise TypeError(
                "a decorator of parachuted.modules belongs on a plain method (put it below the "
                "others)"
            )
        setattr(function, _MARKS, (self, *marks_of(function)))
        return function


def _usual(capability: object, known: ValidationInfo) -> object:
    return capability or ("read" if known.data.get("method") in {"GET", "HEAD"} else "write")


@dataclass(frozen=True, slots=True, config=STRICT)
class RouteMark(_Mark):
    """Serve `method` at `path` below `/api/<module>`; `{name}` in it is a parameter, and
    `{name...}` at its end the rest of the path, with its slashes.

    `capability` is what a caller's key needs on the module: by default read for GET and HEAD, write
    for all others. `timeout_s` limits the handler; one that waits for an agent needs more than the
    default. `prefix` is another place than `/api/<module>`, of those that the core keeps for the
    module. `tolerant` is for callers that cannot be changed: names that no parameter has are
    ignored, and parameters may be sent in camelCase too. `max_bytes`: how large a body of a handler
    that takes a `Body` may be, by default 16 MB. `secret_header` is for programs
    elsewhere that can show no key: they are let in without one, if they send in this header what
    the module's `route_secret` returns. Callers of untrusted modules are refused.
    """

    method: Method
    path: RoutePath
    _: KW_ONLY
    capability: Annotated[Capability, BeforeValidator(_usual), Field(validate_default=True)] = cast(
        "Capability", None
    )
    timeout_s: Annotated[int, Field(ge=1, le=LONGEST_S)] = 30
    prefix: Annotated[str, Field(max_length=100)] = ""
    tolerant: bool = False
    max_bytes: Annotated[int, Field(ge=1, le=LARGEST_BODY)] | None = None
    secret_header: Annotated[str, Field(max_length=100)] = ""


@dataclass(frozen=True, slots=True, config=STRICT)
class ToolMark(_Mark):
    """Let agents call it by `name`. The description defaults to the docstring.

    `in_runs_only`: agents that the daemon runs, and no client of its MCP server, where its
    definition would be in every prompt for nothing. `agent`: the module's agent of that name, and
    nothing else. `writes`: all it does is to write notes, so agents of other modules that may not
    are not offered it.
    """

    name: ToolName
    _: KW_ONLY
    description: str | None = None
    in_runs_only: bool = False
    agent: Annotated[str, Field(max_length=64)] = ""
    writes: bool = False


@dataclass(frozen=True, slots=True, config=STRICT)
class EventMark(_Mark):
    """Call it whenever that happens, with the event's data by name. `handler` is the method, once
    that is known, as in the other marks.
    """

    event: EventName
    _: KW_ONLY
    is_async: bool = True
    handler: DeclaredName = ""


@dataclass(frozen=True, slots=True, kw_only=True, config=STRICT)
class ScheduleMark(_Mark):
    timing: Timing
    handler: DeclaredName = ""


@dataclass(frozen=True, slots=True, config=STRICT)
class CommandMark(_Mark):
    """Let a person call it as `parachute <module> <name> ...`. `help` defaults to the docstring."""

    name: CommandName
    _: KW_ONLY
    help: str | None = None


@dataclass(frozen=True, slots=True, config=STRICT)
class InterfaceMark(_Mark):
    """Let other modules call it as a method of that interface, which the module provides.

    No other method can be called by them.
    """

    interface: Interface


ServingMark: TypeAlias = RouteMark | ToolMark | EventMark | ScheduleMark | CommandMark
Mark: TypeAlias = ServingMark | InterfaceMark

route, mcp_tool, event = RouteMark, ToolMark, EventMark
command, interface = CommandMark, InterfaceMark


def schedule(
    *,
    every: str | None = None,
    at: str | None = None,
    cron: str | None = None,
    timezone: str | None = None,
) -> ScheduleMark:
    """Run it `every="15m"` (s, m, h, d), each day `at="03:00"`, or as `cron="0 3 * * MON-FRI"`
    says, in the machine's time zone or `timezone="Europe/Berlin"`; missed while the daemon was off,
    it runs once. One that falls due while it still runs waits for its next time.
    """
    return ScheduleMark(timing=parse_timing(every=every, at=at, cron=cron, timezone=timezone))


def path_fields(path: str) -> tuple[str, ...]:
    return tuple(_FIELD.findall(path))


def marks_of(function: object) -> tuple[Mark, ...]:
    """What the decorators of a function declared, the topmost first."""
    return tuple(getattr(function, _MARKS, ()))


def is_offered(found: object, interface: str, method: str) -> bool:
    """Whether other modules may call that method as one of the interface. A route checks a key's
    scopes, and only the daemon starts listeners and schedules.
    """
    function = getattr_static(type(found), method, None)
    marks = marks_of(function) if isfunction(function) else ()
    return InterfaceMark(interface=interface) in marks and all(
        isinstance(mark, InterfaceMark | ToolMark | CommandMark) for mark in marks
    )
