"""Workspaces: what a conversation begins with, as notes in `Chat/workspaces/`."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Annotated, Any, Final, Literal

from pydantic import AliasChoices, AliasGenerator, BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel
from typing_extensions import TypedDict

from parachuted.errors import EditRefusedError, NotFoundError, ParachuteError
from parachuted.modules import (
    Finding,
    Module,
    NoteEdit,
    RemoveKey,
    SetKey,
    is_conflict_copy,
    reading,
    route,
)

from .permissions import TrustLevel, trust_level_of

FOLDER: Final = "Chat/workspaces"
_PREFIX: Final = "/api/workspaces"
_SLUG: Final = re.compile(r"[a-z0-9]([a-z0-9-]*[a-z0-9])?")
_NO_SLUG: Final = re.compile(r"[^a-z0-9]+")
_LONGEST_SLUG: Final = 60

Name = Annotated[str, Field(min_length=1, max_length=200)]
Words = Annotated[str, Field(max_length=2_000)]
Names = Literal["all", "none"] | list[str]


def _spellings(name: str) -> AliasChoices:
    return AliasChoices(name, to_camel(name))


class Capabilities(BaseModel):
    """What its conversations can use, by name."""

    model_config = ConfigDict(extra="forbid")

    mcps: Names = "all"
    skills: Names = "all"
    agents: Names = "all"
    plugins: Names = "all"


class WorkspaceChange(BaseModel):
    """What is left out stays; an empty text takes a value out."""

    model_config = ConfigDict(alias_generator=AliasGenerator(validation_alias=_spellings))

    name: Name | None = None
    description: Words | None = None
    default_trust_level: Words | None = None
    working_directory: Words | None = None
    model: Words | None = None
    capabilities: Capabilities | None = None


class NewWorkspace(WorkspaceChange):
    """A workspace to be made."""

    name: Name
    default_trust_level: Words | None = "direct"


class WorkspaceRow(TypedDict):
    """A session that begins in it has its model, working directory and trust level."""

    name: str
    slug: str
    description: str
    default_trust_level: TrustLevel
    working_directory: str | None
    model: str | None
    capabilities: dict[str, str | list[str]]


async def find_workspace(module: Module, slug: str) -> WorkspaceRow:
    """NotFoundError, also where its note cannot be read."""
    if not _SLUG.fullmatch(slug):
        raise NotFoundError(f"there is no workspace {slug[:80]!r}")
    findings: list[Finding] = []
    with reading(_path(slug), findings):
        return _row(slug, (await module.vault.note(_path(slug))).frontmatter)
    raise NotFoundError(f"there is no workspace {slug[:80]!r}: {findings[0].problem}")


class WorkspaceRoutes(Module):
    @route("GET", "/", prefix=_PREFIX)
    async def list_workspaces(self) -> dict[str, list[WorkspaceRow]]:
        """All workspaces, by name."""
        found, _ = await self.workspaces()
        return {"workspaces": sorted(found, key=lambda one: (one["name"].casefold(), one["slug"]))}

    async def workspaces(self) -> tuple[list[WorkspaceRow], list[Finding]]:
        rows, findings = list[WorkspaceRow](), list[Finding]()
        paths = await self.vault.list(f"{FOLDER}/*.md")
        for path in (path for path in paths if not is_conflict_copy(path)):
            with reading(path, findings):
                rows.append(await find_workspace(self, path.rpartition("/")[2].removesuffix(".md")))
        return rows, findings

    @route("POST", "/", prefix=_PREFIX, tolerant=True)
    async def create_workspace(self, body: NewWorkspace) -> dict[str, WorkspaceRow]:
        """Make a workspace. Its slug, by which sessions name it, is made of its name."""
        slug = _NO_SLUG.sub("-", body.name.casefold()).strip("-")[:_LONGEST_SLUG].strip("-")
        if not slug:
            raise EditRefusedError("the name needs a letter from a to z, or a digit")
        lines = [
            f"{edit.key}: {json.dumps(edit.value)}\n"
            for edit in _edits(body, {})
            if isinstance(edit, SetKey)
        ]
        await self.vault.create(_path(slug), f"---\n{''.join(lines)}---\n")
        return {"workspace": await find_workspace(self, slug)}

    @route("GET", "/{slug}", prefix=_PREFIX)
    async def get_workspace(self, slug: str) -> dict[str, WorkspaceRow]:
        """One workspace."""
        return {"workspace": await find_workspace(self, slug)}

    @route("PUT", "/{slug}", prefix=_PREFIX, tolerant=True)
    async def change_workspace(self, slug: str, body: WorkspaceChange) -> dict[str, WorkspaceRow]:
        """Change a workspace; what is left out stays, and an empty text takes a value out."""
        await find_workspace(self, slug)
        note = await self.vault.note(_path(slug))
        if edits := _edits(body, note.frontmatter):
            await self.vault.edit(note.path, edits, base=note.digest)
        return {"workspace": await find_workspace(self, slug)}

    @route("DELETE", "/{slug}", prefix=_PREFIX)
    async def delete_workspace(self, slug: str) -> dict[str, str]:
        """Remove a workspace. Its sessions stay."""
        await find_workspace(self, slug)
        await self.vault.delete(_path(slug))
        return {"slug": slug}


def _path(slug: str) -> str:
    return f"{FOLDER}/{slug}.md"


def _row(slug: str, frontmatter: Mapping[str, Any]) -> WorkspaceRow:
    level = str(frontmatter.get("default_trust_level") or "")
    try:
        trust = trust_level_of(level) or "direct"
    except ParachuteError:  # what cannot be read gives nothing
        trust = "sandboxed"
    return WorkspaceRow(
        name=str(frontmatter.get("name") or slug),
        slug=slug,
        description=str(frontmatter.get("description") or ""),
        default_trust_level=trust,
        working_directory=_text(frontmatter.get("working_directory")),
        model=_text(frontmatter.get("model")),
        capabilities=_capabilities(frontmatter.get("capabilities")),
    )


def _capabilities(value: object) -> dict[str, str | list[str]]:
    try:
        said = json.loads(value) if isinstance(value, str) else value
        capabilities = Capabilities.model_validate(said or {})
    except ValueError:  # what cannot be read gives nothing
        capabilities = Capabilities(mcps="none", skills="none", agents="none", plugins="none")
    return capabilities.model_dump()


def _edits(change: WorkspaceChange, present: Mapping[str, object]) -> list[NoteEdit]:
    """ActRefusedError, EditRefusedError."""
    values = change.model_dump(exclude_none=True)
    if level := change.default_trust_level:
        values["default_trust_level"] = trust_level_of(level)
    if change.capabilities is not None:
        values["capabilities"] = change.capabilities.model_dump_json(exclude_unset=True)
    edits: list[NoteEdit] = []
    for key, value in values.items():
        text = " ".join(str(value).split())
        if text:
            edits.append(SetKey(key, text))
        elif key in present:
            edits.append(RemoveKey(key))
    return edits


def _text(value: object) -> str | None:
    return str(value) if value not in (None, "") else None
