"""Rows: the queries of the note catalogue and their results; values only."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias

Operator: TypeAlias = Literal["eq", "ne", "gt", "lt", "in", "exists"]
IndexedLinkKind: TypeAlias = Literal["wiki", "markdown", "embed"]


@dataclass(frozen=True, slots=True, kw_only=True)
class CatalogueNote:
    """One note as it was indexed: `modified` in seconds since 1970, `size` in bytes, `digest`
    SHA-256 in hex.

    All of `frontmatter` is text; `typed` has numbers, booleans and null where they are meant.
    """

    path: str
    title: str
    modified: float
    size: int
    digest: str
    tags: tuple[str, ...]
    frontmatter: Mapping[str, object]
    typed: Mapping[str, object]


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyFilter:
    """One condition on a frontmatter key, or on `title`, `modified` or `size`.

    `value` is a text, for `in` several, for `exists` whether it does. Numbers and dates compare as
    such, all else as text, case aside. A list fulfils it when one of its items does; `ne` is
    fulfilled where `eq` is not.
    """

    key: str
    op: Operator
    value: str | tuple[str, ...] | bool


@dataclass(frozen=True, slots=True, kw_only=True)
class NoteQuery:
    """Which notes, in which order.

    `sort`: path, title, modified, size or a frontmatter key, a `-` before it for descending.

    `after` is the `next` of the page before; `folder` takes what is below it too; `tag` takes
    `tag/below` too.
    """

    filters: tuple[KeyFilter, ...] = ()
    folder: str | None = None
    tag: str | None = None
    sort: str = "path"
    limit: int = 100
    after: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CataloguePage:
    """Some notes; `next` leads to those that follow, None: there are none."""

    rows: tuple[CatalogueNote, ...]
    next: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class CatalogueLink:
    """A link: `target` is the file that it leads to (None: to nothing), `text` its target as
    written, `line` counts from 1.
    """

    source: str
    target: str | None
    text: str
    kind: IndexedLinkKind
    line: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkPage:
    """Some links; `next` leads to those that follow, None: there are none."""

    rows: tuple[CatalogueLink, ...]
    next: str | None
