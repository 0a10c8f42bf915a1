"""Everything a module offers, from its class and manifest together, as a value that can cross
a pipe.
"""

from __future__ import annotations

import importlib
import inspect
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from types import MethodType
from typing import Annotated, TypeAlias

from pydantic import ConfigDict, Field, TypeAdapter, ValidationError
from pydantic.dataclasses import dataclass

from parachuted.access.agent_config import AgentConfig
from parachuted.errors import ModuleFailedError
from parachuted.keys.path_globs import PathGlob
from parachuted.modules.declare import (
    CAPABILITIES,
    CLOCK,
    LONGEST_S,
    PATH,
    EventMark,
    InterfaceMark,
    Mark,
    Method,
    RouteMark,
    ScheduleMark,
    ToolMark,
    marks_of,
    path_fields,
)
from parachuted.modules.module import Module
from parachuted.modules.registry.answer_schema import schema_of_answer
from parachuted.modules.registry.arguments import HandlerArguments, HandlerSignatureError, plan
from parachuted.modules.registry.manifest import (
    EventName,
    Manifest,
    ManifestPermissions,
    ToolName,
    matching,
)
from parachuted.modules.registry.wording import told

_STRICT = ConfigDict(defer_build=True, extra="forbid")
_FIELD = re.compile(r"\{[^}]*\}")
_SOME = Field(max_length=500)
_LONGEST_SPAN_S = 999_999 * 24 * 60 * 60  # of `999999d`, the longest that can be declared
DeclaredName: TypeAlias = Annotated[str, Field(max_length=200)]


class DeclaredError(ModuleFailedError):
    """The module's class and its manifest do not go together."""

    def __init__(self, problems: Collection[str]) -> None:
        self.problems = tuple(problems)
        super().__init__("; ".join(self.problems))


@dataclass(frozen=True, slots=True, kw_only=True, config=_STRICT)
class RouteSpec:
    """One route.

    `path` begins after the module's prefix; `handler` is what `resolve_handler` takes; `streams`:
    an async generator.

    A handler that has not answered after `timeout_s` is ended. `schema` is the JSON schema of its
    arguments, empty where it has none; `answer` that of what it returns, or of each item that it
    yields, empty where that is not declared.
    """

    method: Method
    path: Annotated[str, Field(max_length=500), matching(PATH, "path of a route such as /entries")]
    handler: DeclaredName
    capability: Annotated[
        str, matching(re.compile("|".join(CAPABILITIES)), "capability such as read")
    ]
    streams: bool = False
    summary: Annotated[str, Field(max_length=1_000)] = ""
    timeout_s: Annotated[int, Field(ge=1, le=LONGEST_S)] = 30
    schema: Mapping[str, object] = Field(default_factory=dict)
    answer: Mapping[str, object] = Field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True, config=_STRICT)
class ToolSpec:
    """One tool for agents.

    `schema` is the JSON schema of its arguments, `answer` that of what it returns, as of a route.
    """

    name: ToolName
    description: Annotated[str, Field(max_length=10_000)]
    handler: DeclaredName
    schema: Mapping[str, object]
    answer: Mapping[str, object] = Field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True, config=_STRICT)
class EventSpec:
    """An event that the module hears."""

    event: EventName
    handler: DeclaredName
    is_async: bool = True


@dataclass(frozen=True, slots=True, kw_only=True, config=_STRICT)
class ScheduleSpec:
    """When a handler runs by itself: every so many seconds, or each day at that local time."""

    handler: DeclaredName
    every_s: Annotated[int, Field(ge=1, le=_LONGEST_SPAN_S)] | None = None
    at: Annotated[str, matching(CLOCK, "time such as 03:00")] | None = None


@dataclass(frozen=True, slots=True, kw_only=True, config=_STRICT)
class ModuleDeclaration:
    """All that one module offers."""

    name: str
    version: str
    prefix: str
    description: str = ""
    routes: Annotated[tuple[RouteSpec, ...], _SOME] = ()
    tools: Annotated[tuple[ToolSpec, ...], _SOME] = ()
    events: Annotated[tuple[EventSpec, ...], _SOME] = ()
    schedules: Annotated[tuple[ScheduleSpec, ...], _SOME] = ()
    provides: tuple[str, ...] = ()
    agents: Mapping[str, AgentConfig] = Field(default_factory=dict)

    def document(self) -> dict[str, object]:
        """The same as JSON; `parse_declared` reads it."""
        return dict(_ADAPTER.dump_python(self, mode="json"))


def parse_declared(document: object) -> ModuleDeclaration:
    """What `ModuleDeclaration.document` wrote, from a process that is not trusted.

    Raises DeclaredError.
    """
    return _made(document)


def describe(module: Module | type[Module], manifest: Manifest) -> ModuleDeclaration:
    """All that the class and the manifest declare, both forms mixed.

    Raises DeclaredError with all that does not go together.

    It imports the files that handlers of the manifest are in, so it is called where the module's
    code may run.
    """
    return _Describing(module if isinstance(module, type) else type(module), manifest).result()


def unapproved(agents: Mapping[str, AgentConfig], manifest: Manifest) -> list[str]:
    """What is wrong with agents that a class declares: what reaches beyond the vault, or is trusted
    more than others, stands in the manifest, where a person sees it.
    """
    return [
        _SAY_IT.format(name)
        for name, one in agents.items()
        if name not in manifest.agents and _reaches_beyond(one)
    ]


def _reaches_beyond(agent: AgentConfig) -> bool:
    return bool(
        agent.bash
        or agent.wants_network
        or agent.outside_paths
        or agent.lane
        or agent.allow_user_skills
    )


def resolve_handler(module: Module, handler: str) -> Callable[..., object]:
    """The function behind a declared handler: a method, or a function of another file, which is
    given the module if it asks for it.
    """
    return _bound(_function(type(module), handler), module, is_method=":" not in handler)


def _function(cls: type[Module], handler: str) -> Callable[..., object]:
    file, _, name = handler.rpartition(":")
    if not file:
        found = inspect.getattr_static(cls, handler, None)
        if not inspect.isfunction(found):
            raise HandlerSignatureError(f"{handler} is not a method of {cls.__name__}")
        return found
    package, _, _ = cls.__module__.rpartition(".")
    try:
        found = getattr(
            importlib.import_module(f"{package}.{file}" if package else file), name, None
        )
    except Exception as error:  # a module's code runs here
        raise HandlerSignatureError(
            f"{handler}: {file}.py could not be imported: {type(error).__name__}: {error}"
        ) from error
    if not inspect.isfunction(found):
        raise HandlerSignatureError(f"{handler}: there is no function {name} in {file}.py")
    return found


def _bound(
    function: Callable[..., object], module: object, *, is_method: bool
) -> Callable[..., object]:
    first = next(iter(inspect.signature(function).parameters), None)
    return MethodType(function, module) if is_method or first in {"self", "module"} else function


class _Describing:
    """Gathers what is declared, and every mistake in it."""

    def __init__(self, cls: type[Module], manifest: Manifest) -> None:
        self._cls, self._manifest = cls, manifest
        self._problems: list[str] = []
        self._routes: list[RouteSpec] = []
        self._tools: list[ToolSpec] = []
        self._events: list[EventSpec] = []
        self._schedules: list[ScheduleSpec] = []

    def result(self) -> ModuleDeclaration:
        manifest = self._manifest
        self._compare()
        for tool in manifest.mcp_tools:
            self._add(tool.handler, ToolMark(name=tool.name, description=tool.description or None))
        for hook in manifest.hooks:
            self._add(hook.handler, EventMark(event=hook.event, is_async=hook.is_async))
        for handler, mark in self._marked():
            self._add(handler, mark)
        agents = self._agents()
        self._problems += _doubles(
            [f"{route.method} {_FIELD.sub('{}', route.path)}" for route in self._routes],
            "the route",
        )
        self._problems += _doubles([tool.name for tool in self._tools], "the tool")
        if self._problems:
            raise DeclaredError(self._problems)
        return _made(
            {
                "name": manifest.name,
                "version": manifest.version,
                "prefix": manifest.prefix,
                "description": manifest.description or self._cls.description,
                "routes": self._routes,
                "tools": self._tools,
                "events": self._events,
                "schedules": self._schedules,
                "provides": tuple(dict.fromkeys((*manifest.provides, *self._cls.provides))),
                "agents": agents,
            }
        )

    def _compare(self) -> None:
        """Where both speak they agree; and no class may do more than the manifest that a person
        approved.
        """
        for field in ("name", "version"):
            mine, its = getattr(self._cls, field), getattr(self._manifest, field)
            if mine and mine != its:
                self._problems.append(
                    f"{field} is {mine!r} in {self._cls.__name__} and {its!r} in manifest.yaml"
                )
        try:
            asked = _PERMISSIONS.validate_python(dict(self._cls.permissions))
        except ValidationError as error:
            self._problems += [
                f"permissions.{'.'.join(map(str, place))}: {says}" for place, _, says in told(error)
            ]
        else:
            beyond = _beyond(asked, self._manifest.permissions)
            self._problems += [
                f"permissions: {one} is not in manifest.yaml, which is what a person approves"
                for one in beyond
            ]

    def _marked(self) -> Iterator[tuple[str, Mark]]:
        members = {
            name: found for cls in reversed(self._cls.__mro__) for name, found in vars(cls).items()
        }
        for name, found in members.items():
            marks = marks_of(found) or marks_of(getattr(found, "__func__", None))
            if marks and not inspect.isfunction(found):
                self._problems.append(f"{name}: only plain methods can be declared")
                continue
            self._problems += self._wrongly_offered(
                name, [mark for mark in marks if isinstance(mark, InterfaceMark)], marks
            )
            yield from ((name, mark) for mark in marks if not isinstance(mark, InterfaceMark))

    def _wrongly_offered(
        self, name: str, offered: Collection[InterfaceMark], marks: Collection[Mark]
    ) -> Iterator[str]:
        """What is wrong with a method that other modules are to call."""
        for mark in offered:
            if mark.interface not in {*self._manifest.provides, *self._cls.provides}:
                yield (
                    f"{name}: the module provides no {mark.interface}; name it in provides of "
                    "manifest.yaml"
                )
        if offered and (name.startswith("_") or (hasattr(Module, name) and name != "suggest")):
            yield f"{name}: what every module has, or begins with _, cannot be an interface method"
        if offered and not all(isinstance(mark, InterfaceMark | ToolMark) for mark in marks):
            yield (
                f"{name}: a route, a listener or a schedule cannot be an interface method; give "
                "other modules a method of their own"
            )

    def _add(self, handler: str, mark: Mark) -> None:
        try:
            function = _bound(_function(self._cls, handler), object(), is_method=":" not in handler)
            arguments = plan(function)
            streams = inspect.isasyncgenfunction(function)
            if inspect.isgeneratorfunction(function) or (
                streams and not isinstance(mark, RouteMark)
            ):
                self._problems.append(
                    f"{handler}: only routes that are `async def` can yield; return one value "
                    "instead"
                )
            elif isinstance(mark, RouteMark):
                self._add_route(
                    handler, mark, arguments, schema_of_answer(function), streams=streams
                )
            elif isinstance(mark, ToolMark):
                said = (
                    mark.description
                    or inspect.getdoc(function)
                    or mark.name.replace("-", " ").replace("_", " ")
                )
                schemas = {"schema": arguments.schema(), "answer": schema_of_answer(function)}
                self._add_tool(
                    ToolSpec(name=mark.name, description=said, handler=handler, **schemas)
                )
            elif isinstance(mark, EventMark):
                self._add_event(
                    EventSpec(event=mark.event, handler=handler, is_async=mark.is_async)
                )
            elif isinstance(mark, ScheduleMark):
                self._schedules.append(
                    ScheduleSpec(handler=handler, every_s=mark.every_s, at=mark.at)
                )
        except HandlerSignatureError as error:
            self._problems.append(
                error.message
                if error.message.startswith(handler)
                else f"{handler}: {error.message}"
            )
        except ValidationError as error:
            self._problems += [
                f"{handler}: {'.'.join(map(str, place))}: {says}" for place, _, says in told(error)
            ]

    def _add_route(
        self,
        handler: str,
        mark: RouteMark,
        arguments: HandlerArguments,
        answer: Mapping[str, object],
        *,
        streams: bool,
    ) -> None:
        lacking = [
            name
            for name in path_fields(mark.path)
            if name not in arguments.names and not arguments.takes_rest
        ]
        if lacking:
            raise HandlerSignatureError(
                f"the path {mark.path} has {', '.join(lacking)}, and no parameter takes it"
            )
        summary = (
            inspect.getdoc(getattr(self._cls, handler)) or handler.replace("_", " ")
        ).partition("\n")[0]
        route = RouteSpec(
            method=mark.method,
            path=mark.path,
            handler=handler,
            capability=mark.capability,
            streams=streams,
            summary=summary,
            timeout_s=mark.timeout_s,
            schema=_schema_of(arguments),
            answer=answer,
        )
        self._routes.append(route)

    def _add_tool(self, tool: ToolSpec) -> None:
        if not any(
            (one.name, one.handler) == (tool.name, tool.handler) for one in self._tools
        ):  # said in both forms, the manifest's holds
            self._tools.append(tool)

    def _add_event(self, event: EventSpec) -> None:
        if not any(
            (one.event, one.handler) == (event.event, event.handler) for one in self._events
        ):
            self._events.append(event)

    def _agents(self) -> dict[str, AgentConfig]:
        found = dict(self._manifest.agents)
        for name, said in self._cls.agents.items():
            try:
                agent = _AGENT.validate_python(said)
            except ValidationError as error:
                self._problems += [
                    f"agents.{name}.{'.'.join(map(str, place))}: {says}"
                    for place, _, says in told(error)
                ]
                continue
            if found.get(name, agent) != agent:
                self._problems.append(
                    f"agents.{name} is one thing in {self._cls.__name__} and another in "
                    "manifest.yaml: say it in one place"
                )
            elif name not in found and _reaches_beyond(agent):
                self._problems.append(_SAY_IT.format(name))
            found[name] = agent
        return found


def _schema_of(arguments: HandlerArguments) -> dict[str, object]:
    """What callers of a route are told; a type that no schema can tell of keeps no route from being
    served.
    """
    try:
        return arguments.schema()
    except HandlerSignatureError:
        return {}


def _made(document: object) -> ModuleDeclaration:
    try:
        return _ADAPTER.validate_python(document)
    except ValidationError as error:
        raise DeclaredError(
            [f"{'.'.join(map(str, place))}: {says}" for place, _, says in told(error)]
        ) from error


def _beyond(asked: ManifestPermissions, approved: ManifestPermissions) -> Iterator[str]:
    for field in ("read", "write"):
        reach = [PathGlob(text) for text in getattr(approved, field)]
        yield from (
            f"{field} {text}"
            for text in getattr(asked, field)
            if not any(glob.covers(PathGlob(text)) for glob in reach)
        )
    yield from (f"mcp {name}" for name in asked.mcp if name not in approved.mcp)
    if asked.bash and approved.bash is not True:
        words = asked.bash if isinstance(asked.bash, tuple) else ("true",)
        allowed = approved.bash if isinstance(approved.bash, tuple) else ()
        yield from (f"bash {word}" for word in words if word not in allowed)


def _doubles(names: list[str], what: str) -> list[str]:
    return [
        f"{what} {name} is declared {count} times"
        for name, count in Counter(names).items()
        if count > 1
    ]


_ADAPTER = TypeAdapter(ModuleDeclaration)
_AGENT = TypeAdapter(AgentConfig)
_SAY_IT = (
    "agents.{} asks for bash, network, a folder beside the vault, a lane or the person's "
    "skills: say it in manifest.yaml, to be approved"
)
_PERMISSIONS = TypeAdapter(ManifestPermissions)
