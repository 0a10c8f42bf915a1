"""Everything a module offers, from its class and manifest together; and what of it the manifest
does not name, which is not loaded.
"""

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
from parachuted.keys.path_globs import PathGlob
from parachuted.modules.checks import mistakes_in
from parachuted.modules.declare import (
    HOOK_EVENTS,
    LARGEST_BODY,
    STRICT,
    CommandMark,
    EventMark,
    HookMark,
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
    BodyKind,
    HandlerArguments,
    HandlerSignatureError,
    plan,
    returns_stream,
    schema_of_answer,
)
from parachuted.modules.registry.manifest import Manifest, ManifestPermissions
from parachuted.modules.settings import SettingSpec, setting_specs

KEPT_PATHS: Mapping[str, str] = MappingProxyType(
    {
        "/api/modules/daily/agents": "daily",
        "/api/bots": "bots",
        **dict.fromkeys(
            (
                "/api/claude-code",
                "/api/import",
                "/api/migration",
                "/api/plugins",
                "/api/workspaces",
            ),
            "chat",
        ),
    }
)
"""The name of the module that may serve each place, and all below it. No other module may."""


def kept_path(path: str) -> str | None:
    return next(
        (kept for kept in KEPT_PATHS if path == kept or path.startswith(f"{kept}/")),
        None,
    )


_FIELD = re.compile(r"\{[^}]*\}")
_LONGEST_TOOL = 128  # as the Messages API takes it
USUAL_BODY = 16 << 20
_SOME = Field(max_length=500)
DeclaredName: TypeAlias = Annotated[str, Field(max_length=200)]


class DeclaredError(ModuleFailedError):
    """The module's class and its manifest do not go together."""

    def __init__(self, problems: Collection[str]) -> None:
        self.problems = tuple(problems)
        super().__init__("; ".join(self.problems))


@dataclass(frozen=True, slots=True, kw_only=True, config=STRICT)
class RouteSpec(RouteMark):
    """One route.

    `path` begins after the module's prefix, or after `prefix`; `handler` is what `resolve_handler`
    takes; `streams`: an async generator, or, where it `resumes`, a Stream; `takes`: what body, and
    `max_bytes` how large it may be; `tolerant` and `secret_header` as `parachuted.modules.route`
    has them.

    A handler that has not answered after `timeout_s` is ended. `schema` is the JSON schema of its
    arguments, empty where it has none; `answer` that of what it returns, or of each item that it
    yields, empty where that is not declared.
    """

    handler: DeclaredName
    streams: bool = False
    resumes: bool = False
    summary: Annotated[str, Field(max_length=1_000)] = ""
    takes: BodyKind = "json"
    max_bytes: Annotated[int, Field(ge=1, le=LARGEST_BODY)] = USUAL_BODY
    schema: Mapping[str, object] = Field(default_factory=dict)
    answer: Mapping[str, object] = Field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True, config=STRICT)
class ToolSpec(ToolMark):
    """One tool for agents. `schema` is the JSON schema of its arguments, `answer` that of what it
    returns, as of a route.
    """

    description: Annotated[str, Field(max_length=10_000)]
    handler: DeclaredName
    schema: Mapping[str, object]
    answer: Mapping[str, object] = Field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True, config=STRICT)
class CommandSpec(CommandMark):
    """One command of the command line. `schema` is the JSON schema of its arguments."""

    help: Annotated[str, Field(max_length=2_000)]
    handler: DeclaredName
    schema: Mapping[str, object]


@dataclass(frozen=True, slots=True, kw_only=True, config=STRICT)
class EventSpec(EventMark):
    """An event that the module hears."""

    handler: DeclaredName


@dataclass(frozen=True, slots=True, kw_only=True, config=STRICT)
class HookSpec(HookMark):
    """A hook that asks the module."""

    handler: DeclaredName


@dataclass(frozen=True, slots=True, kw_only=True, config=STRICT)
class ScheduleSpec(ScheduleMark):
    """When a handler runs by itself."""

    handler: DeclaredName


_Kind = TypeVar("_Kind")
_Spec: TypeAlias = RouteSpec | ToolSpec | CommandSpec | EventSpec | HookSpec | ScheduleSpec


@dataclass(frozen=True, slots=True, kw_only=True, config=STRICT)
class ModuleDeclaration:
    """All that one module offers. `finds_para`: it has things with ids (`Module.find_para`)."""

    name: str
    version: str
    prefix: str
    description: str = ""
    routes: Annotated[tuple[RouteSpec, ...], _SOME] = ()
    tools: Annotated[tuple[ToolSpec, ...], _SOME] = ()
    events: Annotated[tuple[EventSpec, ...], _SOME] = ()
    hooks: Annotated[tuple[HookSpec, ...], _SOME] = ()
    schedules: Annotated[tuple[ScheduleSpec, ...], _SOME] = ()
    provides: tuple[str, ...] = ()
    agents: Mapping[str, AgentConfig] = Field(default_factory=dict)
    has_doctor: bool = False
    settings: Annotated[tuple[SettingSpec, ...], _SOME] = ()
    commands: Annotated[tuple[CommandSpec, ...], _SOME] = ()
    finds_para: bool = False

    def __post_init__(self) -> None:
        """Raises ValueError for a route at a place that is not kept for this module."""
        for route in self.routes:
            if route.prefix and KEPT_PATHS.get(route.prefix) != self.name:
                own = [path for path, module in KEPT_PATHS.items() if module == self.name]
                raise ValueError(
                    f"{route.handler}: {route.prefix} is not kept for the module {self.name}; "
                    f"{' and '.join(own) if own else 'nothing outside its own prefix'} is"
                )

    def prefix_of(self, route: RouteSpec) -> str:
        return route.prefix or self.prefix


def describe(module: Module | type[Module], manifest: Manifest) -> ModuleDeclaration:
    """All that the class and the manifest declare. Raises DeclaredError with all that does not go
    together.

    It imports the files that handlers of the manifest are in, so it is called where the module's
    code may run.
    """
    return _Describing(module if isinstance(module, type) else type(module), manifest).result()


def unlisted(declared: ModuleDeclaration, approved: ApprovedModule) -> list[str]:
    """What a loaded module declares that its manifest, which a person approved, does not name: each
    with what to do about it.

    `ApprovedModule.lists_all` is false for what an earlier version approved after showing what the
    code declares: that runs as it did.
    """
    manifest = approved.manifest
    found = [
        f"agents.{name} asks for bash, network, a folder beside the vault, a lane or the person's "
        "skills: say it in manifest.yaml, to be approved"
        for name, agent in declared.agents.items()
        if name not in manifest.agents and _reaches_beyond(agent, manifest)
    ]
    found += [
        f"manifest.yaml: permissions.hooks: add {spec.event}, which {spec.handler} takes part in"
        for spec in declared.hooks
        if spec.event not in manifest.permissions.hooks
    ]
    tools = {tool.name for tool in manifest.mcp_tools}
    events = {hook.event for hook in manifest.hooks}
    listed: tuple[tuple[str, Iterable[str], Iterable[str]], ...] = (
        ("mcp_tools", (spec.name for spec in declared.tools), tools),
        ("hooks", (spec.event for spec in declared.events), events),
        (
            "schedules",
            (spec.timing.words() for spec in declared.schedules),
            {timing.words() for timing in manifest.schedules},
        ),
        ("provides", declared.provides, manifest.provides),
    )
    for field, names, known in listed if approved.lists_all else ():
        found += [
            f"manifest.yaml: {field}: add {name}, which the code declares"
            for name in dict.fromkeys(names)
            if name not in known
        ]
    return found


def _reaches_beyond(agent: AgentConfig, manifest: Manifest) -> bool:
    """Of folders beside the vault an approved one does not: what is below it does, for it may be a
    link that leads elsewhere.
    """
    outside = {path.removesuffix("/**").rstrip("/") for path in agent.outside_paths}
    return bool(
        agent.bash
        or agent.wants_network
        or not outside.issubset(manifest.permissions.folders)
        or agent.lane
        or agent.allow_user_skills
    )


def resolve_handler(module: Module, handler: str) -> Callable[..., object]:
    """The function behind a declared handler: a method, or a function of another file, which is
    given the module if it asks for it.
    """
    return _bound(type(module), handler, module)


def _bound(cls: type[Module], handler: str, module: object) -> Callable[..., object]:
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


class _Describing:
    """Gathers what is declared, and every mistake in it."""

    def __init__(self, cls: type[Module], manifest: Manifest) -> None:
        self._cls, self._manifest = cls, manifest
        self._problems: list[str] = []

    def result(self) -> ModuleDeclaration:
        cls, manifest = self._cls, self._manifest
        self._compare()
        specs = [spec for handler, mark in self._marks() for spec in self._spec(handler, mark)]
        agents, settings = self._agents(), tuple[SettingSpec, ...]()
        try:
            settings = setting_specs(cls.Settings)
        except ValueError as error:
            self._problems.append(str(error))
        self._check_names(specs, agents)
        if self._problems:
            raise DeclaredError(self._problems)
        try:
            return ModuleDeclaration(
                name=manifest.name,
                version=manifest.version,
                prefix=manifest.prefix,
                description=manifest.description or cls.description,
                routes=_of(RouteSpec, specs),
                tools=_of(ToolSpec, specs),
                events=tuple(dict.fromkeys(_of(EventSpec, specs))),
                hooks=tuple(dict.fromkeys(_of(HookSpec, specs))),
                schedules=_of(ScheduleSpec, specs),
                provides=tuple(dict.fromkeys((*manifest.provides, *cls.provides))),
                agents=agents,
                settings=settings,
                commands=_of(CommandSpec, specs),
                has_doctor=cls.doctor is not Module.doctor,
                finds_para=cls.find_para is not Module.find_para,
            )
        except ValidationError as error:
            raise DeclaredError(_sentences("", error)) from error

    def _check_names(self, specs: Sequence[_Spec], agents: Collection[str]) -> None:
        routes, tools = _of(RouteSpec, specs), _of(ToolSpec, specs)
        names = [f"the route {spec.method} {spec.prefix}{_nameless(spec.path)}" for spec in routes]
        names += [f"the tool {tool.name}" for tool in tools]
        names += [f"the command {command.name}" for command in _of(CommandSpec, specs)]
        names += [f"the hook {hook.event}" for hook in dict.fromkeys(_of(HookSpec, specs))]
        self._problems += [
            f"{name} is declared {count} times"
            for name, count in Counter(names).items()
            if count > 1
        ]
        for tool in tools:
            if tool.agent and tool.agent not in agents:
                self._problems.append(
                    f"the tool {tool.name} is for the agent {tool.agent}, which the module does "
                    "not have"
                )
            if len(f"mcp__{tool.agent or self._manifest.name}__{tool.name}") > _LONGEST_TOOL:
                self._problems.append(
                    f"the tool {tool.name} has a name too long for a model, with that of its "
                    f"module before it: {_LONGEST_TOOL} characters at most"
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
            self._problems += _sentences("permissions.", error)
            return
        self._problems += [
            f"permissions: {words} is not in manifest.yaml, which is what a person approves"
            for words in _beyond(asked, self._manifest.permissions)
        ]

    def _marks(self) -> Iterator[tuple[str, ServingMark]]:
        """What decorators and the manifest declare; where both do, the manifest's description
        holds.
        """
        declared = list(self._decorated())
        for tool in self._manifest.mcp_tools:
            twins = [
                (handler, mark)
                for handler, mark in declared
                if isinstance(mark, ToolMark)
                and mark.name == tool.name
                and tool.handler in {"", handler}
            ]
            for handler, mark in twins:
                declared.remove((handler, mark))
                yield handler, replace(mark, description=tool.description or mark.description)
            if not twins and self._has_handler("mcp_tools", tool.name, tool.handler):
                yield tool.handler, ToolMark(name=tool.name, description=tool.description or None)
        for hook in self._manifest.hooks:
            asked = next((HookMark(event=name) for name in HOOK_EVENTS if name == hook.event), None)
            is_decorated = any(
                getattr(mark, "event", None) == hook.event and hook.handler in {"", handler}
                for handler, mark in declared
            )
            if not is_decorated and self._has_handler("hooks", hook.event, hook.handler):
                yield hook.handler, asked or EventMark(event=hook.event, is_async=hook.is_async)
        yield from declared

    def _has_handler(self, field: str, name: str, handler: str) -> bool:
        if not handler:
            self._problems.append(
                f"manifest.yaml: {field}: {name} needs a handler, or a method with its decorator"
            )
        return bool(handler)

    def _decorated(self) -> Iterator[tuple[str, ServingMark]]:
        members = {
            name: found for cls in reversed(self._cls.__mro__) for name, found in vars(cls).items()
        }
        for name, found in members.items():
            marks = marks_of(found) or marks_of(getattr(found, "__func__", None))
            if marks and not inspect.isfunction(found):
                self._problems.append(f"{name}: only plain methods can be declared")
                continue
            self._check_interface(name, marks)
            yield from ((name, mark) for mark in marks if not isinstance(mark, InterfaceMark))

    def _check_interface(self, name: str, marks: Collection[Mark]) -> None:
        offered = [mark.interface for mark in marks if isinstance(mark, InterfaceMark)]
        self._problems += [
            f"{name}: the module provides no {interface}; name it in provides of manifest.yaml"
            for interface in offered
            if interface not in {*self._manifest.provides, *self._cls.provides}
        ]
        if offered and (name.startswith("_") or is_every_modules(name)):
            self._problems.append(
                f"{name}: what every module has, or begins with _, cannot be an interface method"
            )
        if offered and not all(
            isinstance(mark, InterfaceMark | ToolMark | CommandMark) for mark in marks
        ):
            self._problems.append(
                f"{name}: a route, a listener or a schedule cannot be an interface method; give "
                "other modules a method of their own"
            )

    def _spec(self, handler: str, mark: ServingMark) -> Iterator[_Spec]:
        try:
            function = _bound(self._cls, handler, object())
            yield self._made(handler, mark, function, plan(function))
        except HandlerSignatureError as error:
            says = error.message
            self._problems.append(says if says.startswith(handler) else f"{handler}: {says}")
        except ValidationError as error:
            self._problems += _sentences(f"{handler}: ", error)

    def _made(
        self,
        handler: str,
        mark: ServingMark,
        function: Callable[..., object],
        arguments: HandlerArguments,
    ) -> _Spec:
        streams = inspect.isasyncgenfunction(function)
        if inspect.isgeneratorfunction(function) or (streams and not isinstance(mark, RouteMark)):
            raise HandlerSignatureError(
                "only routes that are `async def` can yield; return one value instead"
            )
        if arguments.takes != "json" and not isinstance(mark, RouteMark):
            raise HandlerSignatureError("only a route can be given a Body or a Form")
        about = inspect.getdoc(function)
        match mark:
            case RouteMark():
                return self._route(handler, mark, function, arguments)
            case ToolMark():
                words = mark.description or about or re.sub("[-_]", " ", mark.name)
                declared: dict[str, Any] = {**asdict(mark), "description": words}
                answer = schema_of_answer(function)
                return ToolSpec(
                    **declared, handler=handler, schema=arguments.schema(), answer=answer
                )
            case EventMark():
                return EventSpec(event=mark.event, handler=handler, is_async=mark.is_async)
            case HookMark():
                return HookSpec(event=mark.event, handler=handler)
            case CommandMark():
                words = mark.help or about or mark.name.replace("-", " ")
                schema = arguments.schema()
                return CommandSpec(name=mark.name, help=words, handler=handler, schema=schema)
            case ScheduleMark():
                return ScheduleSpec(handler=handler, timing=mark.timing)

    def _route(
        self,
        handler: str,
        mark: RouteMark,
        function: Callable[..., object],
        arguments: HandlerArguments,
    ) -> RouteSpec:
        lacking = [name for name in path_fields(mark.path) if name not in arguments.names]
        if lacking and not arguments.takes_rest:
            raise HandlerSignatureError(
                f"the path {mark.path} has {', '.join(lacking)}, and no parameter takes it"
            )
        if mark.max_bytes is not None and arguments.takes == "json":
            raise HandlerSignatureError(
                "max_bytes is for a handler with a parameter of the type Body or Form"
            )
        resumes, schema = returns_stream(function), dict[str, object]()
        with contextlib.suppress(HandlerSignatureError):  # a type without a schema can be served
            schema = arguments.schema()
        declared: dict[str, Any] = {**asdict(mark), "max_bytes": mark.max_bytes or USUAL_BODY}
        return RouteSpec(
            **declared,
            handler=handler,
            streams=resumes or inspect.isasyncgenfunction(function),
            resumes=resumes,
            summary=(inspect.getdoc(function) or handler.replace("_", " ")).partition("\n")[0],
            takes=arguments.takes,
            schema=schema,
            answer=schema_of_answer(function),
        )

    def _agents(self) -> dict[str, AgentConfig]:
        found = dict(self._manifest.agents)
        for name, said in self._cls.agents.items():
            try:
                agent = _AGENT.validate_python(said)
            except ValidationError as error:
                self._problems += _sentences(f"agents.{name}.", error)
                continue
            if found.setdefault(name, agent) != agent:
                self._problems.append(
                    f"agents.{name} is one thing in {self._cls.__name__} and another in "
                    "manifest.yaml: say it in one place"
                )
        return found


def _of(kind: type[_Kind], specs: Iterable[_Spec]) -> tuple[_Kind, ...]:
    return tuple(spec for spec in specs if isinstance(spec, kind))


def _sentences(before: str, error: ValidationError) -> list[str]:
    return [f"{before}{where}: {says}" for where, says in mistakes_in(error)]


def _beyond(asked: ManifestPermissions, approved: ManifestPermissions) -> Iterator[str]:
    for field in ("read", "write"):
        reach = [PathGlob(text) for text in getattr(approved, field)]
        yield from (
            f"{field} {text}"
            for text in getattr(asked, field)
            if not any(glob.covers(PathGlob(text)) for glob in reach)
        )
    for field in ("mcp", "folders", "hooks"):
        known = getattr(approved, field)
        yield from (f"{field} {name}" for name in getattr(asked, field) if name not in known)
    if asked.bash and approved.bash is not True:
        words = asked.bash if isinstance(asked.bash, tuple) else ("true",)
        allowed = approved.bash if isinstance(approved.bash, tuple) else ()
        yield from (f"bash {word}" for word in words if word not in allowed)


def _nameless(path: str) -> str:
    """The path without the names of its parameters: two that differ in them alone are one."""
    return _FIELD.sub(lambda found: "{...}" if found[0].endswith("...}") else "{}", path)


_AGENT = TypeAdapter(AgentConfig)
_PERMISSIONS = TypeAdapter(ManifestPermissions)
