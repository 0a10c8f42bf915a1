"""Notes as the module API shows them, with hits, context previews, activity and edits.

They import nothing of the vault, so a module's own process does not load it for them.
"""

from __future__ import annotations

import unicodedata
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import InitVar, asdict, dataclass
from datetime import datetime
from functools import cached_property
from typing import Annotated, Any, Literal, TypeAlias, get_args

from pydantic import GetCoreSchemaHandler
from pydantic_core import CoreSchema, core_schema


class ByKind:
    """Annotates a union of dataclasses: as JSON `{"kind": "SetKey", "value": {...}}`."""

    def __get_pydantic_core_schema__(
        self,
        source: Any,  # noqa: ANN401  the union, as pydantic hands it
        handler: GetCoreSchemaHandler,
    ) -> CoreSchema:
        kinds = {kind.__name__: kind for kind in get_args(source)}

        def dump(value: object) -> dict[str, object]:
            name = type(value).__name__
            if not isinstance(value, source):
                raise TypeError(f"{name} is not one of {', '.join(kinds)}")
            return {"kind": name, "value": asdict(value)}

        choices: dict[Any, CoreSchema] = {
            name: core_schema.typed_dict_schema(
                {
                    "kind": core_schema.typed_dict_field(core_schema.literal_schema([name])),
                    "value": core_schema.typed_dict_field(handler.generate_schema(kind)),
                },
                extra_behavior="forbid",
            )
            for name, kind in kinds.items()
        }
        return core_schema.no_info_after_validator_function(
            lambda found: found["value"],
            core_schema.tagged_union_schema(choices, "kind"),
            serialization=core_schema.plain_serializer_function_ser_schema(dump),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Activity:
    """One exchange, as the log has it. `ts` is in UTC."""

    ts: str
    summary: str
    session_id: str | None = None
    session_title: str | None = None
    agent_type: str | None = None
    exchange_number: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Hit:
    """A note that a search found.

    `title` is plain; `snippet` is HTML with what was found between `<mark>` and `</mark>`.
    """

    path: str
    title: str
    snippet: str


Paths: TypeAlias = list[str]  # where `list` is a method
Hits: TypeAlias = list[Hit]


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextPart:
    """One context file.

    `level` is `root`, `parent`, `watched` or `direct`; `tokens` an estimate; `reason` says why it
    is in the text or is not. `modified` is when it last changed, None where there is no file.
    `is_strange`: its text counts as a stranger's.
    """

    path: str
    level: str
    tokens: int
    included: bool
    reason: str
    modified: datetime | None = None
    is_strange: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextPreview:
    """`text` as a prompt has it, the nearest last. `tokens` is its estimate, `is_truncated` says
    that the budget left something out; `parts` lists what was left out, too.
    """

    text: str
    tokens: int
    is_truncated: bool
    parts: tuple[ContextPart, ...]


Writer: TypeAlias = Literal["person", "key", "agent", "module"]
"""Who wrote a text: a person, an API key that is limited to a part of the vault, an agent's run, or
a module's own code.
"""

_USUAL_LEVEL = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class NoteSection:
    """A heading and all below it, its subsections included.

    `start` is where the heading begins, `body` where the text below it begins, `end` where the next
    heading of the same or a higher level begins: offsets in characters of the note's `text`.
    """

    heading: str
    level: int
    start: int
    body: int
    end: int

    def content(self, note: Note) -> str:
        """The text below the heading, without the blank lines around it."""
        return note.text[self.body : self.end].strip("\r\n")


@dataclass(frozen=True, slots=True, kw_only=True)
class NoteLink:
    """A link to a file.

    `target` is what is written, without an anchor; `start` and `end` are where that stands, in
    characters of the note's `text`. `path` is the file that it leads to; None: to none that the
    module may read.
    """

    target: str
    label: str | None
    kind: Literal["wiki", "markdown", "embed"]
    start: int
    end: int
    path: str | None


@dataclass(frozen=True, kw_only=True)
class Note:
    """A note as one read found it: `digest` names this very text, as the `base` of a later edit.

    `frontmatter` holds texts, lists and mappings; of words without quotes, `true`, `false`, `null`
    and numbers that are written in the usual way are values of their own. It is empty where the
    frontmatter is not YAML. `title` is the frontmatter's, the first heading of level 1, or the
    file's name. `created` is what the frontmatter's key of that name says, else `modified`.
    """

    path: str
    digest: str
    text: str
    frontmatter: Mapping[str, object]
    title: str
    tags: tuple[str, ...]
    created: datetime
    modified: datetime
    body_start: int
    find_sections: InitVar[Callable[[str], tuple[NoteSection, ...]]]
    find_links: InitVar[Callable[[str], tuple[NoteLink, ...]]]

    def __post_init__(
        self,
        find_sections: Callable[[str], tuple[NoteSection, ...]],
        find_links: Callable[[str], tuple[NoteLink, ...]],
    ) -> None:
        """Both are given the text, and called when they are first needed."""
        self.__dict__["_find"] = find_sections, find_links

    @property
    def body(self) -> str:
        """The text below the frontmatter."""
        return self.text[self.body_start :]

    @cached_property
    def sections(self) -> tuple[NoteSection, ...]:
        """In the order of the note."""
        sections: tuple[NoteSection, ...] = self.__dict__["_find"][0](self.text)
        return sections

    @cached_property
    def links(self) -> tuple[NoteLink, ...]:
        """In the order of the note; links to a place in the note itself are left out."""
        links: tuple[NoteLink, ...] = self.__dict__["_find"][1](self.text)
        return links

    def section(self, heading: str) -> NoteSection | None:
        """The first section of that heading, looked for at level 2, then at any; case does not
        matter.
        """
        wanted = _plain(heading)
        found = [section for section in self.sections if _plain(section.heading) == wanted]
        return next((one for one in found if one.level == _USUAL_LEVEL), next(iter(found), None))


@dataclass(frozen=True, slots=True, kw_only=True)
class NoteRow:
    """A note as the index has it, without its text; `size` in bytes."""

    path: str
    title: str
    digest: str
    tags: tuple[str, ...]
    frontmatter: Mapping[str, object]
    modified: datetime
    size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class NotePage:
    """Some notes.

    `next` is the cursor of those that follow; None: that was all. `is_indexing`: not all that
    changed is indexed yet, so some may be missing.
    """

    notes: tuple[NoteRow, ...]
    next: str | None
    is_indexing: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkRow:
    """A link, seen from one of its ends: `path` and `title` are the note's at the other end, None
    where there is none that the module may read.

    `line` is the one that it stands on, from 1; `text` its target as it is written.
    """

    path: str | None
    title: str | None
    line: int
    text: str


Links: TypeAlias = list[LinkRow]  # where `list` is a method


@dataclass(frozen=True, slots=True, kw_only=True)
class NoteBatch:
    """Notes that were read together.

    `left_out` says why others were not, by path: gone since, no text, or too large.
    """

    notes: tuple[Note, ...]
    left_out: Mapping[str, str]


class NoteStream:
    """Notes, one after the other.

    What could not be read is in `left_out`, by path, as far as the stream has come.
    """

    def __init__(self, batches: AsyncIterator[NoteBatch]) -> None:
        self._batches = batches
        self.left_out: dict[str, str] = {}

    async def __aiter__(self) -> AsyncIterator[Note]:
        async for batch in self._batches:
            self.left_out.update(batch.left_out)
            for note in batch.notes:
                yield note


@dataclass(frozen=True, slots=True, kw_only=True)
class Upload:
    """A file that was made of pieces: its `digest` is the SHA-256 in hex, its `size` in bytes."""

    path: str
    digest: str
    size: int


def _plain(heading: str) -> str:
    return " ".join(unicodedata.normalize("NFC", heading).casefold().split())


@dataclass(frozen=True, slots=True)
class SetKey:
    """Give a key of the frontmatter a value: a text, a number, true, false or a list of texts."""

    key: str
    value: str | int | float | bool | Sequence[str]


@dataclass(frozen=True, slots=True)
class RemoveKey:
    """Take a key out of the frontmatter. NotFoundError: there is none."""

    key: str


@dataclass(frozen=True, slots=True)
class SetSection:
    """Make this the text of a section, its subsections included; the section is made if need be.

    `section` is a heading, or `Outer > Inner`. EditRefusedError: there are several of that name.
    """

    section: str
    content: str


@dataclass(frozen=True, slots=True)
class AppendSection:
    """Put text at the end of a section, before its subsections; it is made if need be."""

    section: str
    content: str


@dataclass(frozen=True, slots=True)
class ReplaceSpan:
    """Put text in place of the characters from `start` up to `end`.

    Both are offsets in the text that `base` names, whatever else is changed with it.
    """

    start: int
    end: int
    text: str


NoteEdit: TypeAlias = Annotated[
    SetKey | RemoveKey | SetSection | AppendSection | ReplaceSpan, ByKind()
]


@dataclass(frozen=True, slots=True)
class NoteChange:
    """What is to become of one note of several: these edits; None: it is removed, or, where there
    is a `text`, made with it.

    `base` is the digest that the edits were decided on.
    """

    path: str
    edits: Sequence[NoteEdit] | None
    base: str | None = None
    text: str | None = None
