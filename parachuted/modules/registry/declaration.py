"""Everything a module offers, from its class and manifest together, as a value that can cross a
pipe.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from types import MappingProxyType
from typing import Annotated, TypeAlias

from pydantic import AfterValidator, ConfigDict, Field, TypeAdapter, ValidationError
from pydantic.dataclasses import dataclass

from parachuted.access.agent_config import AgentConfig
from parachuted.errors import ModuleFailedError
from parachuted.modules.declare import (
    CAPABILITIES,
    COMMAND_NAME,
    LARGEST_BODY,
    LONGEST_S,
    PATH,
    Method,
    ModuleHookEvent,
)
from parachuted.modules.registry.arguments import (
    BodyKind,
)
from parachuted.modules.registry.manifest import (
    EventName,
    ToolName,
    matching,
)
from parachuted.modules.registry.wording import mistakes_in
from parachuted.modules.scheduling import Timing, check_timing
from parachuted.modules.settings import SettingSpec

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


_STRICT = ConfigDict(extra="forbid")
_FIELD = re.compile(r"\{[^}]*\}")
USUAL_BODY = 16 << 20
_SOME = Field(max_length=500)
DeclaredName: TypeAlias = Annotated[str, Field(max_length=200)]


class DeclaredError(ModuleFailedError):
    """The module's class and its manifest do not go together."""

    def __init__(self, problems: Collection[str]) -> None:
        self.problems = tuple(problems)
        super().__init__("; ".join(self.problems))


@dataclass(frozen=True, slots=True, kw_only=True, config=_STRICT)
class RouteSpec:
    """One route.

    `path` begins after the module's prefix, or after `prefix`; `handler` is what `resolve_handler`
    takes; `streams`: an async generator, or, where it `resumes`, a Stream; `takes`: what body, and
    `max_bytes` how large it may be; `tolerant` and `secret_header` as `parachuted.modules.route`
    has them.

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
    resumes: bool = False
    summary: Annotated[str, Field(max_length=1_000)] = ""
    timeout_s: Annotated[int, Field(ge=1, le=LONGEST_S)] = 30
    prefix: Annotated[str, Field(max_length=100)] = ""
    tolerant: bool = False
    secret_header: Annotated[str, Field(max_length=100)] = ""
    takes: BodyKind = "json"
    max_bytes: Annotated[int, Field(ge=1, le=LARGEST_BODY)] = USUAL_BODY
    schema: Mapping[str, object] = Field(default_factory=dict)
    answer: Mapping[str, object] = Field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True, config=_STRICT)
class ToolSpec:
    """One tool for agents.

    `schema` is the JSON schema of its arguments, `answer` that of what it returns, as of a route.
    `in_runs_only`: no client of the MCP server is offered it. `agent`: the module's agent of that
    name alone is. `writes`: no agent of another module is that may not write notes.
    """

    name: ToolName
    description: Annotated[str, Field(max_length=10_000)]
    handler: DeclaredName
    schema: Mapping[str, object]
    answer: Mapping[str, object] = Field(default_factory=dict)
    in_runs_only: bool = False
    agent: Annotated[str, Field(max_length=64)] = ""
    writes: bool = False


@dataclass(frozen=True, slots=True, kw_only=True, config=_STRICT)
class CommandSpec:
    """One command of the command line. `schema` is the JSON schema of its arguments."""

    name: Annotated[str, matching(COMMAND_NAME, "command such as add")]
    help: Annotated[str, Field(max_length=2_000)]
    handler: DeclaredName
    schema: Mapping[str, object]


@dataclass(frozen=True, slots=True, kw_only=True, config=_STRICT)
class EventSpec:
    """An event that the module hears."""

    event: EventName
    handler: DeclaredName
    is_async: bool = True


@dataclass(frozen=True, slots=True, kw_only=True, config=_STRICT)
class HookSpec:
    """A hook that asks the module."""

    event: ModuleHookEvent
    handler: DeclaredName


@dataclass(frozen=True, slots=True, kw_only=True, config=_STRICT)
class ScheduleSpec:
    """When a handler runs by itself."""

    handler: DeclaredName
    timing: Annotated[Timing, AfterValidator(check_timing)]


@dataclass(frozen=True, slots=True, kw_only=True, config=_STRICT)
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

    def document(self) -> dict[str, object]:
        """The same as JSON; `parse_declared` reads it."""
        return dict(_ADAPTER.dump_python(self, mode="json"))


def parse_declared(document: object) -> ModuleDeclaration:
    """What `ModuleDeclaration.document` wrote, from a process that is not trusted.

    Raises DeclaredError.
    """
    try:
        return _ADAPTER.validate_python(document)
    except ValidationError as error:
        raise DeclaredError(
            [f"{'.'.join(map(str, place))}: {says}" for place, _, says in mistakes_in(error)]
        ) from error


_ADAPTER = TypeAdapter(ModuleDeclaration)
