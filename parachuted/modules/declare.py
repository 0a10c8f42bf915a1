"""The decorators that make a module's methods routes, tools, listeners, hooks, schedules and
interface methods.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from inspect import getattr_static, isfunction
from typing import Literal, TypeAlias, TypeVar, get_args

from parachuted.modules.scheduling import Timing, parse_timing

Method: TypeAlias = Literal["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"]
Capability: TypeAlias = Literal["read", "write", "admin"]
ModuleHookEvent: TypeAlias = Literal["prompt.before", "stop.before", "compact.before"]

METHODS: tuple[Method, ...] = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE")
CAPABILITIES: tuple[Capability, ...] = ("read", "write", "admin")
HOOK_EVENTS: tuple[ModuleHookEvent, ...] = get_args(ModuleHookEvent)
MARKS = "__parachute_marks__"

EVENT_NAME = re.compile(r"[a-z][a-z0-9_-]{0,63}(\.[a-z][a-z0-9_-]{0,63}){1,5}")
INTERFACE = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,99}")
COMMAND_NAME = re.compile(r"[a-z][a-z0-9-]{0,39}")
TOOL_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,63}")

_F = TypeVar("_F", bound=Callable[..., object])
_NAME = r"(?!\.\.?(?:/|$))[A-Za-z0-9._~-]+"
PATH = re.compile(
    rf"/|(/({_NAME}|\{{[a-z][a-z0-9_]*\}}))*/({_NAME}|\{{[a-z][a-z0-9_]*(\.\.\.)?\}})"
)
REST = "..."
_FIELD = re.compile(r"\{([a-z][a-z0-9_]*)(?:\.\.\.)?\}")
LONGEST_S = 600
LARGEST_BODY = 4 << 30


@dataclass(frozen=True, slots=True, kw_only=True)
class RouteMark:
    """A method answers at that path, below the module's own prefix or `prefix`.

    `tolerant`: names it does not know are ignored, and `entryId` is `entry_id`. Who shows the
    module's secret in the header `secret_header` needs no key.
    """

    method: Method
    path: str
    capability: Capability
    timeout_s: int = 30
    prefix: str = ""
    tolerant: bool = False
    max_bytes: int | None = None
    secret_header: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolMark:
    """Agents may call it by that name; `in_runs_only`: those alone that the daemon runs; `agent`:
    the module's agent of that name alone. `writes`: none that may not write notes.
    """

    name: str
    description: str | None
    in_runs_only: bool = False
    agent: str = ""
    writes: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class EventMark:
    """A listener for that event. `is_async`: the publisher does not wait."""

    event: str
    is_async: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class HookMark:
    """It is asked before that happens, and may object."""

    event: ModuleHookEvent


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleMark:
    """It runs at these times."""

    timing: Timing


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandMark:
    """A person may call it on the command line by that word."""

    name: str
    help: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class InterfaceMark:
    """Other modules may call it, as a method of that interface."""

    interface: str


Mark: TypeAlias = (
    RouteMark | ToolMark | EventMark | HookMark | ScheduleMark | CommandMark | InterfaceMark
)


def route(
    method: str,
    path: str,
    *,
    capability: Capability | None = None,
    timeout_s: int = 30,
    prefix: str = "",
    tolerant: bool = False,
    max_bytes: int | None = None,
    secret_header: str = "",
) -> Callable[[_F], _F]:
    """Serve `method` at `path` below `/api/<module>`; `{name}` in it is a parameter, and
    `{name...}` at its end the rest of the path, with its slashes.

    `capability` is what a caller's key needs on the module: by default read for GET and HEAD, write
    for all others. `timeout_s` limits the handler; one that waits for an agent needs more than the
    default. `prefix` is another place than `/api/<module>`, of those that the core keeps for the
    module. `tolerant` is for callers that cannot be changed: names that no parameter has are
    ignored, and parameters may be sent in camelCase too. `max_bytes`: how large a body of a handler
    that takes a `Body` or a `Form` may be, by default 16 MB. `secret_header` is for programs
    elsewhere that can show no key: they are let in without one, if they send in this header what
    the module's `route_secret` returns. It has no effect in untrusted modules: nobody is let in.
    """
    known = next((one for one in METHODS if one == method), None)
    if known is None:
        raise ValueError(f"@route: {method!r} is not one of {', '.join(METHODS)}")
    if not PATH.fullmatch(path):
        raise ValueError(
            f"@route: {path!r} is not a path such as '/entries' or '/entries/{{entry_id}}'"
        )
    if len(set(path_fields(path))) < len(path_fields(path)):
        raise ValueError(f"@route: {path!r} names a parameter twice")
    if capability not in {None, *CAPABILITIES}:
        raise ValueError(f"@route: {capability!r} is not one of {', '.join(CAPABILITIES)}")
    if not 1 <= timeout_s <= LONGEST_S:
        raise ValueError(
            f"@route: timeout_s={timeout_s!r} is not between 1 and {LONGEST_S} seconds"
        )
    if max_bytes is not None and not 1 <= max_bytes <= LARGEST_BODY:
        raise ValueError(f"@route: max_bytes={max_bytes!r} is not between 1 and {LARGEST_BODY}")
    usual: Capability = "read" if known in {"GET", "HEAD"} else "write"
    return _marking(
        RouteMark(
            method=known,
            path=path,
            capability=capability or usual,
            timeout_s=timeout_s,
            prefix=prefix,
            tolerant=tolerant,
            max_bytes=max_bytes,
            secret_header=secret_header,
        )
    )


def mcp_tool(
    name: str,
    *,
    description: str | None = None,
    in_runs_only: bool = False,
    agent: str = "",
    writes: bool = False,
) -> Callable[[_F], _F]:
    """Let agents call it by `name`. The description defaults to the docstring.

    `in_runs_only`: agents that the daemon runs, and no client of its MCP server, where its
    definition would be in every prompt for nothing. `agent`: the module's agent of that name, and
    nothing else. `writes`: all it does is to write notes, so agents of other modules that may not
    are not offered it.
    """
    if not TOOL_NAME.fullmatch(name):
        raise ValueError(f"@mcp_tool: {name!r} is not the name of a tool, such as 'daily-search'")
    return _marking(
        ToolMark(
            name=name,
            description=description,
            in_runs_only=in_runs_only or bool(agent),
            agent=agent,
            writes=writes,
        )
    )


def event(name: str, *, is_async: bool = True) -> Callable[[_F], _F]:
    """Call it whenever that happens, with the event's data by name."""
    if not EVENT_NAME.fullmatch(name):
        raise ValueError(
            f"@event: {name!r} is not the name of an event, such as 'daily.entry.created'"
        )
    if name in HOOK_EVENTS:
        raise ValueError(f"@event: {name} comes before the act: use @hook({name!r})")
    return _marking(EventMark(event=name, is_async=is_async))


def hook(event: str) -> Callable[[_F], _F]:
    """Ask it before an agent is sent a prompt (`prompt.before`), ends its work (`stop.before`) or
    has its session compacted (`compact.before`), with the event's data by name.

    It returns a HookResult, or None, and has 30 seconds. The manifest's `permissions.hooks` must
    name the event.
    """
    known = next((one for one in HOOK_EVENTS if one == event), None)
    if known is None:
        raise ValueError(f"@hook: {event!r} is not one of {', '.join(HOOK_EVENTS)}")
    return _marking(HookMark(event=known))


def schedule(
    *,
    every: str | None = None,
    at: str | None = None,
    cron: str | None = None,
    timezone: str | None = None,
) -> Callable[[_F], _F]:
    """Run it `every="15m"` (s, m, h, d), each day `at="03:00"`, or as `cron="0 3 * * MON-FRI"`
    says, in the machine's time zone or `timezone="Europe/Berlin"`; missed while the daemon was off,
    it runs once. One that falls due while it still runs waits for its next time.
    """
    try:
        timing = parse_timing(every=every, at=at, cron=cron, timezone=timezone)
    except ValueError as error:
        raise ValueError(f"@schedule: {error}") from error
    return _marking(ScheduleMark(timing=timing))


def command(name: str, *, help: str | None = None) -> Callable[[_F], _F]:  # noqa: A002  as argparse calls it
    """Let a person call it as `parachute <module> <name> ...`. `help` defaults to the docstring."""
    if not COMMAND_NAME.fullmatch(name):
        raise ValueError(f"@command: {name!r} is not the name of a command, such as 'add'")
    return _marking(CommandMark(name=name, help=help))


def interface(name: str) -> Callable[[_F], _F]:
    """Let other modules call it as a method of that interface, which the module provides.

    No other method can be called by them.
    """
    if not INTERFACE.fullmatch(name):
        raise ValueError(
            f"@interface: {name!r} is not the name of an interface, such as 'BrainInterface'"
        )
    return _marking(InterfaceMark(interface=name))


def path_fields(path: str) -> tuple[str, ...]:
    return tuple(_FIELD.findall(path))


def marks_of(function: object) -> tuple[Mark, ...]:
    """What the decorators of a function declared, the topmost first."""
    return tuple(getattr(function, MARKS, ()))


def is_offered(found: object, interface: str, method: str) -> bool:
    """Whether other modules may call that method as one of the interface: it is declared so, and
    serves nothing else.

    A route checks a key's scopes, and only the daemon starts listeners and schedules; a method may
    also be an agent's tool.
    """
    function = getattr_static(type(found), method, None)
    marks = marks_of(function) if isfunction(function) else ()
    return InterfaceMark(interface=interface) in marks and all(
        isinstance(mark, InterfaceMark | ToolMark | CommandMark) for mark in marks
    )


def _marking(mark: Mark) -> Callable[[_F], _F]:
    def declared(function: _F) -> _F:
        if isinstance(function, staticmethod | classmethod | property) or not callable(function):
            raise TypeError(
                "a decorator of parachuted.modules belongs on a plain method (put it below the "
                "others)"
            )
        setattr(function, MARKS, (mark, *marks_of(function)))
        return function

    return declared
