"""The decorators that make a module's methods routes, tools, listeners, schedules and
interface methods.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from inspect import getattr_static, isfunction
from typing import Literal, TypeAlias, TypeVar

Method: TypeAlias = Literal["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"]
Capability: TypeAlias = Literal["read", "write", "admin"]

METHODS: tuple[Method, ...] = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE")
CAPABILITIES: tuple[Capability, ...] = ("read", "write", "admin")
MARKS = "__parachute_marks__"

EVENT_NAME = re.compile(r"[a-z][a-z0-9_-]{0,63}(\.[a-z][a-z0-9_-]{0,63}){1,5}")
INTERFACE = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,99}")
TOOL_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,63}")

_F = TypeVar("_F", bound=Callable[..., object])
_NAME = r"(?!\.\.?(?:/|$))[A-Za-z0-9._~-]+"
PATH = re.compile(rf"/|(/({_NAME}|\{{[a-z][a-z0-9_]*\}}))+")
_FIELD = re.compile(r"\{([a-z][a-z0-9_]*)\}")
_SPAN = re.compile(r"([1-9]\d{0,5})([smhd])")
LONGEST_S = 600
_SECONDS = {"s": 1, "m": 60, "h": 3_600, "d": 86_400}
CLOCK = re.compile(r"([01]\d|2[0-3]):[0-5]\d")


@dataclass(frozen=True, slots=True, kw_only=True)
class RouteMark:
    """A method answers at that path, below the module's own prefix."""

    method: Method
    path: str
    capability: Capability
    timeout_s: int = 30


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolMark:
    """Agents may call it by that name."""

    name: str
    description: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class EventMark:
    """A listener for that event. `is_async`: the publisher does not wait."""

    event: str
    is_async: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleMark:
    """It runs every so many seconds, or each day at that local time."""

    every_s: int | None
    at: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class InterfaceMark:
    """Other modules may call it, as a method of that interface."""

    interface: str


Mark: TypeAlias = RouteMark | ToolMark | EventMark | ScheduleMark | InterfaceMark


def route(
    method: str, path: str, *, capability: Capability | None = None, timeout_s: int = 30
) -> Callable[[_F], _F]:
    """Serve `method` at `path` below `/api/<module>`; `{name}` in it is a parameter.

    `capability` is what a caller's key needs on the module: by default read for GET and HEAD, write
    for all others. `timeout_s` limits the handler; one that waits for an agent needs more than the
    default.
    """
    known = next((one for one in METHODS if one == method), None)
    if known is None:
        raise ValueError(f"@route: {method!r} is none of {', '.join(METHODS)}")
    if not PATH.fullmatch(path):
        raise ValueError(
            f"@route: {path!r} is not a path such as '/entries' or '/entries/{{entry_id}}'"
        )
    if len(set(path_fields(path))) < len(path_fields(path)):
        raise ValueError(f"@route: {path!r} names a parameter twice")
    if capability not in {None, *CAPABILITIES}:
        raise ValueError(f"@route: {capability!r} is none of {', '.join(CAPABILITIES)}")
    if not 1 <= timeout_s <= LONGEST_S:
        raise ValueError(
            f"@route: timeout_s={timeout_s!r} is not between 1 and {LONGEST_S} seconds"
        )
    usual: Capability = "read" if known in {"GET", "HEAD"} else "write"
    return _marking(
        RouteMark(method=known, path=path, capability=capability or usual, timeout_s=timeout_s)
    )


def mcp_tool(name: str, *, description: str | None = None) -> Callable[[_F], _F]:
    """Let agents call it by `name`. The description defaults to the docstring."""
    if not TOOL_NAME.fullmatch(name):
        raise ValueError(f"@mcp_tool: {name!r} is not the name of a tool, such as 'daily-search'")
    return _marking(ToolMark(name=name, description=description))


def event(name: str, *, is_async: bool = True) -> Callable[[_F], _F]:
    """Call it whenever that happens, with the event's data by name."""
    if not EVENT_NAME.fullmatch(name):
        raise ValueError(
            f"@event: {name!r} is not the name of an event, such as 'daily.entry.created'"
        )
    return _marking(EventMark(event=name, is_async=is_async))


def schedule(*, every: str | None = None, at: str | None = None) -> Callable[[_F], _F]:
    """Run it `every="15m"` (s, m, h, d), or each day `at="03:00"` local time; missed while the
    daemon was off, it runs once.
    """
    if (every is None) == (at is None):
        raise ValueError('@schedule: say either every="15m" or at="03:00"')
    if at is not None and not CLOCK.fullmatch(at):
        raise ValueError(f"@schedule: at={at!r} is not a time such as '03:00'")
    return _marking(ScheduleMark(every_s=None if every is None else parse_span(every), at=at))


def interface(name: str) -> Callable[[_F], _F]:
    """Let other modules call it as a method of that interface, which the module provides.

    No other method can be called by them.
    """
    if not INTERFACE.fullmatch(name):
        raise ValueError(
            f"@interface: {name!r} is not the name of an interface, such as 'BrainInterface'"
        )
    return _marking(InterfaceMark(interface=name))


def parse_span(text: str) -> int:
    """Seconds of `15m`; raises ValueError."""
    found = _SPAN.fullmatch(text)
    if not found:
        raise ValueError(f"{text!r} is not a duration such as '30s', '15m', '2h' or '1d'")
    return int(found[1]) * _SECONDS[found[2]]


def path_fields(path: str) -> tuple[str, ...]:
    """The names between braces in a route's path."""
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
        isinstance(mark, InterfaceMark | ToolMark) for mark in marks
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
