"""Declared: a class and its manifest become one declaration, or a list of what does not go
together.
"""

# ruff: noqa: RUF012  as the people who write modules do
from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from pydantic import TypeAdapter, ValidationError

from parachuted.api import RESERVED
from parachuted.errors import ModuleFailedError
from parachuted.modules import AgentConfig, Module, event, mcp_tool, route, schedule
from parachuted.modules.registry.declaration import (
    RESERVED_PATHS,
    EventMark,
    ModuleDeclaration,
    RouteSpec,
    ScheduleMark,
    describe,
    reserved_path,
    unlisted,
)
from parachuted.modules.registry.manifest import Manifest, read_manifest
from parachuted.modules.scheduling import Timing
from tests.modules.small_modules import EXAMPLES, loaded

SMALL = "name: greeter\nversion: 1.0.0\nmodule: module.py\n"


def manifest(more: str = "") -> Manifest:
    return read_manifest(SMALL + more)


def problem(cls: type[Module], more: str = "") -> str:
    with pytest.raises(ModuleFailedError) as raised:
        describe(cls, manifest(more))
    return str(raised.value)


class Greeter(Module):
    provides = ("GreetInterface",)

    @route("GET", "/greetings/{name}")
    async def greet(self, name: str, loud: bool = False):  # noqa: FBT001, FBT002  as the people who write modules do
        """Greet one.

        Loudly, if need be.
        """

    @route("POST", "/stream", capability="admin")
    async def stream(self, text: str):
        yield text

    @mcp_tool("greet-all")
    async def greet_all(self, names: list[str]):
        """Greet them all."""

    @event("file.modified", is_async=False)
    async def on_modified(self, path: str): ...

    @schedule(every="15m")
    @schedule(at="03:00")
    async def sweep(self): ...


def test_what_a_class_declares_is_all_there():
    declared = describe(Greeter, manifest())
    named = {"method": "GET", "path": "/greetings/{name}", "handler": "greet"}
    other = {"method": "POST", "path": "/stream", "handler": "stream"}

    assert (declared.name, declared.version, declared.prefix) == (
        "greeter",
        "1.0.0",
        "/api/greeter",
    )
    assert declared.provides == ("GreetInterface",)
    assert declared.routes[0].schema["required"] == ["name"]
    assert tuple(replace(one, schema={}) for one in declared.routes) == (
        RouteSpec(**named, capability="read", streams=False, summary="Greet one."),
        RouteSpec(**other, capability="admin", streams=True, summary="stream"),
    )
    (tool,) = declared.tools
    assert (tool.name, tool.description) == ("greet-all", "Greet them all.")
    assert (tool.handler, tool.schema["required"]) == ("greet_all", ["names"])
    listens = EventMark(event="file.modified", handler="on_modified", is_async=False)
    assert declared.events == (listens,)
    assert declared.schedules == (
        ScheduleMark(handler="sweep", timing=Timing(every_s=900)),
        ScheduleMark(handler="sweep", timing=Timing(at="03:00")),
    )


@pytest.mark.parametrize(
    "wrong",
    [
        {"routes": [{"method": "TRACE", "path": "/a", "handler": "a", "capability": "read"}]},
        {"routes": [{"method": "GET", "path": "/../a", "handler": "a", "capability": "read"}]},
        {"routes": [{"method": "GET", "path": "/a", "handler": "a", "capability": "owner"}]},
        {"tools": [{"name": "a b", "description": "", "handler": "a", "schema": {}}]},
        {"tools": [{"name": "a", "description": "x" * 10**7, "handler": "a", "schema": {}}]},
        {"events": [{"event": "*", "handler": "a"}]},
        {"events": [{"event": "a.b", "handler": "a"}] * 501},
        {"schedules": [{"handler": "a", "timing": {"every_s": 10**12}}]},
        {"agents": {"a": {"paths": ["../x"]}}},
        {"more": 1},
    ],
)
def test_what_came_from_a_container_is_checked(wrong):
    known = TypeAdapter(ModuleDeclaration).dump_python(describe(Greeter, manifest()), mode="json")
    assert TypeAdapter(ModuleDeclaration).validate_python(known).name == "greeter"

    with pytest.raises(ValidationError):
        TypeAdapter(ModuleDeclaration).validate_python({**known, **wrong})


def test_the_manifests_form_is_found_in_the_files_that_it_names():
    with loaded(EXAMPLES / "brain") as (cls, read):
        declared = describe(cls, read)

        assert [(tool.handler, tool.description) for tool in declared.tools] == [
            ("tools:brain_search", "Search entities by keyword"),
            ("tools:brain_resolve", "Resolve text to a para-id"),
        ]
        assert declared.tools[0].schema == {
            "type": "object",
            "properties": {"query": {"type": "string"}},
            "required": ["query"],
            "additionalProperties": False,
        }
        heard = EventMark(event="daily.entry.created", handler="hooks:on_entry_created")
        assert declared.events == (heard,)
        assert [one.path for one in declared.routes] == ["/entities"]
        assert declared.provides == ("BrainInterface",)
        assert declared.agents["indexer"].prompt_file == "prompts/indexer.md"


def test_both_forms_may_name_the_same_thing_and_so_may_a_subclass():
    class Polite(Greeter):
        @route("GET", "/polite/{name}")
        async def greet(self, name: str): ...

        async def stream(self, text: str): ...

        @mcp_tool("find-it")
        async def find(self): ...

    said = (
        "mcp_tools: [{name: greet-all, handler: greet_all, description: Better words.}]\n"
        "hooks: [{event: file.modified, handler: on_modified}, {event: file.created, handler: "
        "on_modified}]\n"
    )
    declared = describe(Polite, manifest(said))

    assert [one.path for one in declared.routes] == ["/polite/{name}"]
    assert [(tool.name, tool.description) for tool in declared.tools] == [
        ("greet-all", "Better words."),
        ("find-it", "find it"),
    ]
    assert {one.event for one in declared.events} == {"file.created", "file.modified"}


def test_a_tool_is_for_an_agent_that_the_module_has():
    class Keeper(Module):
        agents = {"cook": {"paths": ["a/"]}}

        @mcp_tool("taste", agent="cook")
        async def taste(self): ...

        @mcp_tool("serve", agent="waiter")
        async def serve(self): ...

    said = "mcp_tools: [{name: taste, handler: taste, description: Better words.}]\n"
    reported = "the tool serve is for the agent waiter, which the module does not have"
    assert problem(Keeper, said) == reported
    Keeper.agents |= {"waiter": {"paths": ["b/"]}}
    tools = describe(Keeper, manifest(said)).tools
    assert [(tool.name, tool.agent) for tool in tools] == [("taste", "cook"), ("serve", "waiter")]
    assert tools[0].description == "Better words."


def test_agents_of_both_forms_are_taken_and_the_manifests_words_hold():
    class Agents(Module):
        agents = {
            "one": {"paths": ["a/"]},
            "two": AgentConfig(paths=("b/**",)),
            "three": AgentConfig(paths=("a/**",)),
        }

    declared = describe(Agents, manifest("agents: {three: {paths: [c/]}, four: {bash: true}}\n"))
    assert {name: agent.paths for name, agent in declared.agents.items()} == {
        "one": ("a/**",),
        "two": ("b/**",),
        "three": ("c/**",),
        "four": (),
    }


LISTED = """\
mcp_tools: [greet-all]
hooks: [file.modified]
schedules: [{every: 15m}, {at: "03:00"}]
provides: [GreetInterface]
"""


class Greeting(Greeter):
    agents = {"shy": {"paths": ["a/"]}}


def beyond(cls: type[Module], more: str) -> list[str]:
    return unlisted(describe(cls, manifest(more)), manifest(more))


@pytest.mark.parametrize(
    ("left_out", "field", "names"),
    [
        ("mcp_tools: [greet-all]\n", "mcp_tools", ["greet-all"]),
        ("hooks: [file.modified]\n", "hooks", ["file.modified"]),
        (
            'schedules: [{every: 15m}, {at: "03:00"}]\n',
            "schedules",
            ["each day at 03:00", "every 900 s"],
        ),
        ("provides: [GreetInterface]\n", "provides", ["GreetInterface"]),
    ],
)
def test_what_code_declares_beyond_its_manifest_is_named(left_out, field, names):
    assert beyond(Greeting, LISTED) == []
    assert beyond(Greeting, LISTED.replace(left_out, "")) == [
        f"manifest.yaml: {field}: add {name}, which the code declares" for name in names
    ]


def test_an_agent_that_only_code_names_never_reaches_beyond_its_module():
    class Agents(Module):
        agents = {
            "shell": {"bash": ["git"]},
            "net": {"network": True},
            "skilled": {"allow_user_skills": True},
            "outside": {"paths": ["~/Work/"]},
            "below": {"paths": ["~/Approved/it"]},
            "approved": {"paths": ["~/Approved/"], "sandbox": {"allowed_paths": ["~/Approved"]}},
            "laned": {"paths": ["a/"], "lane": ["a/"]},
        }

    reported = beyond(Agents, "permissions: {folders: [~/Approved]}\n")
    assert [says.partition(" ")[0] for says in reported] == [
        f"agents.{name}" for name in ("shell", "net", "skilled", "outside", "below", "laned")
    ]


class Doubled(Module):
    @route("GET", "/a/{b}")
    async def one(self, b: str): ...

    @route("GET", "/a/{c}")
    async def two(self, c: str): ...


class Lacks(Module):
    @route("GET", "/{entry_id}")
    async def lacks(self, other: str): ...


class Streams(Module):
    @mcp_tool("s")
    async def streams(self):
        yield 1


class Generates(Module):
    @route("GET", "/g")
    def generates(self):
        yield 1


class Static(Module):
    @staticmethod
    @route("GET", "/s")
    async def static(): ...


class Agents(Module):
    agents = {"wrong": {"path": ["a/"]}}


class Long(Module):
    @mcp_tool("t", description="x" * 10_001)
    async def tool(self): ...


def twice(self): ...


TOO_MANY = {f"t{number}": mcp_tool(f"t{number}")(lambda _self: None) for number in range(501)}
TOO_LONG = "tool.description: String should have at most 10000 characters"
NO_YIELD = "only routes that are `async def` can yield, so return one value"


@pytest.mark.parametrize(
    ("cls", "reported"),
    [
        (Agents, "wrong.path: Unknown field"),
        (
            type("Many", (Module,), TOO_MANY),
            "tools: Tuple should have at most 500 items after validation, not 501",
        ),
        (Long, TOO_LONG),
        (Doubled, "the route GET /a/{} is declared 2 times"),
        (
            type("Twice", (Module,), {name: mcp_tool("t")(twice) for name in "ab"}),
            "the tool t is declared 2 times",
        ),
        (Lacks, "lacks: the path /{entry_id} has entry_id, and no parameter takes it"),
        (Streams, f"streams: {NO_YIELD}"),
        (Generates, f"generates: {NO_YIELD}"),
        (Static, "static is not a plain method of Static"),
    ],
)
def test_what_does_not_go_together_is_reported(cls, reported):
    assert problem(cls) == reported


@pytest.mark.parametrize(
    ("handler", "reported"),
    [
        ("missing", "missing is not a plain method of BrainModule"),
        ("tools:missing", "tools:missing: there is no function missing in tools.py"),
        ("nowhere:search", "nowhere:search: nowhere.py could not be imported"),
        ("store:FOLDER", "store:FOLDER: there is no function FOLDER in store.py"),
        ("json:dumps", "json:dumps: json.py could not be imported"),
        ("broken:t", r"broken\.py could not be imported: RuntimeError: broken"),
    ],
)
def test_a_handler_that_is_not_there_is_reported(tmp_path: Path, handler, reported):
    shutil.copytree(EXAMPLES / "brain", tmp_path / "brain")
    (tmp_path / "brain/broken.py").write_text("raise RuntimeError('broken')\n")
    with loaded(tmp_path / "brain") as (cls, _):
        text = (EXAMPLES / "brain/manifest.yaml").read_text()
        read = read_manifest(text.replace("tools:brain_resolve", handler))
        with pytest.raises(ModuleFailedError, match=reported):
            describe(cls, read)


@pytest.mark.parametrize(
    ("path", "kept"),
    [
        ("/api/import", "/api/import"),
        ("/api/bots/status", "/api/bots"),
        ("/api/modules/daily/agents/x/run", "/api/modules/daily/agents"),
        ("/api/modules/daily/agentsx", None),
        ("/api/modules/daily", None),
        ("/api/importer", None),
    ],
)
def test_a_place_is_kept_with_all_below_it(path, kept):
    assert reserved_path(path) == kept


def test_no_module_can_take_such_a_place_by_its_name():
    others = {path.split("/")[2]: module for path, module in RESERVED_PATHS.items()}
    assert {name for name, module in others.items() if name != module} <= RESERVED
