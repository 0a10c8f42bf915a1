"""Note shapes: a note's bytes as the documents that are answered. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from parachuted.api.routes.note_documents import (
    FrontmatterKeyResponse,
    HeadingResponse,
    LinkResponse,
    NoteMapResponse,
    NoteProblemResponse,
    NoteResponse,
    PlaceResponse,
    SectionResponse,
)
from parachuted.times import moment
from parachuted.vault import ParsedNote, links_in, printable


def told(path: str, digest: str, modified: float, note: ParsedNote) -> NoteResponse:
    """The whole of it, each text once. `modified` in seconds since 1970."""
    return {
        "path": printable(path),
        "title": shown(_title(path, note)),
        "hash": digest,
        "size": len(note.data),
        "modified": moment(modified),
        "frontmatter": clean_map(note.values),
        "preamble": note.text(note.preamble),
        "sections": _sections(note),
        "links": _links(note),
        "problems": _problems(note),
    }


def map_of(path: str, digest: str, note: ParsedNote) -> NoteMapResponse:
    """Where its headings and keys are."""
    lines = _Lines(note, [content_stop := len(note.data)])
    keys: list[FrontmatterKeyResponse] = [
        {"name": shown(key.name), **lines.place(key.span.start, key.span.stop)} for key in note.keys
    ]
    headings: list[HeadingResponse] = [
        {
            "level": one.level,
            "title": shown(one.title),
            "path": [shown(title) for title in one.path],
            "body_start": one.body_start,
            **lines.place(one.start, one.stop),
        }
        for one in note.sections
    ]
    return {
        "path": printable(path),
        "hash": digest,
        "size": content_stop,
        "lines": lines.last(content_stop),
        "body_start": note.body.start,
        "keys": keys,
        "headings": headings,
        "problems": _problems(note),
    }


def shown(text: str) -> str:
    """The text as JSON can hold it: halves of characters show as the replacement character."""
    return (
        text if text.isascii() else text.encode("utf-8", "surrogatepass").decode("utf-8", "replace")
    )


def clean_map(values: Mapping[str, object]) -> dict[str, object]:
    """Frontmatter as JSON can hold it."""
    return {shown(name): _clean(value) for name, value in values.items()}


def _clean(value: object) -> object:
    if isinstance(value, str):
        return shown(value)
    if isinstance(value, Mapping):
        return clean_map(value)
    return [_clean(item) for item in value] if isinstance(value, list | tuple) else value


def _title(path: str, note: ParsedNote) -> str:
    """As lists have it: what the frontmatter says, else the first heading of level 1, else the
    file's name.
    """
    said = note.values.get("title")
    name = printable(path.rpartition("/")[2]).removesuffix(".md").removesuffix(".markdown")
    return (said.strip() if isinstance(said, str) else "") or note.title or name


def _sections(note: ParsedNote) -> list[SectionResponse]:
    return [
        {
            "level": one.level,
            "title": shown(one.title),
            "path": [shown(title) for title in one.path],
            "content": note.text(one.own),
        }
        for one in note.sections
    ]


def _links(note: ParsedNote) -> list[LinkResponse]:
    return [
        {
            "kind": link.kind,
            "target": shown(link.target),
            "anchor": None if link.anchor is None else shown(link.anchor),
            "label": None if link.label is None else shown(link.label),
            "line": link.line,
        }
        for link in links_in(note)
    ]


def _problems(note: ParsedNote) -> list[NoteProblemResponse]:
    return [{"code": one.code, "message": one.message} for one in note.problems]


class _Lines:
    """Numbers of lines by offset, counted in one pass."""

    def __init__(self, note: ParsedNote, more: Iterable[int]) -> None:
        offsets = {0, *more}
        for span in [
            *(key.span for key in note.keys),
            *(section.span for section in note.sections),
        ]:
            offsets |= {span.start, span.stop}
        self._breaks: dict[int, int] = {}
        count = at = 0
        for offset in sorted(offsets):
            count += note.data.count(b"\n", at, offset)
            at = offset
            self._breaks[offset] = count
        self._data = note.data

    def place(self, start: int, stop: int) -> PlaceResponse:
        return {
            "start": start,
            "stop": stop,
            "first_line": self._breaks[start] + 1,
            "last_line": self.last(stop),
        }

    def last(self, stop: int) -> int:
        """The line that the last byte before that offset is on."""
        return self._breaks[stop] + (0 if stop and self._data[stop - 1 : stop] == b"\n" else 1)
