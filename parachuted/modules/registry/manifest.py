"""Manifest: what a module says of itself in manifest.yaml, read before any of its code runs.

A person approves what stands here. So an unknown field is a mistake, and code that declares more is
not loaded (`declaration.unlisted`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Annotated, TypeAlias

from pydantic import (
    AfterValidator,
    AliasChoices,
    BeforeValidator,
    ConfigDict,
    Field,
    TypeAdapter,
    ValidationError,
)
from pydantic.dataclasses import dataclass

from parachuted.access.agent_config import AgentConfig, YesOrList, is_outside, normal_pattern
from parachuted.access.paths import is_code, is_control, is_hidden
from parachuted.errors import ModuleFailedError
from parachuted.events.catalog import CATALOG, CORE
from parachuted.events.fields import FieldKind
from parachuted.home_files import PlainValue, YamlRejectedError, read_document
from parachuted.modules.checks import NAME, matching
from parachuted.modules.declare import EventName, Interface, ToolName
from parachuted.modules.scheduling import Timing, parse_timing
from parachuted.texts.mistakes import mistakes_in

FILE = "manifest.yaml"

# Without defer_build: the first use is in several threads at once, where pydantic is not safe.
_STRICT = ConfigDict(extra="forbid", validate_by_name=True, validate_by_alias=True)
_VERSION = re.compile(r"(0|[1-9]\d{0,8})(\.(0|[1-9]\d{0,8})){2}([-+][0-9A-Za-z.+-]{1,64})?")
_CODE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\.py")
_HANDLER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(:[A-Za-z_][A-Za-z0-9_]*)?|")
_PREFIX = re.compile(r"/api/([a-z][a-z0-9-]{0,63})/?|")
_OUTSIDE = re.compile(r"~?(/(?!\.)[^/\x00-\x1f\x7f*?\\]+)+/?")
_FIELD_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}")
_REQUIREMENT = re.compile(r"(?!.* -)[A-Za-z0-9][A-Za-z0-9_.\[\], <>=!~;'\"()*+-]*")
_MOST_PROBLEMS = 50


class ManifestError(ModuleFailedError):
    """The manifest is wrong. Each problem names the field, and what should stand there."""

    def __init__(self, problems: Collection[str]) -> None:
        self.problems = tuple(problems)[:_MOST_PROBLEMS]
        super().__init__("; ".join(f"{FILE}: {problem}" for problem in self.problems))


def _named(field: str) -> BeforeValidator:
    """A text alone is the mapping that has it as this field."""
    return BeforeValidator(lambda value: {field: value} if isinstance(value, str) else value)


def _pattern_but(is_refused: Callable[[str], bool], says: str) -> AfterValidator:
    def check(text: str) -> str:
        if is_outside(text):
            raise ValueError(f"{text[:80]!r} is outside the vault; a module reaches only the vault")
        pattern = normal_pattern(text)
        if is_refused(pattern):
            raise ValueError(f"{text[:80]!r} is {says}")
        return pattern

    return AfterValidator(check)


def _timing(value: object) -> object:
    if not isinstance(value, Mapping) or not value.keys() <= {"every", "at", "cron", "timezone"}:
        raise ValueError('should be such as {every: 15m}, {at: "03:00"} or {cron: "0 3 * * *"}')
    return parse_timing(**value)


ManifestName: TypeAlias = Annotated[
    str, matching(NAME, "name such as my-module: small letters, digits and dashes, at most 64")
]
HandlerName: TypeAlias = Annotated[
    str, matching(_HANDLER, "handler such as hooks:on_entry_created, a file and its function")
]
ReadPattern: TypeAlias = Annotated[
    str,
    _pattern_but(
        lambda pattern: is_hidden(pattern) or is_code(pattern),
        "a program's, or a module's code; no module reads it",
    ),
]
WritePattern: TypeAlias = Annotated[
    str,
    _pattern_but(
        is_control,
        "a program's, a module's code, or a person's to decide; no module writes it",
    ),
]
OutsideFolder: TypeAlias = Annotated[
    str,
    Field(max_length=1_000),
    matching(
        _OUTSIDE, "folder such as ~/Projects: from / or ~/ on, with no pattern and nothing hidden"
    ),
    AfterValidator(lambda text: text.rstrip("/")),
]
FieldName: TypeAlias = Annotated[str, matching(_FIELD_NAME, "name of a field such as entry_path")]
Requirement: TypeAlias = Annotated[
    str,
    Field(max_length=300),
    matching(_REQUIREMENT, "requirement such as pyyaml>=6.0 (no addresses, no options)"),
]


@dataclass(frozen=True, slots=True, kw_only=True, config=_STRICT)
class ManifestPermissions:
    """What a module may touch. Nothing that is not here."""

    read: tuple[ReadPattern, ...] = ()
    write: tuple[WritePattern, ...] = ()
    bash: YesOrList = False
    mcp: tuple[ToolName, ...] = ()
    folders: tuple[OutsideFolder, ...] = ()
    people: bool = False


@dataclass(frozen=True, slots=True, kw_only=True, config=_STRICT)
class ManifestHook:
    """An event that the module hears. Without a handler, a method has its decorator."""

    event: EventName
    handler: HandlerName = ""
    is_async: bool = Field(default=True, validation_alias="async")


@dataclass(frozen=True, slots=True, kw_only=True, config=_STRICT)
class McpTool:
    """A tool that agents may call. Without a handler, a method has its decorator."""

    name: ToolName
    handler: HandlerName = ""
    description: str = ""


@dataclass(frozen=True, slots=True, kw_only=True, config=_STRICT)
class RoutePrefix:
    """Where its routes begin. Empty: `/api/<name>`."""

    prefix: Annotated[
        str,
        matching(_PREFIX, "prefix such as /api/brain"),
        AfterValidator(lambda text: text.rstrip("/")),
    ] = ""


@dataclass(frozen=True, slots=True, kw_only=True, config=_STRICT)
class Manifest:
    """One module, as it presents itself."""

    name: ManifestName
    version: Annotated[str, matching(_VERSION, "version of three numbers such as 1.0.0")]
    module: Annotated[str, matching(_CODE, "Python file of the module's folder such as module.py")]
    description: str = ""
    provides: tuple[Interface, ...] = ()
    optional_requires: tuple[Interface, ...] = Field(
        default=(), validation_alias=AliasChoices("optional_requires", "requires")
    )
    dependencies: tuple[Requirement, ...] = ()
    agents: Mapping[ManifestName, AgentConfig] = Field(default_factory=dict)
    hooks: tuple[Annotated[ManifestHook, _named("event")], ...] = ()
    mcp_tools: tuple[Annotated[McpTool, _named("name")], ...] = ()
    schedules: tuple[Annotated[Timing, BeforeValidator(_timing)], ...] = ()
    publishes: Mapping[EventName, Mapping[FieldName, FieldKind]] = Field(default_factory=dict)
    routes: RoutePrefix = Field(default_factory=RoutePrefix)
    permissions: ManifestPermissions = Field(default_factory=ManifestPermissions)
    ui: Mapping[str, object] = Field(default_factory=dict)

    @property
    def prefix(self) -> str:
        return self.routes.prefix or f"/api/{self.name}"


_ADAPTER = TypeAdapter(Manifest)


def read_manifest(
    text: str | bytes, *, reserved: Collection[str] = (), files: Collection[str] | None = None
) -> Manifest:
    """Raises ManifestError. `reserved` are the first words of the core's own routes below `/api`;
    what the manifest names must be among `files`, those of the module's folder.
    """
    fields = _fields(text)
    fields.pop("trust_level", None)  # of older ones: a person says it, in modules.yaml
    try:
        manifest = _ADAPTER.validate_python(fields)
    except ValidationError as error:
        raise ManifestError(mistakes_in(error)) from error
    if problems := list(_problems(manifest, reserved, files)):
        raise ManifestError(problems)
    return manifest


def _fields(text: str | bytes) -> dict[str, PlainValue]:
    """A field with nothing behind it is as if it were not there."""
    try:
        node = read_document(text if isinstance(text, str) else text.decode("utf-8-sig"))
    except (UnicodeDecodeError, YamlRejectedError) as error:
        raise ManifestError([str(error)]) from error
    fields = node.plain() if node is not None else None
    if not isinstance(fields, dict):
        raise ManifestError(["it should begin with a line such as `name: my-module`"])
    for field in ("agents", "publishes"):  # of which one may have nothing behind its name
        if isinstance(named := fields.get(field), dict):
            fields[field] = {name: value or {} for name, value in named.items()}
    return {key: _filled(value) for key, value in fields.items() if value is not None}


def _filled(value: PlainValue) -> PlainValue:
    if not isinstance(value, dict):
        return value
    return {key: _filled(inner) for key, inner in value.items() if inner is not None}


def _problems(
    manifest: Manifest, reserved: Collection[str], files: Collection[str] | None
) -> Iterator[str]:
    for field, name in (
        ("name", manifest.name),
        ("routes.prefix", manifest.prefix.removeprefix("/api/")),
    ):
        if name in reserved:
            yield f"{field}: {name!r} is a name of the daemon's own routes; choose another"
    if manifest.publishes and manifest.name in CORE:
        yield f"name: {manifest.name!r} begins the daemon's own events; choose another"
    for event in manifest.publishes:
        if event.partition(".")[0] != manifest.name:
            yield f"publishes.{event}: its name should begin with `{manifest.name}.`"
        elif event in CATALOG:
            yield f"publishes.{event}: is declared already; leave it out"
    handlers = [hook.handler for hook in manifest.hooks]
    handlers += [tool.handler for tool in manifest.mcp_tools]
    named = {
        manifest.module,
        *(agent.prompt_file for agent in manifest.agents.values() if agent.prompt_file),
        *(f"{handler.partition(':')[0]}.py" for handler in handlers if ":" in handler),
    }
    for file in sorted(named.difference(files)) if files is not None else ():
        yield f"there is no {file[:200]} in the folder"
