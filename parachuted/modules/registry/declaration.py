"""Everything a module offers, from its class and manifest; and what of it the manifest lacks."""

from __future__ import annotations

import contextlib
import importlib
import inspect
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from types import MappingProxyType, MethodType
from typing import Annotated, Any, TypeAlias, TypeVar

from pydantic import Field, TypeAdapter, ValidationError
from pydantic.dataclasses import dataclass

from parachuted.access.agent_config import AgentConfig
from parachuted.errors import ModuleFailedError
from parachuted.modules.checks import mistakes_in
from parachuted.modules.declare import (
    LARGEST_BODY,
    STRICT,
    CommandMark,
    DeclaredName,
    EventMark,
    InterfaceMark,
    Mark,
    RouteMark,
    ScheduleMark,
    ServingMark,
    ToolMark,
    marks_of,
    path_fields,
)
from parachuted.modules.module import Module, is_every_modules
from parachuted.modules.registry.approved import ApprovedModule
from parachuted.modules.registry.arguments import (
    HandlerArguments,
    HandlerSignatureError,
    schema_of_answer,
)
from parachuted.modules.registry.manifest import Manifest
from parachuted.modules.settings import SettingSpec, setting_specs

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


_FIELD = re.compile(r"\{[^}]*\}")
_LONGEST_TOOL = 128  # as the Messages API takes it
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


_Kind = TypeVar("_Kind")
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
    where the module's code may run. Raises ModuleFailedError with all that does not go together.
    """
    problems = [
        f"{field} is {mine!r} in {cls.__name__} and {its!r} in manifest.yaml"
        for field, mine, its in (
            ("name", cls.name, manifest.name),
            ("version", cls.version, manifest.version),
        )
        if mine and mine != its
    ]
    specs, settings = list[_Spec](), tuple[SettingSpec, ...]()
    for handler, mark in dict.fromkeys(_marks(cls, manifest, problems)):
        try:
            specs.append(_spec(cls, handler, mark))
        except HandlerSignatureError as error:
            says = error.message
            problems.append(says if says.startswith(handler) else f"{handler}: {says}")
        except ValidationError as error:
            problems += mistakes_in(error, handler)
    agents = _agents(cls, manifest, problems)
    try:
        settings = setting_specs(cls.Settings)
    except ValueError as error:
        problems.append(str(error))
    problems += _wrong_names(manifest.name, specs, agents)
    if problems:
        raise ModuleFailedError("; ".join(problems))
    try:
        return ModuleDeclaration(
            name=manifest.name,
            version=manifest.version,
            prefix=manifest.prefix,
            description=manifest.description or cls.description,
            routes=_of(RouteSpec, specs),
            tools=_of(ToolSpec, specs),
            events=_of(EventMark, specs),
            schedules=_of(ScheduleMark, specs),
            provides=tuple(dict.fromkeys((*manifest.provides, *cls.provides))),
            agents=agents,
            settings=settings,
            commands=_of(CommandSpec, specs),
            has_doctor=cls.doctor is not Module.doctor,
            finds_para=cls.find_para is not Module.find_para,
        )
    except ValidationError as error:
        raise ModuleFailedError("; ".join(mistakes_in(error))) from error


def unlisted(declared: ModuleDeclaration, approved: ApprovedModule) -> list[str]:
    """What a loaded module declares that its manifest does not name, with what to do about it."""
    manifest = approved.manifest
    found = [
        f"agents.{name} asks for bash, network, a folder beside the vault, a lane or the person's "
        "skills: say it in manifest.yaml, to be approved"
        for name, agent in declared.agents.items()
        if name not in manifest.agents and _reaches_beyond(agent, manifest)
    ]
    timings = [timing.words() for timing in manifest.schedules]
    listed: dict[str, tuple[Iterable[str], Collection[str]]] = {
        "mcp_tools": (
            (spec.name for spec in declared.tools),
            {tool.name for tool in manifest.mcp_tools},
        ),
        "hooks": (
            (spec.event for spec in declared.events),
            {hook.event for hook in manifest.hooks},
        ),
        "schedules": ((spec.timing.words() for spec in declared.schedules), timings),
        "provides": (declared.provides, manifest.provides),
    }
    return found + [
        f"manifest.yaml: {field}: add {name}, which the code declares"
        for field, (names, known) in listed.items()
        for name in dict.fromkeys(names)
        if name not in known
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
    given the module if it asks for it. Raises HandlerSignatureError.
    """
    cls = module if isinstance(module, type) else type(module)
    file, _, name = handler.rpartition(":")
    if not file:
        found = inspect.getattr_static(cls, handler, None)
        if not inspect.isfunction(found):
            raise HandlerSignatureError(f"{handler} is not a method of {cls.__name__}")
        return MethodType(found, module)
    package, _, _ = cls.__module__.rpartition(".")
    try:
        code = importlib.import_module(f"{package}.{file}" if package else file)
    except Exception as error:  # a module's code runs here
        raise HandlerSignatureError(
            f"{handler}: {file}.py could not be imported: {type(error).__name__}: {error}"
        ) from error
    function = getattr(code, name, None)
    if not inspect.isfunction(function):
        raise HandlerSignatureError(f"{handler}: there is no function {name} in {file}.py")
    first = next(iter(inspect.signature(function).parameters), None)
    return MethodType(function, module) if first in {"self", "module"} else function


def _marks(
    cls: type[Module], manifest: Manifest, problems: list[str]
) -> Iterator[tuple[str, ServingMark]]:
    """What the manifest and decorators declare, by handler. The manifest's description holds."""
    decorated = list(_decorated(cls, manifest, problems))
    known = {(_key(mark), at) for handler, mark in decorated for at in ("", handler)}
    tools = {tool.name: tool.description or None for tool in manifest.mcp_tools}
    listed: list[tuple[str, ServingMark]] = [
        *((tool.handler, ToolMark(name=tool.name)) for tool in manifest.mcp_tools),
        *(
            (hook.handler, EventMark(event=hook.event, is_async=hook.is_async))
            for hook in manifest.hooks
        ),
    ]
    for handler, mark in listed:
        field, name = _key(mark)
        if not handler and ((field, name), "") not in known:
            problems.append(
                f"manifest.yaml: {field}: {name} needs a handler, or a method with its decorator"
            )
    new = [(at, mark) for at, mark in listed if at and (_key(mark), at) not in known]
    for handler, mark in (*new, *decorated):
        if isinstance(mark, ToolMark) and tools.get(mark.name):
            yield handler, replace(mark, description=tools[mark.name])
        else:
            yield handler, mark


def _key(mark: ServingMark) -> tuple[str, str]:
    """The field of the manifest that it belongs to, and its name there."""
    match mark:
        case ToolMark():
            return "mcp_tools", mark.name
        case EventMark():
            return "hooks", mark.event
    return "", ""


def _decorated(
    cls: type[Module], manifest: Manifest, problems: list[str]
) -> Iterator[tuple[str, ServingMark]]:
    members = {name: found for base in reversed(cls.__mro__) for name, found in vars(base).items()}
    provided = {*manifest.provides, *cls.provides}
    for name, found in members.items():
        marks = marks_of(found) or marks_of(getattr(found, "__func__", None))
        if marks and not inspect.isfunction(found):
            problems.append(f"{name}: only plain methods can be declared")
            continue
        problems += _wrong_interfaces(name, marks, provided)
        yield from ((name, mark) for mark in marks if not isinstance(mark, InterfaceMark))


def _wrong_interfaces(
    name: str, marks: Collection[Mark], provided: Collection[str]
) -> Iterator[str]:
    offered = [mark.interface for mark in marks if isinstance(mark, InterfaceMark)]
    for interface in (name for name in offered if name not in provided):
        yield f"{name}: the module provides no {interface}; name it in provides of manifest.yaml"
    if offered and (name.startswith("_") or is_every_modules(name)):
        yield f"{name}: what every module has, or begins with _, cannot be an interface method"
    if offered and not all(
        isinstance(mark, InterfaceMark | ToolMark | CommandMark) for mark in marks
    ):
        yield (
            f"{name}: a route, a listener or a schedule cannot be an interface method; give "
            "other modules a method of their own"
        )


def _spec(cls: type[Module], handler: str, mark: ServingMark) -> _Spec:
    function = resolve_handler(cls, handler)
    arguments, streams = HandlerArguments(function), inspect.isasyncgenfunction(function)
    if inspect.isgeneratorfunction(function) or (streams and not isinstance(mark, RouteMark)):
        raise HandlerSignatureError(
            "only routes that are `async def` can yield, so return one value"
        )
    if arguments.body_name and not isinstance(mark, RouteMark):
        raise HandlerSignatureError("only a route can be given a Body")
    fields: dict[str, Any] = {**asdict(mark), "handler": handler}
    about = inspect.getdoc(function)
    match mark:
        case RouteMark():
            return RouteSpec(**fields | _route_fields(handler, mark, function, arguments))
        case ToolMark():
            fields["description"] = mark.description or about or re.sub("[-_]", " ", mark.name)
            answer = schema_of_answer(function)
            return ToolSpec(**fields, schema=arguments.schema(), answer=answer)
        case CommandMark():
            fields["help"] = mark.help or about or mark.name.replace("-", " ")
            return CommandSpec(**fields, schema=arguments.schema())
        case EventMark() | ScheduleMark():
            return replace(mark, handler=handler)


def _route_fields(
    handler: str, mark: RouteMark, function: Callable[..., object], arguments: HandlerArguments
) -> dict[str, object]:
    lacking = [name for name in path_fields(mark.path) if name not in arguments.names]
    if lacking and not arguments.takes_rest:
        raise HandlerSignatureError(
            f"the path {mark.path} has {', '.join(lacking)}, and no parameter takes it"
        )
    if mark.max_bytes is not None and arguments.body_name is None:
        raise HandlerSignatureError("max_bytes is for a handler with a parameter of the type Body")
    schema = dict[str, object]()
    with contextlib.suppress(HandlerSignatureError):  # a type without a schema can be served
        schema = arguments.schema()
    return {
        "max_bytes": mark.max_bytes or USUAL_BODY,
        "streams": inspect.isasyncgenfunction(function),
        "summary": (inspect.getdoc(function) or handler.replace("_", " ")).partition("\n")[0],
        "takes_body": arguments.body_name is not None,
        "schema": schema,
        "answer": schema_of_answer(function),
    }


def _agents(cls: type[Module], manifest: Manifest, problems: list[str]) -> dict[str, AgentConfig]:
    found = dict(manifest.agents)
    for name, fields in cls.agents.items():
        try:
            agent = _AGENT.validate_python(fields)
        except ValidationError as error:
            problems += mistakes_in(error, f"agents.{name}")
            continue
        if found.setdefault(name, agent) != agent:
            problems.append(
                f"agents.{name} is one thing in {cls.__name__} and another in manifest.yaml: say "
                "it in one place"
            )
    return found


def _wrong_names(module: str, specs: Sequence[_Spec], agents: Collection[str]) -> Iterator[str]:
    routes, tools = _of(RouteSpec, specs), _of(ToolSpec, specs)
    names = [f"the route {spec.method} {spec.prefix}{_nameless(spec.path)}" for spec in routes]
    names += [f"the tool {tool.name}" for tool in tools]
    names += [f"the command {command.name}" for command in _of(CommandSpec, specs)]
    for name, count in Counter(names).items():
        if count > 1:
            yield f"{name} is declared {count} times"
    for tool in tools:
        if tool.agent and tool.agent not in agents:
            yield (
                f"the tool {tool.name} is for the agent {tool.agent}, which the module does not "
                "have"
            )
        if len(f"mcp__{tool.agent or module}__{tool.name}") > _LONGEST_TOOL:
            yield (
                f"the tool {tool.name} has a name too long for a model, with that of its module "
                f"before it: {_LONGEST_TOOL} characters at most"
            )


def _of(kind: type[_Kind], specs: Iterable[_Spec]) -> tuple[_Kind, ...]:
    return tuple(spec for spec in specs if isinstance(spec, kind))


def _nameless(path: str) -> str:
    """Two paths that differ in the names of their parameters alone are one."""
    return _FIELD.sub(lambda found: "{...}" if found[0].endswith("...}") else "{}", path)


_AGENT = TypeAdapter(AgentConfig)
