"""What a module's class and its manifest declare together."""

from __future__ import annotations

import importlib
import inspect
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import replace
from types import MethodType

from pydantic import TypeAdapter, ValidationError

from parachuted.access.agent_config import AgentConfig
from parachuted.keys.path_globs import PathGlob
from parachuted.modules.declare import (
    HOOK_EVENTS,
    CommandMark,
    EventMark,
    HookMark,
    InterfaceMark,
    Mark,
    RouteMark,
    ScheduleMark,
    ToolMark,
    marks_of,
    path_fields,
)
from parachuted.modules.module import Module, is_every_modules
from parachuted.modules.registry.arguments import (
    HandlerArguments,
    HandlerSignatureError,
    plan,
    returns_stream,
    schema_of_answer,
)
from parachuted.modules.registry.declaration import (
    USUAL_BODY,
    CommandSpec,
    DeclaredError,
    EventSpec,
    HookSpec,
    ModuleDeclaration,
    RouteSpec,
    ScheduleSpec,
    ToolSpec,
    parse_declared,
)
from parachuted.modules.registry.manifest import (
    Manifest,
    ManifestPermissions,
)
from parachuted.modules.registry.wording import mistakes_in
from parachuted.modules.settings import SettingSpec, setting_specs

_FIELD = re.compile(r"\{[^}]*\}")
_LONGEST_TOOL = 128  # as the Messages API takes it


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
        if name not in manifest.agents and _reaches_beyond(one, manifest)
    ]


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
        self._hooks: list[HookSpec] = []
        self._schedules: list[ScheduleSpec] = []
        self._commands: list[CommandSpec] = []

    def result(self) -> ModuleDeclaration:
        manifest = self._manifest
        self._compare()
        for tool in manifest.mcp_tools:
            self._add(tool.handler, ToolMark(name=tool.name, description=tool.description or None))
        for one in manifest.hooks:
            asked = next((HookMark(event=name) for name in HOOK_EVENTS if name == one.event), None)
            self._add(one.handler, asked or EventMark(event=one.event, is_async=one.is_async))
        for handler, mark in self._marked():
            self._add(handler, mark)
        agents, settings = self._agents(), self._settings()
        self._problems += _doubles(
            [
                f"{route.method} {route.prefix}{_FIELD.sub(_nameless, route.path)}"
                for route in self._routes
            ],
            "the route",
        )
        self._problems += _doubles([tool.name for tool in self._tools], "the tool")
        self._problems += (
            f"the tool {tool.name} is for the agent {tool.agent}, which the module does not have"
            for tool in self._tools
            if tool.agent and tool.agent not in agents
        )
        self._problems += (
            f"the tool {tool.name} has a name too long for a model, with that of its module before "
            f"it: {_LONGEST_TOOL} characters at most"
            for tool in self._tools
            if len(f"mcp__{tool.agent or manifest.name}__{tool.name}") > _LONGEST_TOOL
        )
        self._problems += _doubles([one.name for one in self._commands], "the command")
        self._problems += _doubles([one.event for one in self._hooks], "the hook")
        if self._problems:
            raise DeclaredError(self._problems)
        return parse_declared(
            {
                "name": manifest.name,
                "version": manifest.version,
                "prefix": manifest.prefix,
                "description": manifest.description or self._cls.description,
                "routes": self._routes,
                "tools": self._tools,
                "events": self._events,
                "hooks": self._hooks,
                "schedules": self._schedules,
                "provides": tuple(dict.fromkeys((*manifest.provides, *self._cls.provides))),
                "agents": agents,
                "settings": settings,
                "commands": self._commands,
                "has_doctor": self._cls.doctor is not Module.doctor,
                "finds_para": self._cls.find_para is not Module.find_para,
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
                f"permissions.{'.'.join(map(str, place))}: {says}"
                for place, _, says in mistakes_in(error)
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
        for mark in offered:
            if mark.interface not in {*self._manifest.provides, *self._cls.provides}:
                yield (
                    f"{name}: the module provides no {mark.interface}; name it in provides of "
                    "manifest.yaml"
                )
        if offered and (name.startswith("_") or is_every_modules(name)):
            yield f"{name}: what every module has, or begins with _, cannot be an interface method"
        if offered and not all(
            isinstance(mark, InterfaceMark | ToolMark | CommandMark) for mark in marks
        ):
            yield (
                f"{name}: a route, a listener or a schedule cannot be an interface method; give "
                "other modules a method of their own"
            )

    def _add(self, handler: str, mark: Mark) -> None:
        try:
            function = _bound(_function(self._cls, handler), object(), is_method=":" not in handler)
            self._declare(handler, mark, function, plan(function))
        except HandlerSignatureError as error:
            self._problems.append(
                error.message
                if error.message.startswith(handler)
                else f"{handler}: {error.message}"
            )
        except ValidationError as error:
            self._problems += [
                f"{handler}: {'.'.join(map(str, place))}: {says}"
                for place, _, says in mistakes_in(error)
            ]

    def _declare(
        self,
        handler: str,
        mark: Mark,
        function: Callable[..., object],
        arguments: HandlerArguments,
    ) -> None:
        streams = inspect.isasyncgenfunction(function)
        if inspect.isgeneratorfunction(function) or (streams and not isinstance(mark, RouteMark)):
            self._problems.append(
                f"{handler}: only routes that are `async def` can yield; return one value instead"
            )
        elif arguments.takes != "json" and not isinstance(mark, RouteMark):
            self._problems.append(f"{handler}: only a route can be given a Body or a Form")
        elif isinstance(mark, RouteMark):
            self._add_route(
                handler,
                mark,
                arguments,
                schema_of_answer(function),
                streams=streams or returns_stream(function),
                resumes=returns_stream(function),
            )
        elif isinstance(mark, ToolMark):
            said = (
                mark.description
                or inspect.getdoc(function)
                or mark.name.replace("-", " ").replace("_", " ")
            )
            schemas = {"schema": arguments.schema(), "answer": schema_of_answer(function)}
            self._add_tool(
                ToolSpec(
                    name=mark.name,
                    description=said,
                    handler=handler,
                    in_runs_only=mark.in_runs_only,
                    agent=mark.agent,
                    writes=mark.writes,
                    **schemas,
                )
            )
        elif isinstance(mark, EventMark):
            self._add_event(EventSpec(event=mark.event, handler=handler, is_async=mark.is_async))
        elif isinstance(mark, HookMark):
            self._add_hook(HookSpec(event=mark.event, handler=handler))
        elif isinstance(mark, CommandMark):
            said = mark.help or inspect.getdoc(function) or mark.name.replace("-", " ")
            self._commands.append(
                CommandSpec(name=mark.name, help=said, handler=handler, schema=arguments.schema())
            )
        elif isinstance(mark, ScheduleMark):
            self._schedules.append(ScheduleSpec(handler=handler, timing=mark.timing))

    def _add_route(
        self,
        handler: str,
        mark: RouteMark,
        arguments: HandlerArguments,
        answer: Mapping[str, object],
        *,
        streams: bool,
        resumes: bool,
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
        if mark.max_bytes is not None and arguments.takes == "json":
            raise HandlerSignatureError(
                "max_bytes is for a handler with a parameter of the type Body or Form"
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
            resumes=resumes,
            summary=summary,
            timeout_s=mark.timeout_s,
            prefix=mark.prefix,
            tolerant=mark.tolerant,
            secret_header=mark.secret_header,
            takes=arguments.takes,
            max_bytes=mark.max_bytes or USUAL_BODY,
            schema=_schema_of(arguments),
            answer=answer,
        )
        self._routes.append(route)

    def _add_tool(self, tool: ToolSpec) -> None:
        """Where it is said in both forms, the manifest's words hold, and whom the decorator keeps
        it for.
        """
        for place, one in enumerate(self._tools):
            if (one.name, one.handler) == (tool.name, tool.handler):
                self._tools[place] = replace(
                    one, in_runs_only=tool.in_runs_only, agent=tool.agent, writes=tool.writes
                )
                return
        self._tools.append(tool)

    def _add_event(self, event: EventSpec) -> None:
        if not any(
            (one.event, one.handler) == (event.event, event.handler) for one in self._events
        ):
            self._events.append(event)

    def _add_hook(self, hook: HookSpec) -> None:
        if hook not in self._hooks:
            self._hooks.append(hook)

    def _settings(self) -> tuple[SettingSpec, ...]:
        try:
            return setting_specs(self._cls.Settings)
        except ValueError as error:
            self._problems.append(str(error))
            return ()

    def _agents(self) -> dict[str, AgentConfig]:
        found = dict(self._manifest.agents)
        for name, said in self._cls.agents.items():
            try:
                agent = _AGENT.validate_python(said)
            except ValidationError as error:
                self._problems += [
                    f"agents.{name}.{'.'.join(map(str, place))}: {says}"
                    for place, _, says in mistakes_in(error)
                ]
                continue
            if found.get(name, agent) != agent:
                self._problems.append(
                    f"agents.{name} is one thing in {self._cls.__name__} and another in "
                    "manifest.yaml: say it in one place"
                )
            elif name not in found and _reaches_beyond(agent, self._manifest):
                self._problems.append(_SAY_IT.format(name))
            found[name] = agent
        return found


def _schema_of(arguments: HandlerArguments) -> dict[str, object]:
    """What callers of a route may read; a type that has no schema keeps no route from being
    served.
    """
    try:
        return arguments.schema()
    except HandlerSignatureError:
        return {}


def _beyond(asked: ManifestPermissions, approved: ManifestPermissions) -> Iterator[str]:
    for field in ("read", "write"):
        reach = [PathGlob(text) for text in getattr(approved, field)]
        yield from (
            f"{field} {text}"
            for text in getattr(asked, field)
            if not any(glob.covers(PathGlob(text)) for glob in reach)
        )
    yield from (f"mcp {name}" for name in asked.mcp if name not in approved.mcp)
    yield from (f"folders {one}" for one in asked.folders if one not in approved.folders)
    yield from (f"hooks {one}" for one in asked.hooks if one not in approved.hooks)
    if asked.bash and approved.bash is not True:
        words = asked.bash if isinstance(asked.bash, tuple) else ("true",)
        allowed = approved.bash if isinstance(approved.bash, tuple) else ()
        yield from (f"bash {word}" for word in words if word not in allowed)


def _nameless(parameter: re.Match[str]) -> str:
    return "{...}" if parameter[0].endswith("...}") else "{}"


def _doubles(names: list[str], what: str) -> list[str]:
    return [
        f"{what} {name} is declared {count} times"
        for name, count in Counter(names).items()
        if count > 1
    ]


_AGENT = TypeAdapter(AgentConfig)
_SAY_IT = (
    "agents.{} asks for bash, network, a folder beside the vault, a lane or the person's "
    "skills: say it in manifest.yaml, to be approved"
)
_PERMISSIONS = TypeAdapter(ManifestPermissions)
