"""Declare: a decorator marks a method and leaves it as it is; what makes no sense is refused where
it stands.
"""

from __future__ import annotations

import pytest

from parachuted.modules import event, hook, mcp_tool, route, schedule
from parachuted.modules.declare import (
    EventMark,
    HookMark,
    RouteMark,
    ScheduleMark,
    ToolMark,
    marks_of,
)
from parachuted.modules.scheduling import Timing, parse_span


def test_a_route_that_waits_for_an_agent_may_say_so_within_bounds():
    assert marks_of(route("POST", "/ask", timeout_s=180)(lambda _self: None))[0].timeout_s == 180
    for seconds in (0, 601):
        with pytest.raises(ValueError, match="@route: timeout_s: Input should be"):
            route("POST", "/ask", timeout_s=seconds)


@pytest.mark.parametrize(
    ("method", "capability"),
    [("GET", "read"), ("HEAD", "read"), ("POST", "write"), ("DELETE", "write")],
)
def test_reading_needs_read_and_all_else_write(method, capability):
    @route(method, "/entries")
    async def handler(): ...

    assert marks_of(handler) == (RouteMark(method=method, path="/entries", capability=capability),)


def test_a_method_can_be_many_things_and_stays_callable():
    @route("GET", "/a")
    @mcp_tool("find-it", description="Find it.")
    @event("daily.entry.created", is_async=False)
    @schedule(every="15m")
    def handler():
        return "done"

    assert handler() == "done"
    assert marks_of(handler) == (
        RouteMark(method="GET", path="/a", capability="read"),
        ToolMark(name="find-it", description="Find it."),
        EventMark(event="daily.entry.created", is_async=False),
        ScheduleMark(timing=Timing(every_s=900)),
    )


@pytest.mark.parametrize(
    "path", ["/", "/a", "/a/{entry_id}", "/a/{b}/c.json", "/{a}/{b}", "/a-b_c~d"]
)
def test_paths_of_routes(path):
    route("GET", path)


@pytest.mark.parametrize(
    "path",
    [
        "",
        "a",
        "/a/",
        "//a",
        "/a/../b",
        "/.",
        "/a?b",
        "/a b",
        "/{A}",
        "/{a}b",
        "/{",
        "/a\n",
        "/%2e",
        "/{a}/{a}",
        "/ä",
    ],
)
def test_what_is_not_a_path_of_a_route_is_refused(path):
    with pytest.raises(ValueError, match=r"@route: .*path|twice"):
        route("GET", path)


@pytest.mark.parametrize("method", ["get", "TRACE", "CONNECT", "OPTIONS", ""])
def test_other_methods_are_refused(method):
    with pytest.raises(ValueError, match="method: Input should be 'GET'"):
        route(method, "/a")


def test_a_capability_that_no_key_has_is_refused():
    with pytest.raises(ValueError, match="capability: Input should be 'read', 'write' or 'admin'"):
        route("GET", "/a", capability="owner")


@pytest.mark.parametrize("name", ["", "a b", "1a", "a.b", "a" * 65, "ä"])
def test_tools_have_names_that_every_agent_can_say(name):
    with pytest.raises(ValueError, match="not a name of a tool"):
        mcp_tool(name)


@pytest.mark.parametrize(
    "name", ["", "daily", "Daily.created", "daily.", ".a", "a..b", "a.b c", "file.*", "PreToolUse"]
)
def test_events_have_dotted_names(name):
    with pytest.raises(ValueError, match="not a name of an event"):
        event(name)


@pytest.mark.parametrize(
    ("text", "seconds"), [("30s", 30), ("15m", 900), ("2h", 7200), ("1d", 86400)]
)
def test_spans(text, seconds):
    assert parse_span(text) == seconds


def test_only_functions_can_be_marked():
    with pytest.raises(TypeError, match="plain method"):
        route("GET", "/a")(staticmethod(print))


def test_a_hook_is_one_of_three_and_no_listener():
    @hook("stop.before")
    def handler(): ...

    assert marks_of(handler) == (HookMark(event="stop.before"),)
    with pytest.raises(ValueError, match=r"Input should be 'prompt\.before', 'stop\.before'"):
        hook("write.before")
    with pytest.raises(ValueError, match=r"use @hook\('prompt\.before'\)"):
        event("prompt.before")
