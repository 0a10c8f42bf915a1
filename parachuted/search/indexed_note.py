"""Indexed note: what is indexed of one note."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from hashlib import sha256
from typing import Annotated, Literal, NamedTuple, TypeAlias

from pydantic import Field, PlainSerializer

from parachuted.access.private_text import without_private
from parachuted.search.query import ValueKind, facet, measure
from parachuted.search.words import cut, has_parts, indexed, plain, storable, words_of
from parachuted.texts.times import UnixTime
from parachuted.vault import Link, PathText, VaultPath, links_in, parse_note, printable

Operator: TypeAlias = Literal["eq", "ne", "gt", "lt", "in", "exists"]
IndexedLinkKind: TypeAlias = Literal["wiki", "markdown", "embed"]


def _loaded(matter: str) -> Mapping[str, object]:
    found: Mapping[str, object] = json.loads(matter) if matter else {}
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class NoteSummary:
    """As it was last indexed; `hash` is the SHA-256 of its bytes, and its ETag."""

    path: PathText
    title: str
    modified: UnixTime
    size: int
    digest: Annotated[str, Field(serialization_alias="hash")]
    tags: tuple[str, ...] = ()
    # as JSON, since most who ask need one of the two; the second has numbers, booleans and null
    # where they are meant, and is empty where that is the same
    matter: Annotated[str, Field(serialization_alias="frontmatter"), PlainSerializer(_loaded)] = ""
    typed_matter: Annotated[str, Field(exclude=True)] = ""

    @property
    def typed(self) -> Mapping[str, object]:
        return _loaded(self.typed_matter or self.matter)


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyFilter:
    """One condition on a frontmatter key, or on `title`, `modified` or `size`.

    Numbers and dates compare as such, all else as text, case aside. A list fulfils it when one of
    its items does; `ne` is fulfilled where `eq` is not.
    """

    key: str
    op: Operator
    value: str | tuple[str, ...] | bool


@dataclass(frozen=True, slots=True, kw_only=True)
class NoteQuery:
    """`sort`: path, title, modified, size or a frontmatter key, a `-` before it for descending.

    `after` is the `next` of the page before; `folder` and `tag` take what is below them too.
    """

    filters: tuple[KeyFilter, ...] = ()
    folder: str | None = None
    tag: str | None = None
    sort: str = "path"
    limit: int = 100
    after: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CataloguePage:
    """`next` leads to those that follow, None: that was all."""

    rows: tuple[NoteSummary, ...]
    next: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class CatalogueLink:
    """`target` None: it leads to nothing; `text` is as written, `line` counts from 1."""

    source: VaultPath
    target: VaultPath | None
    text: str
    kind: IndexedLinkKind
    line: int


log = logging.getLogger(__name__)

LARGEST = 10 << 20
KEPT_OF_LARGE = 1 << 20
_LOOKED_AT_FOR_NUL = 8192
_MOST_TAGS, _MOST_LINKS, _MOST_FIELDS, _MOST_WORDS = 500, 5_000, 500, 64
_LONGEST_TITLE = 500
_TAG = re.compile(r"#([^\s#.,;:!?()\[\]{}'\"<>|&*`~^=+\\]+)")
_CODE = re.compile(
    r"^[ \t]*(`{3,}|~{3,})[^\n]*\n.*?(?:^[ \t]*\1[^\n]*$|\Z)|`[^`\n]*`", re.MULTILINE | re.DOTALL
)
_LONGEST_WITH_TAGS = 1 << 20
_SEPARATORS = re.compile(r"[,\s]+")


class IndexedField(NamedTuple):
    key: str
    at: int
    text: str
    kind: ValueKind
    number: float


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexedNote(NoteSummary):
    """`texts` are the indexed columns; `reason` says why not all of the note is found by them."""

    fields: tuple[IndexedField, ...] = ()
    links: tuple[Link, ...] = ()
    texts: tuple[str, ...]
    reason: str | None


def make_indexed_note(
    path: str, data: bytes, modified: float, *, is_whole: bool = False
) -> IndexedNote:
    """`is_whole`: with its private parts. Never raises on content."""
    if len(data) > LARGEST:
        return make_large_note(
            path, data[:KEPT_OF_LARGE], modified, len(data), sha256(data).hexdigest()
        )
    digest = sha256(data).hexdigest()
    try:
        return _make_note(path, data, modified, len(data), digest, None, is_whole=is_whole)
    except (
        Exception
    ):  # a fault of this program: one note is found by its name alone, and all others as ever
        log.exception("a note could not be prepared for the search", extra={"path": path})
        return make_unread_note(
            path,
            modified,
            len(data),
            digest,
            "an error in parachuted kept it from being read; see the log",
        )


def make_large_note(path: str, head: bytes, modified: float, size: int, digest: str) -> IndexedNote:
    reason = (
        f"it is larger than {LARGEST >> 20} MB; only its first {KEPT_OF_LARGE >> 20} MB is searched"
    )
    return _make_note(path, head, modified, size, digest, reason)


def make_unread_note(
    path: str, modified: float, size: int, digest: str, reason: str
) -> IndexedNote:
    return IndexedNote(
        path=path,
        title=_stem(path),
        modified=modified,
        size=size,
        digest=digest,
        texts=(indexed(_stem(path)), "", "", "", "", indexed(_stem_path(path)), folders_of(path)),
        reason=reason,
    )


def _make_note(
    path: str,
    data: bytes,
    modified: float,
    size: int,
    digest: str,
    reason: str | None,
    *,
    is_whole: bool = False,
) -> IndexedNote:
    if b"\0" in data[:_LOOKED_AT_FOR_NUL]:
        return make_unread_note(
            path,
            modified,
            size,
            digest,
            "it holds NUL bytes, so it is not text; it is found by its name only",
        )
    whole = parse_note(data)
    note = whole if is_whole else parse_note(without_private(data))
    values: Mapping[str, object] = note.values
    typed = note.matter.typed
    headings = [(heading.level, heading.title) for heading in note.outline.headings]
    body = storable(note.data[note.body.start :].decode("utf-8", "replace"))
    stem = _stem(path)
    title = storable(
        (_text_of(values.get("title")) or _first_title(headings) or stem)[:_LONGEST_TITLE]
    )
    tags = _tags(values, body)
    fields = tuple(_fields(values)) if values else ()
    write = indexed if has_parts(note.data) or has_parts(_stem_path(path).encode()) else cut
    return IndexedNote(
        path=path,
        title=title,
        modified=modified,
        size=size,
        digest=digest,
        tags=tags,
        matter=json.dumps(values, ensure_ascii=False) if values else "",
        typed_matter=json.dumps(typed, ensure_ascii=False) if typed is not values else "",
        fields=fields,
        links=links_in(whole)[:_MOST_LINKS] if b"[" in whole.data else (),
        texts=(
            write(title if stem == title else f"{title}\n{stem}"),
            write(storable("\n".join(title for _level, title in headings))),
            write(body),
            write(" ".join(tags)),
            write("\n".join(field.text for field in fields)),
            write(_stem_path(path)),
            _all_facets(path, tags, fields),
        ),
        reason=reason,
    )


def _all_facets(path: str, tags: tuple[str, ...], fields: tuple[IndexedField, ...]) -> str:
    of_tags = (facet("tag", one) for tag in tags for one in _and_above(plain(tag)))
    return " ".join([folders_of(path), *of_tags, *_facets(fields)])


def _first_title(headings: list[tuple[int, str]]) -> str | None:
    return next((title for level, title in headings if level == 1), None)


def _stem(path: str) -> str:
    return printable(_without_suffix(path.rpartition("/")[2]))


def _stem_path(path: str) -> str:
    return printable(_without_suffix(path))


def _without_suffix(path: str) -> str:
    return path.removesuffix(".md").removesuffix(".markdown")


@lru_cache(maxsize=4096)
def _folder_facets(folder: str) -> str:
    names = folder.split("/")
    return " ".join(facet("folder", "/".join(names[:count])) for count in range(1, len(names) + 1))


def folders_of(path: str) -> str:
    folder = path.rpartition("/")[0]
    return _folder_facets(folder) if folder else ""


def _tags(values: Mapping[str, object], body: str) -> tuple[str, ...]:
    """Of the frontmatter, then those in the text; each once, without its `#`."""
    found: dict[str, str] = {}
    for key in ("tags", "tag"):
        for tag in _listed(values.get(key)):
            _add_tag(found, tag)
    if "#" in body and len(body) <= _LONGEST_WITH_TAGS and _TAG.search(body):
        text = _CODE.sub(" ", body) if "`" in body or "~~~" in body else body
        for match in _TAG.finditer(text):
            if (match.start() == 0 or text[match.start() - 1] in " \t\n\r(,") and not match[
                1
            ].isdigit():
                _add_tag(found, match[1])
    return tuple(found.values())


def _add_tag(found: dict[str, str], text: str) -> None:
    tag = storable(text).strip().strip("#/").strip()
    if tag and len(found) < _MOST_TAGS:
        found.setdefault(plain(tag), tag)


def _listed(value: object) -> list[str]:
    if isinstance(value, str):
        return _SEPARATORS.split(value)
    return [item for item in value if isinstance(item, str)] if isinstance(value, list) else []


def _and_above(tag: str) -> Iterator[str]:
    """`a/b/c` is a `a/b` and an `a`."""
    while tag:
        yield tag
        tag = tag.rpartition("/")[0]


def _text_of(value: object) -> str | None:
    return value.strip() or None if isinstance(value, str) else None


def _fields(values: Mapping[str, object]) -> Iterator[IndexedField]:
    """A key that has no text is there all the same."""
    left = _MOST_FIELDS
    for key, value in values.items():
        for at, text in enumerate(_texts(value) or [""]):
            if (left := left - 1) < 0:
                return
            yield IndexedField(storable(plain(key)), at, storable(text), *measure(text))


def _texts(value: object) -> list[str]:
    if isinstance(value, str):
        return [value]
    inner = value if isinstance(value, list) else value.values() if isinstance(value, dict) else ()
    return [text for item in inner for text in _texts(item)]


def _facets(fields: tuple[IndexedField, ...]) -> Iterator[str]:
    for key in {field.key: None for field in fields}:
        yield facet("key", key)
    for field in fields:
        for word in words_of(field.text)[:_MOST_WORDS]:
            yield facet("value", f"{field.key}\n{word}")
