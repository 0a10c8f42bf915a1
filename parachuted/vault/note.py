"""Note: a markdown file as byte spans, so that a part can be read or changed without the rest."""

from __future__ import annotations

import hashlib
import json
import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from parachuted.vault.blocks import MarkdownRefusedError, read_blocks
from parachuted.vault.bounded_yaml import NoteProblem, YamlValue
from parachuted.vault.frontmatter import (
    BOM,
    MAX_NOTE_BYTES,
    FrontmatterKey,
    FrontmatterValues,
    Span,
    find_block,
    read_block,
    unterminated_problem,
)
from parachuted.vault.headings import Heading, Outline, read_outline

_MARKS = re.compile(r"\A\s*#{1,6}\s+")
_UNREAD = NoteProblem(
    code="too-large",
    message=f"the note is larger than {MAX_NOTE_BYTES >> 20} MB; its keys and sections were not "
    "looked for",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """`path` holds the titles from the outermost heading down; the offsets are in bytes."""

    level: int
    title: str
    path: tuple[str, ...]
    start: int
    body_start: int
    own_stop: int
    stop: int

    @property
    def body(self) -> Span:
        """All below the heading, subsections included."""
        return Span(start=self.body_start, stop=self.stop)

    @property
    def own(self) -> Span:
        return Span(start=self.body_start, stop=self.own_stop)

    @property
    def span(self) -> Span:
        return Span(start=self.start, stop=self.stop)


@dataclass(frozen=True, kw_only=True)
class ParsedNote:
    """`frontmatter` lies between the two `---` lines; the rest is read when first needed."""

    data: bytes
    frontmatter: Span | None
    body: Span

    @property
    def bom(self) -> bool:
        return self.data.startswith(BOM)

    @property
    def is_read(self) -> bool:
        return len(self.data) <= MAX_NOTE_BYTES

    @cached_property
    def eol(self) -> bytes:
        head = self.data if self.is_read else self.data[:65536]
        windows = head.count(b"\r\n")
        return b"\r\n" if windows > head.count(b"\n") - windows else b"\n"

    @cached_property
    def matter(self) -> FrontmatterValues:
        return read_block(self.data, self.frontmatter) if self.frontmatter else FrontmatterValues()

    @property
    def keys(self) -> tuple[FrontmatterKey, ...]:
        return self.matter.keys

    @property
    def values(self) -> Mapping[str, YamlValue]:
        """Texts, lists and maps of texts; empty when the frontmatter is not YAML."""
        return self.matter.values

    @cached_property
    def outline(self) -> Outline:
        return read_outline(self.data, self.body.start) if self.is_read else Outline(complete=False)

    @cached_property
    def sections(self) -> tuple[Section, ...]:
        return tuple(_sections(self.outline.headings, len(self.data)))

    @property
    def preamble(self) -> Span:
        headings = self.outline.headings
        return Span(start=self.body.start, stop=headings[0].start if headings else self.body.stop)

    @cached_property
    def problems(self) -> tuple[NoteProblem, ...]:
        if not self.is_read:
            return (_UNREAD,)
        return (
            *_byte_problems(self.data),
            *_block_problems(self),
            *self.matter.problems,
            *self.outline.problems,
        )

    @cached_property
    def title(self) -> str | None:
        """The first level-1 heading that is not an entry's, which begins with its para-id."""
        return next(
            (
                heading.title
                for heading in self.outline.headings
                if heading.level == 1 and not PARA_ID.match(heading.title)
            ),
            None,
        )

    def section(self, name: str | Sequence[str]) -> Section | None:
        """The section of that name, compared without regard to case and runs of white space.

        A plain name is looked for at level 2, then at any level; "A > B", or a sequence of titles,
        is a heading path from the outermost heading, or else from anywhere. The first counts.
        """
        return next(iter(self.sections_called(name)), None)

    def sections_called(self, name: str | Sequence[str]) -> list[Section]:
        if not isinstance(name, str):
            return self._at_path(name)
        sections = self._named(folded_title(name)) or self._named(folded_title(plain_title(name)))
        return sections or (self._at_path(name.split(">")) if ">" in name else [])

    def text(self, span: Span) -> str:
        return self.data[span.start : span.stop].decode("utf-8", "replace")

    def _named(self, name: str) -> list[Section]:
        sections = [section for section in self.sections if folded_title(section.title) == name]
        return [section for section in sections if section.level == 2] or sections  # noqa: PLR2004 - as in `##`

    def _at_path(self, titles: Sequence[str]) -> list[Section]:
        wanted = tuple(map(folded_title, titles))
        sections = [
            section
            for section in self.sections
            if tuple(map(folded_title, section.path[-len(wanted) :])) == wanted
        ]
        return [section for section in sections if len(section.path) == len(wanted)] or sections


def parse_note(data: bytes) -> ParsedNote:
    """Never raises on content; `problems` lists what is odd."""
    start = len(BOM) if data.startswith(BOM) else 0
    block = find_block(data) if len(data) <= MAX_NOTE_BYTES else None
    if block is None or block.unterminated:
        return ParsedNote(data=data, frontmatter=None, body=Span(start=start, stop=len(data)))
    return ParsedNote(
        data=data, frontmatter=block.span, body=Span(start=block.stop, stop=len(data))
    )


def is_utf8(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


def plain_title(name: str) -> str:
    return _MARKS.sub("", name).strip()


def folded_title(title: str) -> str:
    """As titles and keys are compared: without regard to case and runs of white space."""
    return " ".join(unicodedata.normalize("NFC", title).casefold().split())


def _sections(headings: Sequence[Heading], end: int) -> Iterator[Section]:
    above: list[tuple[int, tuple[str, ...]]] = [(0, ())]
    nexts = [heading.start for heading in headings[1:]] + [end]
    for heading, own_stop, stop in zip(headings, nexts, _stops(headings, end), strict=False):
        while above[-1][0] >= heading.level:
            above.pop()
        path = (*above[-1][1], heading.title)
        above.append((heading.level, path))
        yield Section(
            level=heading.level,
            title=heading.title,
            path=path,
            start=heading.start,
            body_start=heading.stop,
            own_stop=own_stop,
            stop=stop,
        )


def _stops(headings: Sequence[Heading], end: int) -> list[int]:
    following = [end] * 7
    stops = []
    for heading in reversed(headings):
        stops.append(following[heading.level])
        following[heading.level :] = [heading.start] * (7 - heading.level)
    return stops[::-1]


def _byte_problems(data: bytes) -> Iterator[NoteProblem]:
    if data.startswith(BOM):
        yield NoteProblem(code="bom", message="the file begins with a byte order mark")
    try:
        data.decode()
    except UnicodeDecodeError as error:
        yield NoteProblem(code="not-utf8", message=f"byte {error.start} is not UTF-8")
    if (at := data.find(b"\0")) >= 0:
        yield NoteProblem(code="nul", message=f"byte {at} is NUL")
    windows, lines, returns = data.count(b"\r\n"), data.count(b"\n"), data.count(b"\r")
    if windows and windows == lines:
        yield NoteProblem(code="crlf", message="lines end with CR LF")
    elif windows:
        yield NoteProblem(
            code="mixed-line-ends",
            message=f"{windows} of {lines} lines end with CR LF, the others with LF",
        )
    if returns > windows:
        yield NoteProblem(
            code="lone-cr",
            message="a CR stands without an LF; it ends a line in the text, not in the frontmatter",
        )


def _block_problems(note: ParsedNote) -> Iterator[NoteProblem]:
    if note.frontmatter is None:
        if (block := find_block(note.data)) and block.unterminated:
            yield unterminated_problem()
    elif b"---" in note.data[note.frontmatter.start : note.frontmatter.stop]:
        yield NoteProblem(
            code="frontmatter-dashes",
            message="--- stands inside the frontmatter; the app takes it for the end of it",
        )


Meaning = Mapping[str, str]
"""The digest of each unit in the note's order: sections by heading path (`Projects > A`), keys
(`@status`), `(opening text)`. That of a key that holds ids alone begins with `ids:`.
"""

PARA_ID = re.compile(r"para:[a-z][a-z0-9-]*:[a-z0-9]{6,12}(?![\w-])\s*", re.IGNORECASE)
_NAMED_BY_ID = re.compile(r"(?:para:)?[a-z][a-z0-9-]*:[a-z0-9]{6,12}", re.IGNORECASE)
_IDS = "ids:"

OPENING = "(opening text)"
FRONTMATTER = "(frontmatter)"
WHOLE = "(whole note)"
OWN_NAMES = {OPENING, FRONTMATTER, WHOLE}
_UNTITLED = "(untitled)"


def meaning(data: bytes) -> Meaning:
    """Of headings of the same path the later ones are numbered."""
    units = unit_texts(parse_note(data))
    if units is None:
        return {WHOLE: _digest(data)}
    return {
        name: f"{_IDS if holds_ids(name, text) else ''}{_digest(' '.join(text.split()).encode())}"
        for name, text in units.items()
    }


def holds_ids(unit: str, text: str) -> bool:
    """Whether it says nothing to a person: para-ids alone, or what a program notes by them."""
    if not unit.startswith("@"):
        return False
    value = json.loads(text)
    if isinstance(value, dict):
        return bool(value) and all(map(_NAMED_BY_ID.fullmatch, value))
    values = value if isinstance(value, list) else [value]
    return bool(values) and all(isinstance(one, str) and PARA_ID.fullmatch(one) for one in values)


def says_something(unit: str, old: Meaning | None, new: Meaning | None) -> bool:
    """Whether a changed unit holds, or held, anything but ids."""
    found = [one[unit] for one in (old or {}, new or {}) if unit in one]
    return not all(digest.startswith(_IDS) for digest in found)


def unit_texts(note: ParsedNote) -> dict[str, str] | None:
    """That of a key as JSON; None where the note cannot be divided into parts."""
    if not (note.outline.complete and is_utf8(note.data)):
        return None
    units: dict[str, str] = {}
    used: dict[str, int] = {}
    for name, text in _parts(note):
        units[_numbered(name, used)] = text
    return units


def changed_units(old: Meaning | None, new: Meaning | None) -> tuple[str, ...]:
    """In the new note's order, then those that are gone; None is a note that is not there."""
    before, after = old or {}, new or {}
    changed = [unit for unit in after if before.get(unit) != after[unit]]
    return (*changed, *(unit for unit in before if unit not in after))


def _parts(note: ParsedNote) -> Iterator[tuple[str, str]]:
    if note.matter.readable:
        yield from (
            (f"@{name}", json.dumps(_canonical(value), sort_keys=True))
            for name, value in note.values.items()
        )
    elif note.frontmatter:
        yield FRONTMATTER, note.text(note.frontmatter)
    opening = note.text(note.preamble)
    if opening.strip():
        yield OPENING, opening
    for section in note.sections:
        yield _heading_path(section.path), note.text(section.own)


def _canonical(value: YamlValue) -> YamlValue:
    if isinstance(value, str):
        return " ".join(value.split())
    if isinstance(value, list):
        return [_canonical(item) for item in value]
    return {name: _canonical(item) for name, item in value.items()}


def _heading_path(titles: Iterable[str]) -> str:
    """With a `#` before what could be taken for a key or for one of our own names."""
    path = " > ".join(" ".join(title.split()) or _UNTITLED for title in titles)
    return f"#{path}" if path[0] in "#@" or path in OWN_NAMES else path


def _numbered(name: str, used: dict[str, int]) -> str:
    used[name] = used.get(name, 0) + 1
    return name if used[name] == 1 else _numbered(f"{name} ({used[name]})", used)


def _digest(data: bytes) -> str:
    return hashlib.blake2b(data, digest_size=8).hexdigest()


_MARKER = re.compile(
    rb"^(?:(<{7})(?:[ ][^\r\n]*)?|(={7})|(>{7})(?:[ ][^\r\n]*)?)\r?$", re.MULTILINE
)


def conflict_line(data: bytes) -> int | None:
    """The line (from 1) of the first conflict marker outside code fences."""
    if b"<<<<<<<" not in data:
        return None
    fences: list[tuple[int, int]] | None = None
    for start, stop in _conflicts(data):
        fences = _fences(data) if fences is None else fences
        if not any(first <= start and stop <= last for first, last in fences):
            return data.count(b"\n", 0, start) + 1
    return None


def _conflicts(data: bytes) -> Iterator[tuple[int, int]]:
    start, is_divided = -1, False
    for marker in _MARKER.finditer(data):
        if marker[1]:
            start, is_divided = marker.start(), False
        elif marker[2]:
            is_divided = start >= 0
        elif is_divided:
            yield start, marker.end()
            start, is_divided = -1, False


def _fences(data: bytes) -> list[tuple[int, int]]:
    try:
        return [
            (block.start, block.stop)
            for block in read_blocks(data, 0, len(data))
            if block.kind == "Fenced"
        ]
    except MarkdownRefusedError:
        return []
