"""Declare: a decorator marks a method and leaves it as it is; what makes no sense is refused where
it stands.
"""

from __future__ import annotations

from functools import partial

import pytest

from parachuted.modules import event, mcp_tool, route, schedule
from parachuted.modules.declare import EventMark, RouteMark, ScheduleMark, ToolMark, marks_of
from parachuted.modules.scheduling import Timing, parse_timing


@pytest.mark.parametrize(
    ("method", "capability"),
    [("GET", "read"), ("HEAD", "read"), ("POST", "write"), ("DELETE", "write")],
)
def test_reading_needs_read_and_all_else_write(method, capability):
    @route(method, "/entries")
    async def handler(): ...

    assert marks_of(handler) == (RouteMark(method=method, path="/entries", capability=capability),)


def test_a_method_can_be_many_things_and_stays_callable():
    @route("GET", "/a", timeout_s=180)
    @mcp_tool("find-it", description="Find it.")
    @event("daily.entry.created", is_async=False)
    @schedule(every="15m")
    def handler():
        return "done"

    assert handler() == "done"
    assert marks_of(handler) == (
        RouteMark(method="GET", path="/a", capability="read", timeout_s=180),
        ToolMark(name="find-it", description="Find it."),
        EventMark(event="daily.entry.created", is_async=False),
        ScheduleMark(timing=Timing(every_s=900)),
    )
    spans = {"30s": 30, "15m": 900, "2h": 7200, "1d": 86400}
    assert {text: parse_timing(every=text).every_s for text in spans} == spans


@pytest.mark.parametrize(
    "path", ["/", "/a", "/a/{entry_id}", "/a/{b}/c.json", "/{a}/{b}", "/a-b_c~d"]
)
def test_paths_of_routes(path):
    route("GET", path)


BAD_PATHS = (
    *("", "a", "/a/", "//a", "/a/../b", "/.", "/a?b", "/a b"),
    *("/{A}", "/{a}b", "/{", "/a\n", "/%2e", "/{a}/{a}", "/ä"),
)
BAD_TOOLS = ("", "a b", "1a", "a.b", "a" * 65, "ä")
BAD_EVENTS = ("", "daily", "Daily.a", "daily.", ".a", "a..b", "a.b c", "file.*", "PreToolUse")
REFUSED = [
    *((partial(route, "GET", path), "is not a path|twice") for path in BAD_PATHS),
    *(
        (partial(route, method, "/a"), "Input should be 'GET'")
        for method in ("get", "TRACE", "CONNECT", "OPTIONS", "")
    ),
    (partial(route, "GET", "/a", capability="owner"), "should be 'read', 'write' or 'admin'"),
    *(
        (partial(route, "POST", "/ask", timeout_s=seconds), r"timeout_s\s+Input should be")
        for seconds in (0, 601)
    ),
    *((partial(mcp_tool, name), "not a name of a tool") for name in BAD_TOOLS),
    *((partial(event, name), "not a name of an event") for name in BAD_EVENTS),
]


@pytest.mark.parametrize(
    ("declare", "says"), REFUSED, ids=lambda part: str(getattr(part, "args", part))
)
def test_what_makes_no_sense_is_refused_where_it_stands(declare, says):
    with pytest.raises(ValueError, match=says):
        declare()


def test_only_functions_can_be_marked():
    with pytest.raises(TypeError, match="plain method"):
        route("GET", "/a")(staticmethod(print))
