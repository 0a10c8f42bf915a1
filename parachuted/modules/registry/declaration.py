"""Everything a module offers, from its class and manifest; and what of it the manifest lacks."""

from __future__ import annotations

import contextlib
import importlib
import inspect
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, replace
from types import MappingProxyType, MethodType
from typing import Annotated, Any, TypeAlias

from pydantic import Field, ValidationError
from pydantic.dataclasses import dataclass

from parachuted.access.agent_config import AgentConfig
from parachuted.errors import ModuleFailedError
from parachuted.modules.declare import (
    LARGEST_BODY,
    STRICT,
    CommandMark,
    DeclaredName,
    EventMark,
    InterfaceMark,
    RouteMark,
    ScheduleMark,
    ServingMark,
    ToolMark,
    marks_of,
    path_fields,
)
from parachuted.modules.module import Module
from parachuted.modules.registry.arguments import (
    HandlerArguments,
    schema_of_answer,
)
from parachuted.modules.registry.manifest import Manifest
from parachuted.modules.settings import SettingSpec, setting_specs
from parachuted.texts.adapters import late_adapter
from parachuted.texts.mistakes import mistakes_in

RESERVED_PATHS: Mapping[str, str] = MappingProxyType(
    {
        "/api/modules/daily/agents": "daily",
        "/api/bots": "bots",
        "/api/claude-code": "chat",
        "/api/import": "chat",
        "/api/migration": "chat",
        "/api/plugins": "chat",
        "/api/workspaces": "chat",
    }
)
"""The name of the module that may serve each place, and all below it. No other module may."""


def reserved_path(path: str) -> str | None:
    return next((place for place in RESERVED_PATHS if f"{path}/".startswith(f"{place}/")), None)


_FIELD = re.compile(r"\{[^}.]*(?=\}|\.)")
USUAL_BODY = 16 << 20
_SOME = Field(max_length=500)


@dataclass(frozen=True, slots=True, kw_only=True, config=STRICT)
class RouteSpec(RouteMark):
    """One route. `takes_body`: the body as it comes, no JSON. `schema` is of its arguments,
    `answer` of what it returns or of each item that it yields; empty where there is none.
    """

    handler: DeclaredName
    streams: bool = False
    summary: Annotated[str, Field(max_length=1_000)] = ""
    takes_body: bool = False
    max_bytes: Annotated[int, Field(ge=1, le=LARGEST_BODY)] = USUAL_BODY
    schema: Mapping[str, object] = Field(default_factory=dict)
    answer: Mapping[str, object] = Field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True, config=STRICT)
class ToolSpec(ToolMark):
    description: Annotated[str, Field(max_length=10_000)]
    handler: DeclaredName
    schema: Mapping[str, object]
    answer: Mapping[str, object] = Field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True, config=STRICT)
class CommandSpec(CommandMark):
    help: Annotated[str, Field(max_length=2_000)]
    handler: DeclaredName
    schema: Mapping[str, object]


_Spec: TypeAlias = RouteSpec | ToolSpec | CommandSpec | EventMark | ScheduleMark


@dataclass(frozen=True, slots=True, kw_only=True, config=STRICT)
class ModuleDeclaration:
    """All that one module offers. `finds_para`: it has things with ids (`Module.find_para`)."""

    name: str
    version: str
    prefix: str
    description: str = ""
    routes: Annotated[tuple[RouteSpec, ...], _SOME] = ()
    tools: Annotated[tuple[ToolSpec, ...], _SOME] = ()
    events: Annotated[tuple[EventMark, ...], _SOME] = ()
    schedules: Annotated[tuple[ScheduleMark, ...], _SOME] = ()
    provides: tuple[str, ...] = ()
    agents: Mapping[str, AgentConfig] = Field(default_factory=dict)
    has_doctor: bool = False
    settings: Annotated[tuple[SettingSpec, ...], _SOME] = ()
    commands: Annotated[tuple[CommandSpec, ...], _SOME] = ()
    finds_para: bool = False

    def __post_init__(self) -> None:
        for route in self.routes:
            if route.prefix and RESERVED_PATHS.get(route.prefix) != self.name:
                own = [path for path, module in RESERVED_PATHS.items() if module == self.name]
                raise ValueError(
                    f"{route.handler}: {route.prefix} is not kept for the module {self.name}; "
                    f"{' and '.join(own) if own else 'nothing outside its own prefix'} is"
                )

    def prefix_of(self, route: RouteSpec) -> str:
        return route.prefix or self.prefix


def describe(cls: type[Module], manifest: Manifest) -> ModuleDeclaration:
    """All that the class and the manifest declare, importing the files of the manifest's handlers:
    where the module's code may run. Raises ModuleFailedError where that does not go together.
    """
    described = {tool.name: tool.description for tool in manifest.mcp_tools if tool.description}
    specs = list[_Spec]()
    for handler, mark in _marks(cls, manifest):
        function = resolve_handler(cls, handler)
        try:
            specs.append(_spec(function, handler, mark, described))
        except ValidationError as error:
            raise ModuleFailedError("; ".join(mistakes_in(error, handler))) from error
        except ModuleFailedError as error:
            raise ModuleFailedError(f"{handler}: {error.message}") from error
    try:
        declared = ModuleDeclaration(
            name=manifest.name,
            version=manifest.version,
            prefix=manifest.prefix,
            description=manifest.description or cls.description,
            routes=tuple(spec for spec in specs if isinstance(spec, RouteSpec)),
            tools=tuple(spec for spec in specs if isinstance(spec, ToolSpec)),
            events=tuple(spec for spec in specs if isinstance(spec, EventMark)),
            schedules=tuple(spec for spec in specs if isinstance(spec, ScheduleMark)),
            provides=tuple(dict.fromkeys((*manifest.provides, *cls.provides))),
            agents={**_AGENTS().validate_python(cls.agents), **manifest.agents},
            settings=setting_specs(cls.Settings),
            commands=tuple(spec for spec in specs if isinstance(spec, CommandSpec)),
            has_doctor=cls.doctor is not Module.doctor,
            finds_para=cls.find_para is not Module.find_para,
        )
    except ValidationError as error:
        raise ModuleFailedError("; ".join(mistakes_in(error))) from error
    except ValueError as error:
        raise ModuleFailedError(str(error)) from error
    _check_names(declared)
    return declared


def unlisted(declared: ModuleDeclaration, manifest: Manifest) -> list[str]:
    """What a loaded module declares that its manifest does not name, with what to do about it."""
    beyond: dict[str, set[str]] = {
        "mcp_tools": {spec.name for spec in declared.tools}
        - {tool.name for tool in manifest.mcp_tools},
        "hooks": {spec.event for spec in declared.events} - {hook.event for hook in manifest.hooks},
        "schedules": {spec.timing.words() for spec in declared.schedules}
        - {timing.words() for timing in manifest.schedules},
        "provides": set(declared.provides).difference(manifest.provides),
    }
    return [
        f"agents.{name} asks for bash, network, a folder beside the vault, a lane or the person's "
        "skills: say it in manifest.yaml, to be approved"
        for name, agent in declared.agents.items()
        if name not in manifest.agents and _reaches_beyond(agent, manifest)
    ] + [
        f"manifest.yaml: {field}: add {name}, which the code declares"
        for field, names in beyond.items()
        for name in sorted(names)
    ]


def _reaches_beyond(agent: AgentConfig, manifest: Manifest) -> bool:
    """Below an approved outside folder is not within it: it may be a link that leads elsewhere."""
    outside = {path.removesuffix("/**").rstrip("/") for path in agent.outside_paths}
    return bool(
        agent.bash
        or agent.wants_network
        or not outside.issubset(manifest.permissions.folders)
        or agent.lane
        or agent.allow_user_skills
    )


def resolve_handler(module: Module | type[Module], handler: str) -> Callable[..., object]:
    """The function behind a declared handler: a method, or a function of another file, which is
    given the module if it asks for it. Raises ModuleFailedError.
    """
    cls = module if isinstance(module, type) else type(module)
    file, _, name = handler.rpartition(":")
    if not file:
        function_type = inspect.getattr_static(cls, handler, None)
        if not inspect.isfunction(function_type):
            raise ModuleFailedError(f"{handler} is not a plain method of {cls.__name__}")
        return MethodType(function_type, module)
    package, _, _ = cls.__module__.rpartition(".")
    try:
        code = importlib.import_module(f"{package}.{file}" if package else file)
    except Exception as error:  # a module's code runs here
        raise ModuleFailedError(
            f"{handler}: {file}.py could not be imported: {type(error).__name__}: {error}"
        ) from error
    function = getattr(code, name, None)
    if not inspect.isfunction(function):
        raise ModuleFailedError(f"{handler}: there is no function {name} in {file}.py")
    first = next(iter(inspect.signature(function).parameters), None)
    return MethodType(function, module) if first in {"self", "module"} else function


def _marks(cls: type[Module], manifest: Manifest) -> Iterator[tuple[str, ServingMark]]:
    """What the manifest and decorators declare, by handler."""
    members = {name: found for base in reversed(cls.__mro__) for name, found in vars(base).items()}
    decorated = dict.fromkeys(
        (name, mark)
        for name, found in members.items()
        for mark in marks_of(found) or marks_of(getattr(found, "__func__", None))
        if not isinstance(mark, InterfaceMark)
    )
    tools = {(handler, mark.name) for handler, mark in decorated if isinstance(mark, ToolMark)}
    events = {(handler, mark.event) for handler, mark in decorated if isinstance(mark, EventMark)}
    for tool in manifest.mcp_tools:
        if tool.handler and (tool.handler, tool.name) not in tools:
            yield tool.handler, ToolMark(name=tool.name)
    for hook in manifest.hooks:
        if hook.handler and (hook.handler, hook.event) not in events:
            yield hook.handler, EventMark(event=hook.event, is_async=hook.is_async)
    yield from decorated


def _spec(
    function: Callable[..., object], handler: str, mark: ServingMark, described: Mapping[str, str]
) -> _Spec:
    """Raises ModuleFailedError, ValidationError."""
    arguments, streams = HandlerArguments(function), inspect.isasyncgenfunction(function)
    if inspect.isgeneratorfunction(function) or (streams and not isinstance(mark, RouteMark)):
        raise ModuleFailedError("only routes that are `async def` can yield, so return one value")
    if arguments.body_name and not isinstance(mark, RouteMark):
        raise ModuleFailedError("only a route can be given a Body")
    fields: dict[str, Any] = {**asdict(mark), "handler": handler}
    about = inspect.getdoc(function) or ""
    match mark:
        case RouteMark():
            lacking = [name for name in path_fields(mark.path) if name not in arguments.names]
            if lacking and not arguments.takes_rest:
                raise ModuleFailedError(
                    f"the path {mark.path} has {', '.join(lacking)}, and no parameter takes it"
                )
            schema = dict[str, object]()
            with contextlib.suppress(ModuleFailedError):  # without a schema it can be served
                schema = arguments.schema()
            fields |= {
                "max_bytes": mark.max_bytes or USUAL_BODY,
                "streams": streams,
                "summary": (about or handler.replace("_", " ")).partition("\n")[0],
                "takes_body": arguments.body_name is not None,
            }
            return RouteSpec(**fields, schema=schema, answer=schema_of_answer(function))
        case ToolMark():
            words = described.get(mark.name) or mark.description or about
            fields["description"] = words or re.sub("[-_]", " ", mark.name)
            answer = schema_of_answer(function)
            return ToolSpec(**fields, schema=arguments.schema(), answer=answer)
        case CommandMark():
            fields["help"] = mark.help or about or mark.name.replace("-", " ")
            return CommandSpec(**fields, schema=arguments.schema())
        case EventMark() | ScheduleMark():
            return replace(mark, handler=handler)


def _check_names(declared: ModuleDeclaration) -> None:
    # two paths that differ in the names of their parameters alone are one
    names = [
        f"the route {route.method} {route.prefix}{_FIELD.sub('{', route.path)}"
        for route in declared.routes
    ]
    names += [f"the tool {tool.name}" for tool in declared.tools]
    names += [f"the command {command.name}" for command in declared.commands]
    for name, count in Counter(names).items():
        if count > 1:
            raise ModuleFailedError(f"{name} is declared {count} times")
    for tool in declared.tools:
        if tool.agent and tool.agent not in declared.agents:
            raise ModuleFailedError(
                f"the tool {tool.name} is for the agent {tool.agent}, which the module does not "
                "have"
            )


_AGENTS = late_adapter(dict[str, AgentConfig])
