"""Manifest: what a module says of itself in manifest.yaml, read before any of its code runs.

All mistakes are reported at once, each with its line. A person approves what stands here, so an
unknown field is a mistake.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import fields, replace
from typing import Annotated, TypeAlias

from pydantic import AfterValidator, ConfigDict, Field, TypeAdapter, ValidationError
from pydantic.dataclasses import dataclass

from parachuted.access.agent_config import (
    AgentConfig,
    SandboxConfig,
    YesOrList,
    is_outside,
    normal_pattern,
)
from parachuted.access.events import PATH_KINDS, FieldKind
from parachuted.access.paths import is_code, is_control, is_hidden
from parachuted.errors import ModuleFailedError
from parachuted.events.catalog import CATALOG
from parachuted.home_files import PlainValue, YamlNode, YamlRejectedError, read_document
from parachuted.modules.declare import EVENT_NAME, INTERFACE, TOOL_NAME, ModuleHookEvent
from parachuted.modules.registry.wording import Place, mistakes_in

FILE = "manifest.yaml"
NAME = re.compile(r"[a-z][a-z0-9-]{0,63}")

# Without defer_build: the first use is in several threads at once, where pydantic is not safe.
_STRICT = ConfigDict(extra="forbid", validate_by_name=True, validate_by_alias=True)
_VERSION = re.compile(r"(0|[1-9]\d{0,8})(\.(0|[1-9]\d{0,8})){2}([-+][0-9A-Za-z.+-]{1,64})?")
_CODE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\.py")
_HANDLER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(:[A-Za-z_][A-Za-z0-9_]*)?")
_PREFIX = re.compile(r"/api/([a-z][a-z0-9-]{0,63})/?")
_WORD = re.compile(r"[a-z0-9][a-z0-9-]{0,63}")
_FOLDER = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*(/[A-Za-z0-9][A-Za-z0-9_-]*){0,7}")
_NO_FOLDER = re.compile(r"[\x00-\x1f\x7f*?\\]")
_FIELD_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}")
_BOUND = r"[<>=!~]{1,3} *[A-Za-z0-9.*+!_-]+"
_REQUIREMENT = re.compile(
    rf"(?!.* -)[A-Za-z0-9][A-Za-z0-9._-]*(\[[A-Za-z0-9._, -]+\])? *({_BOUND} *(, *{_BOUND} "
    r"*)*)?(;[A-Za-z0-9_.'\"<>=!~(), -]*)?"
)
_OLD = {
    "trust_level": "trust_level is left out: a person says how far a module is trusted, in "
    "modules.yaml"
}
_MOST_PROBLEMS = 50


class ManifestError(ModuleFailedError):
    """The manifest is wrong."""

    def __init__(self, problems: Collection[str]) -> None:
        self.problems = tuple(problems)
        super().__init__("; ".join(f"{FILE}: {problem}" for problem in self.problems))


def matching(pattern: re.Pattern[str], wanted: str) -> AfterValidator:
    """Let no other text pass."""

    def check(text: str) -> str:
        if not pattern.fullmatch(text):
            raise ValueError(f"{text[:80]!r} is not a {wanted}")
        return text

    return AfterValidator(check)


def _read_pattern(text: str) -> str:
    pattern = _inside(text)
    if is_hidden(pattern) or is_code(pattern):
        raise ValueError(f"{text[:80]!r} is a program's, or a module's code; no module reads it")
    return pattern


def _write_pattern(text: str) -> str:
    pattern = _inside(text)
    if is_control(pattern):
        raise ValueError(
            f"{text[:80]!r} is a program's, a module's code, or a person's to decide; no module "
            "writes it"
        )
    return pattern


def _inside(text: str) -> str:
    if is_outside(text):
        raise ValueError(f"{text[:80]!r} is outside the vault; a module reaches only the vault")
    return normal_pattern(text)


def _outside_folder(text: str) -> str:
    names = text.rstrip("/").split("/")
    if (
        names[0] not in {"", "~"}
        or not names[1:]
        or any(name in {"", ".", ".."} or name.startswith(".") for name in names[1:])
        or _NO_FOLDER.search(text)
    ):
        raise ValueError(
            f"{text[:80]!r} is not a folder such as ~/Projects: from / or ~/ on, with no pattern "
            "and nothing hidden"
        )
    return "/".join(names)


def _prefix(text: str) -> str:
    if not _PREFIX.fullmatch(text):
        raise ValueError(f"{text[:80]!r} is not a prefix such as /api/brain")
    return text.rstrip("/")


ManifestName: TypeAlias = Annotated[
    str, matching(NAME, "name such as my-module: small letters, digits and dashes, at most 64")
]
Interface: TypeAlias = Annotated[
    str, matching(INTERFACE, "name of an interface such as BrainInterface")
]
HandlerName: TypeAlias = Annotated[
    str, matching(_HANDLER, "handler such as hooks:on_entry_created, a file and its function")
]
ReadPattern: TypeAlias = Annotated[str, AfterValidator(_read_pattern)]
WritePattern: TypeAlias = Annotated[str, AfterValidator(_write_pattern)]
OutsideFolder: TypeAlias = Annotated[str, AfterValidator(_outside_folder), Field(max_length=1_000)]
ToolName: TypeAlias = Annotated[str, matching(TOOL_NAME, "name of a tool such as brain_search")]
EventName: TypeAlias = Annotated[
    str, matching(EVENT_NAME, "name of an event such as daily.entry.created")
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

    read: Annotated[tuple[ReadPattern, ...], Field(max_length=200)] = ()
    write: Annotated[tuple[WritePattern, ...], Field(max_length=200)] = ()
    bash: YesOrList = False
    mcp: Annotated[tuple[ToolName, ...], Field(max_length=200)] = ()
    folders: Annotated[tuple[OutsideFolder, ...], Field(max_length=50)] = ()
    hooks: Annotated[tuple[ModuleHookEvent, ...], Field(max_length=3)] = ()
    people: bool = False


@dataclass(frozen=True, slots=True, kw_only=True, config=_STRICT)
class ManifestHook:
    """An event that the module hears, or a hook that asks it. `is_async`: its publisher does not
    wait, which no hook is.
    """

    event: EventName
    handler: HandlerName
    is_async: bool = Field(default=True, validation_alias="async")


@dataclass(frozen=True, slots=True, kw_only=True, config=_STRICT)
class McpTool:
    """A tool that agents may call."""

    name: ToolName
    handler: HandlerName
    description: Annotated[str, Field(max_length=4_000)] = ""


@dataclass(frozen=True, slots=True, kw_only=True, config=_STRICT)
class RoutePrefix:
    """Where its routes begin. Empty: `/api/<name>`."""

    prefix: Annotated[str, AfterValidator(_prefix)] = ""


@dataclass(frozen=True, slots=True, kw_only=True, config=_STRICT)
class StaticFiles:
    """A folder of the module whose files are served below `prefix`, below its routes' prefix."""

    prefix: Annotated[str, matching(_WORD, "word of a path such as ui")] = "ui"
    folder: Annotated[str, matching(_FOLDER, "folder of the module such as ui")] = "ui"


@dataclass(frozen=True, slots=True, kw_only=True, config=_STRICT)
class Manifest:
    """One module, as it presents itself. `notes`: what a person should know besides."""

    name: ManifestName
    version: Annotated[str, matching(_VERSION, "version of three numbers such as 1.0.0")]
    module: Annotated[str, matching(_CODE, "Python file of the module's folder such as module.py")]
    description: Annotated[str, Field(max_length=4_000)] = ""
    provides: Annotated[tuple[Interface, ...], Field(max_length=50)] = ()
    optional_requires: Annotated[tuple[Interface, ...], Field(max_length=50)] = ()
    dependencies: Annotated[tuple[Requirement, ...], Field(max_length=100)] = ()
    agents: Annotated[Mapping[ManifestName, AgentConfig], Field(max_length=50)] = Field(
        default_factory=dict
    )
    hooks: Annotated[tuple[ManifestHook, ...], Field(max_length=200)] = ()
    mcp_tools: Annotated[tuple[McpTool, ...], Field(max_length=200)] = ()
    publishes: Annotated[
        Mapping[EventName, Mapping[FieldName, FieldKind]], Field(max_length=100)
    ] = Field(default_factory=dict)
    routes: RoutePrefix = Field(default_factory=RoutePrefix)
    static: StaticFiles | None = None
    permissions: ManifestPermissions = Field(default_factory=ManifestPermissions)
    ui: Mapping[str, object] = Field(default_factory=dict)
    notes: tuple[str, ...] = ()

    @property
    def prefix(self) -> str:
        return self.routes.prefix or f"/api/{self.name}"


def read_manifest(
    text: str | bytes, *, reserved: Collection[str] = (), files: Collection[str] | None = None
) -> Manifest:
    """The manifest that the text spells. Raises ManifestError with all that is wrong.

    `reserved` are the first words of the core's own routes below `/api`. `files`, if given, are
    those of the module's folder: what the manifest names must be among them.
    """
    document = _Document(text)
    notes = tuple(says for key, says in _OLD.items() if document.root.pop(key, None) is not None)
    document.rename("requires", "optional_requires")
    problems = [*document.problems, *_cross_checked(document.root, reserved, files)]
    try:
        manifest = _ADAPTER.validate_python(document.root)
    except ValidationError as error:
        problems += [(place, _said(place, kind, says)) for place, kind, says in mistakes_in(error)]
    else:
        if not problems:
            return replace(manifest, notes=notes)
    raise ManifestError(
        [document.sentence(place, says) for place, says in document.ordered(problems)][
            :_MOST_PROBLEMS
        ]
    )


def manifest_document(manifest: Manifest) -> dict[str, object]:
    """The same as JSON, with every field: what apps are shown."""
    found: dict[str, object] = _ADAPTER.dump_python(manifest, mode="json")
    return {**found, "routes": {"prefix": manifest.prefix}}


class _Document:
    """The YAML as plain texts, with the line of each place in it."""

    def __init__(self, text: str | bytes) -> None:
        self.problems: list[tuple[Place, str]] = []
        self._lines: dict[Place, int] = {(): 1}
        node = _read(text)
        value = self._take(node, ()) if node is not None else None
        if not isinstance(value, dict):
            raise ManifestError(
                [
                    (
                        f"line 1: {'it is empty' if value is None else 'it is not a mapping'}; it "
                        "begins "
                        "with a line such as `name: my-module`"
                    )
                ]
            )
        self.root: dict[str, PlainValue] = value

    def rename(self, old: str, new: str) -> None:
        value = self.root.pop(old, None)
        if value is None:
            return
        here = self.root.get(new)
        self.root[new] = (
            [*here, *value] if isinstance(here, list) and isinstance(value, list) else value
        )
        self._lines.setdefault((new,), self._line((old,)))

    def ordered(self, problems: list[tuple[Place, str]]) -> list[tuple[Place, str]]:
        return sorted(dict.fromkeys(problems), key=lambda one: self._line(one[0]))

    def sentence(self, place: Place, says: str) -> str:
        where = ".".join(str(part)[:80] for part in place)
        return (
            f"line {self._line(place)}: {where}: {says}"
            if where
            else f"line {self._line(place)}: {says}"
        )

    def _line(self, place: Place) -> int:
        return next(
            self._lines[place[:length]]
            for length in range(len(place), -1, -1)
            if place[:length] in self._lines
        )

    def _take(self, node: YamlNode, place: Place) -> PlainValue:
        self._lines.setdefault(place, node.line)
        if node.entries is not None:
            return self._mapping(node.entries, place)
        if node.items is not None:
            return [self._take(item, (*place, at)) for at, item in enumerate(node.items)]
        return node.text

    def _mapping(
        self, entries: tuple[tuple[str, YamlNode], ...], place: Place
    ) -> dict[str, PlainValue]:
        pairs: dict[str, PlainValue] = {}
        for key, node in entries:
            here = (*place, key or "?")
            if key in pairs:
                self.problems.append((here, "is repeated"))
            self._lines[here] = node.line
            value = self._take(node, here)
            # `description:` and nothing more is as if it were not there
            if value is not None or place == ("agents",) or place[:1] == ("publishes",):
                pairs[key] = {} if value is None else value
        return pairs


def _read(text: str | bytes) -> YamlNode | None:
    try:
        return read_document(text if isinstance(text, str) else text.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        raise ManifestError(["line 1: it is not UTF-8"]) from error
    except YamlRejectedError as error:
        raise ManifestError([f"line {error.line or 1}: {error.reason}"]) from error


def _cross_checked(
    root: Mapping[str, PlainValue], reserved: Collection[str], files: Collection[str] | None
) -> Iterator[tuple[Place, str]]:
    name = root.get("name")
    if isinstance(name, str) and name in reserved:
        yield ("name",), f"{name!r} is a name of the daemon's own routes; choose another"
    prefix = _at(root, "routes", "prefix")
    word = _PREFIX.fullmatch(prefix) if isinstance(prefix, str) else None
    if word and word[1] != name and word[1] in reserved:
        yield (
            ("routes", "prefix"),
            f"{word[0]} is the daemon's own; leave it out, or choose another",
        )
    for field, key in (("mcp_tools", "name"), ("provides", None), ("optional_requires", None)):
        yield from _twice(root, field, key)
    yield from _unpublishable(root)
    if files is not None:
        yield from _absent(root, files)


def _unpublishable(root: Mapping[str, PlainValue]) -> Iterator[tuple[Place, str]]:
    """Events that the module cannot publish under its name, and words of notes that no field
    names.
    """
    name, published = root.get("name"), root.get("publishes")
    for event, kinds in published.items() if isinstance(published, dict) else ():
        if event.partition(".")[0] != name:
            yield ("publishes", event), f"is not an event of {name}; its name begins with `{name}.`"
        elif event in CATALOG:
            yield (
                ("publishes", event),
                "is declared already (`parachute hooks docs` lists such events); leave it out",
            )
        elif (
            isinstance(kinds, dict)
            and FieldKind.TEXT in kinds.values()
            and PATH_KINDS.isdisjoint(map(str, kinds.values()))
        ):
            yield (
                ("publishes", event),
                (
                    "has text of a note that no field names; add a field of the kind path, or "
                    "make it "
                    "free"
                ),
            )


def _twice(
    root: Mapping[str, PlainValue], field: str, key: str | None
) -> Iterator[tuple[Place, str]]:
    seen: set[str] = set()
    lines = root.get(field)
    for number, line in enumerate(lines if isinstance(lines, list) else []):
        named = line.get(key) if key and isinstance(line, dict) else line
        if isinstance(named, str) and named in seen:
            yield (field, number, *([key] if key else [])), f"{named[:80]!r} is there already"
        seen.update([named] if isinstance(named, str) else [])


def _absent(root: Mapping[str, PlainValue], files: Collection[str]) -> Iterator[tuple[Place, str]]:
    code = root.get("module")
    if isinstance(code, str) and _CODE.fullmatch(code) and code not in files:
        yield ("module",), f"there is no {code} in the folder"
    folder = _at(root, "static", "folder")
    if isinstance(folder, str) and not any(file.startswith(f"{folder}/") for file in files):
        yield ("static", "folder"), f"there is no file below {folder[:200]}/ in the folder"
    agents = root.get("agents")
    for name, agent in agents.items() if isinstance(agents, dict) else ():
        prompt = agent.get("system_prompt") if isinstance(agent, dict) else None
        if (
            isinstance(prompt, str)
            and (file := AgentConfig(system_prompt=prompt[:100_000]).prompt_file)
            and file not in files
        ):
            yield ("agents", name, "system_prompt"), f"there is no {file[:200]} in the folder"
    for field in ("hooks", "mcp_tools"):
        lines = root.get(field)
        for number, line in enumerate(lines if isinstance(lines, list) else []):
            handler = line.get("handler") if isinstance(line, dict) else None
            if (
                isinstance(handler, str)
                and ":" in handler
                and _HANDLER.fullmatch(handler)
                and f"{handler.partition(':')[0]}.py" not in files
            ):
                yield (
                    (field, number, "handler"),
                    f"there is no {handler.partition(':')[0]}.py in the folder",
                )


def _at(root: Mapping[str, PlainValue], *place: str) -> PlainValue:
    value: PlainValue = dict(root)
    for key in place:
        value = value.get(key) if isinstance(value, dict) else None
    return value


def _said(place: Place, kind: str, says: str) -> str:
    if kind != "unexpected_keyword_argument":
        return says
    close = difflib.get_close_matches(str(place[-1]), _known(place), n=1)
    return f"is not a field of a manifest{f'; did you mean {close[0]}?' if close else ''}"


def _known(place: Place) -> list[str]:
    if len(place) < 2:  # noqa: PLR2004  a field of the manifest itself
        return _names(Manifest)
    inner = {
        "sandbox": SandboxConfig,
        "routes": RoutePrefix,
        "static": StaticFiles,
        "permissions": ManifestPermissions,
    }.get(str(place[-2]))
    kind = inner or {"agents": AgentConfig, "hooks": ManifestHook, "mcp_tools": McpTool}.get(
        str(place[0])
    )
    return _names(kind) if kind else []


def _names(kind: type) -> list[str]:
    return [
        {"is_async": "async"}.get(one.name, one.name) for one in fields(kind) if one.name != "notes"
    ]


_ADAPTER = TypeAdapter(Manifest)
