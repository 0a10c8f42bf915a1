"""Note documents: the shapes of answers about notes.

Times are ISO 8601 in UTC, paths relative to the vault, offsets in bytes, lines from 1.
"""

from __future__ import annotations

from typing_extensions import TypedDict

from parachuted.times import Time


class NoteSummaryResponse(TypedDict):
    """A note as it was last indexed; `hash` is the SHA-256 of its bytes, and its ETag."""

    path: str
    title: str
    modified: Time
    size: int
    hash: str
    tags: list[str]
    frontmatter: dict[str, object]


class NotesResponse(TypedDict):
    """Some notes; `next` is the cursor of those that follow, null: there are none.

    `indexing`: the list is being made and lacks some.
    """

    notes: list[NoteSummaryResponse]
    next: str | None
    indexing: bool


class SectionResponse(TypedDict):
    """A heading and the text below it up to the next heading, whatever its level; `path` are the
    titles from the outermost one down.
    """

    level: int
    title: str
    path: list[str]
    content: str


class LinkResponse(TypedDict):
    """A link to a file, as it stands there."""

    kind: str
    target: str
    anchor: str | None
    label: str | None
    line: int


class NoteProblemResponse(TypedDict):
    """Something odd about the file."""

    code: str
    message: str


class NoteResponse(TypedDict):
    """A note; bytes that are not UTF-8 show as the replacement character, so ask for it raw where
    each byte counts.

    `modified` of an earlier version: when it was written, or, where that was not recorded, when
    another took its place.
    """

    path: str
    title: str
    hash: str
    size: int
    modified: Time
    frontmatter: dict[str, object]
    preamble: str
    sections: list[SectionResponse]
    links: list[LinkResponse]
    problems: list[NoteProblemResponse]


class PlaceResponse(TypedDict):
    """Where something stands: bytes from `start` up to `stop`, lines from the first to the last."""

    start: int
    stop: int
    first_line: int
    last_line: int


class HeadingResponse(PlaceResponse):
    """A section, subsections included; its text begins at `body_start`."""

    level: int
    title: str
    path: list[str]
    body_start: int


class FrontmatterKeyResponse(PlaceResponse):
    """A top-level key of the frontmatter, with its value's lines."""

    name: str


class NoteMapResponse(TypedDict):
    """What a note has and where, without its text."""

    path: str
    hash: str
    size: int
    lines: int
    body_start: int
    keys: list[FrontmatterKeyResponse]
    headings: list[HeadingResponse]
    problems: list[NoteProblemResponse]


class NoteVersionResponse(TypedDict):
    """An earlier text of a note, as `?version=` takes its `hash`: who wrote it, when and how; null
    where no one saw that.
    """

    hash: str
    at: Time | None
    by: str | None
    operation: str | None
    run: str | None


class NoteVersionsResponse(TypedDict):
    """The earlier texts that are kept, the newest first."""

    path: str
    versions: list[NoteVersionResponse]


class NoteWriteResponse(TypedDict):
    """What a write did.

    `before` and `hash` are the digests around it; `merged`: what others wrote meanwhile is in it
    too.
    """

    path: str
    hash: str
    before: str | None
    changed: bool
    merged: bool


class NoteDeleteResponse(TypedDict):
    """A note that is gone from the vault, and how to have it back."""

    path: str
    hash: str
    restore: str


class RewrittenNoteResponse(TypedDict):
    """A note whose links were rewritten."""

    path: str
    hash: str


class NoteMoveResponse(TypedDict):
    """A note that has another path.

    `left` counts links to it that stay as they are, in notes that the caller sees: it may not write
    them, or no spelling of the new path fits.
    """

    path: str
    source: str
    hash: str
    rewritten: list[RewrittenNoteResponse]
    left: int


class BacklinkResponse(TypedDict):
    """A link that leads here."""

    source: str
    text: str
    kind: str
    line: int


class BacklinksResponse(TypedDict):
    """All links that lead to a note, as far as the caller sees the notes that they stand in."""

    path: str
    backlinks: list[BacklinkResponse]
    count: int


class UnresolvedLinksResponse(TypedDict):
    """Links that lead to nothing; `next` is the cursor of those that follow."""

    links: list[BacklinkResponse]
    next: str | None
