"""Frontmatter: the block between two `---` lines at the top of a note, its keys as byte spans."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import yaml

from parachuted.texts.yaml_events import MAX_BYTES
from parachuted.vault.bounded_yaml import (
    NoteProblem,
    YamlRefusedError,
    YamlValue,
    expand_aliases,
    json_scalar,
    kind_of,
    node_stop,
    plain_text,
    read_events,
    read_value,
    start_of,
    stop_of,
)

BOM = b"\xef\xbb\xbf"
MAX_NOTE_BYTES = 16 * 1024 * 1024

_OPEN = re.compile(rb"(?:\xef\xbb\xbf)?---[ \t]*+\r?\n")
_CLOSE = re.compile(rb"\n(?:\.\.\.[ \t]*+\r?\n)?(?:---|\.\.\.)[ \t]*+\r?(?:\n|\Z)")
_WATCH = re.compile(rb"watch[\"']?[ \t]*+:")
_KEY = re.compile(
    rb"""(?:"(?>(?:[^"\\\n]|\\.)*)"|'(?>(?:[^'\n]|'')*)'|[^\s\-?:,\[\]{}#&*!|>'"%@`][^\n:]*+(?>(?::(?=\S)[^\n:]*+)*))"""
    rb"""[ \t]*+:(?=[ \t\r\n]|\Z)"""
)
_INDENT = re.compile(rb" *+")
_DASH = re.compile(rb"-(?=[ \t\r\n]|\Z)")
_COMMENT = re.compile(rb"[ \t]++(#[^\r\n]*+)")
_HEADER_COMMENT = re.compile(rb"[ \t]*+:(?>[ \t]++[&!|>][^\s]*+)*+[ \t]++(#[^\r\n]*+)")
_INDENTED_COMMENTS = re.compile(rb"(?>(?:[ \t]++#[^\n]*+(?:\n|\Z))+)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """A half-open range of byte offsets into a note's data."""

    start: int
    stop: int


@dataclass(frozen=True, slots=True, kw_only=True)
class FrontmatterKey:
    """`span` is the key's whole lines, `value` a scalar on its line, `comment` the one beside."""

    name: str
    span: Span
    value: Span | None = None
    comment: bytes | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FrontmatterBlock:
    """`span` lies between the two lines, `stop` after the second; `unterminated`: it is missing."""

    span: Span
    stop: int
    unterminated: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class FrontmatterValues:
    """What a block says; where it is not `readable` YAML, keys are found by their lines.

    `tangled`: keys and lines do not go together, so no key can be changed. `typed`: values as JSON.
    """

    values: Mapping[str, YamlValue] = field(default_factory=dict)
    typed: Mapping[str, object] = field(default_factory=dict)
    keys: tuple[FrontmatterKey, ...] = ()
    problems: tuple[NoteProblem, ...] = ()
    readable: bool = True
    tangled: bool = False


def find_block(data: bytes) -> FrontmatterBlock | None:
    """None where the note does not begin with a line `---`; `...` ends the block too."""
    opening = _OPEN.match(data)
    if opening is None:
        return None
    start = opening.end()
    closing = _CLOSE.search(data, start - 1)
    if closing is None:
        return FrontmatterBlock(span=Span(start=start, stop=start), stop=start, unterminated=True)
    return FrontmatterBlock(span=Span(start=start, stop=closing.start() + 1), stop=closing.end())


def read_block(data: bytes, span: Span) -> FrontmatterValues:
    """Never raises on content."""
    block = data[span.start : span.stop]
    try:
        return _matter(*_events_of(block), span)
    except YamlRefusedError as refusal:
        keys, tangled = keys_by_line(data, span)
        return FrontmatterValues(
            keys=keys, problems=(refusal.problem,), readable=False, tangled=tangled
        )


def keys_by_line(data: bytes, span: Span) -> tuple[tuple[FrontmatterKey, ...], bool]:
    """The keys of a block, YAML or not, as its lines show them, and whether some belong to none."""
    starts: list[tuple[str, int, int]] = []
    tangled = False
    at, end = span.start, min(span.stop, len(data))
    while at < end:
        stop = line_stop(data, at)
        key = _KEY.match(data, at, stop)
        name = _key_name(key.group()) if key else None
        if name is not None:
            starts.append((name, at, stop))
        elif data[at:stop].strip() and not data.startswith(b"#", at):
            tangled = (
                tangled or not starts or not (data[at] in b" \t" or _DASH.match(data, at, stop))
            )
            if starts:
                starts[-1] = (*starts[-1][:2], stop)
        at = stop
    return tuple(
        FrontmatterKey(name=name, span=Span(start=start, stop=stop)) for name, start, stop in starts
    ), tangled


def key_source(data: bytes, line: int) -> bytes | None:
    """The line up to the colon after its key; None where the key is not written plainly."""
    indent = _INDENT.match(data, line)
    key = _KEY.match(data, indent.end()) if indent else None
    return data[line : key.end()] if key else None


def declared_watch(data: bytes) -> tuple[tuple[str, ...], tuple[NoteProblem, ...]]:
    """The texts under `watch:`, and what is wrong with them; the whole frontmatter is enough."""
    block = find_block(data) if data.startswith((b"---", BOM)) else None
    if block is None:
        return (), ()
    if block.unterminated:
        return (), (_does_not_count(unterminated_problem()),) if _WATCH.search(
            data, 0, MAX_BYTES
        ) else ()
    if not _WATCH.search(data, block.span.start, block.span.stop):
        return (), ()
    try:
        events, _text = _events_of(data[block.span.start : block.span.stop])
        return _watch_texts(expand_aliases(events))
    except YamlRefusedError as refusal:
        return (), (_does_not_count(refusal.problem),)


def _does_not_count(problem: NoteProblem) -> NoteProblem:
    return NoteProblem(code=problem.code, message=f"its `watch:` does not count: {problem.message}")


def unterminated_problem() -> NoteProblem:
    return NoteProblem(
        code="frontmatter-unterminated",
        message="the note begins with a line --- but no second one closes it",
    )


def _events_of(block: bytes) -> tuple[list[yaml.Event], str]:
    if len(block) > MAX_BYTES:
        raise YamlRefusedError(
            "frontmatter-too-large",
            f"the frontmatter is larger than {MAX_BYTES // 1024} KB and was not read",
        )
    try:
        text = block.decode()
    except UnicodeDecodeError as error:
        raise YamlRefusedError(
            "frontmatter-not-utf8", f"the frontmatter is not UTF-8 (its byte {error.start})"
        ) from error
    return read_events(text, has_aliases=True), text


def _matter(events: list[yaml.Event], text: str, span: Span) -> FrontmatterValues:
    if not events:
        return FrontmatterValues()
    whole = expand_aliases(events)
    found: list[str] = []
    value, problems = read_value(whole, convert=lambda word: _noted(word, found))
    typed = read_value(whole, convert=json_scalar)[0] if found else value
    if not isinstance(value, dict) or not isinstance(typed, dict):
        problem = NoteProblem(
            code="frontmatter-not-mapping",
            message="the frontmatter is not `key: value` lines; it was kept as it is",
        )
        return FrontmatterValues(problems=(*problems, problem), readable=False, tangled=True)
    keys = (
        [] if getattr(events[0], "flow_style", False) else _keys_by_events(events, text, span.start)
    )
    if (not keys and value) or any(a.span.stop > b.span.start for a, b in pairwise(keys)):
        problem = NoteProblem(
            code="frontmatter-tangled",
            message="keys of the frontmatter share a line, so they cannot be changed singly",
        )
        return FrontmatterValues(
            values=value, typed=typed, problems=(*problems, problem), tangled=True
        )
    return FrontmatterValues(values=value, typed=typed, keys=tuple(keys), problems=problems)


def _noted(word: str, found: list[str]) -> str:
    """The word as it is; it is noted where it means more than a text."""
    if json_scalar(word) is not word:
        found.append(word)
    return word


def _pairs(events: list[yaml.Event]) -> Iterator[tuple[list[yaml.Event], list[yaml.Event]]]:
    at = 1
    while at < len(events) - 1:
        middle = node_stop(events, at)
        stop = node_stop(events, middle)
        yield events[at:middle], events[middle:stop]
        at = stop


def _watch_texts(events: list[yaml.Event]) -> tuple[tuple[str, ...], tuple[NoteProblem, ...]]:
    if not events or not isinstance(events[0], yaml.MappingStartEvent):
        return (), ()
    found: list[str] = []
    problems: list[NoteProblem] = []
    for key, value in _pairs(events):
        if isinstance(key[0], yaml.ScalarEvent) and key[0].value == "watch":
            found, problems = [], []  # of a key given twice the last counts
            for item in _items(value):
                _take_watch(item, found, problems)
    return tuple(found), tuple(problems)


def _items(value: list[yaml.Event]) -> Iterator[yaml.Event]:
    if not isinstance(value[0], yaml.SequenceStartEvent):
        yield value[0]
        return
    at = 1
    while at < len(value) - 1:
        yield value[at]
        at = node_stop(value, at)


def _take_watch(item: yaml.Event, found: list[str], problems: list[NoteProblem]) -> None:
    if not isinstance(item, yaml.ScalarEvent):
        problems.append(
            _no_watch(
                "a list or a map",
                hint='; write it in quotes, such as "status:open" or "People/Ann.md"',
            )
        )
        return
    plain = plain_text(item)
    kind = "text" if plain is None else kind_of(plain)
    if item.tag is not None and not item.style:
        problems.append(_no_watch(f"{item.tag[:80]!r} without quotes"))
    elif kind in {"boolean", "number", "null"}:
        problems.append(_no_watch(f"a {kind} ({plain[:80]!r})" if plain else "empty"))
    elif not item.value.strip():
        problems.append(_no_watch("empty"))
    else:
        found.append(item.value)


def _no_watch(what: str, hint: str = "") -> NoteProblem:
    return NoteProblem(
        code="watch-not-text", message=f"`watch:` takes texts; one that is {what} was ignored{hint}"
    )


def _keys_by_events(events: list[yaml.Event], text: str, base: int) -> list[FrontmatterKey]:
    data, offset = text.encode(), CharacterOffsets(text)
    return [
        _key(key[0], value, data, offset, base)
        for key, value in _pairs(events)
        if isinstance(key[0], yaml.ScalarEvent)
    ]


def _key(
    key: yaml.ScalarEvent, value: list[yaml.Event], data: bytes, offset: CharacterOffsets, base: int
) -> FrontmatterKey:
    line = data.rfind(b"\n", 0, offset.bytes(start_of(key))) + 1
    colon = offset.bytes(stop_of(key))
    start = offset.bytes(start_of(value[0]))
    last = max((event for event in value if _has_content(event)), key=stop_of)
    stop = offset.bytes(stop_of(last))
    content = data[line:stop].rstrip(b"\r\n" if _is_block(last) else None)
    end = line_stop(data, line + len(content))
    if not data[line : line + 1].isspace() and (comments := _INDENTED_COMMENTS.match(data, end)):
        end = comments.end()
    is_below = _is_block(last) or getattr(value[0], "flow_style", None) is False
    is_scalar = isinstance(value[0], yaml.ScalarEvent | yaml.AliasEvent)
    comment = _HEADER_COMMENT.match(data, colon) if is_below else _COMMENT.match(data, stop)
    return FrontmatterKey(
        name=str(key.value),
        span=Span(start=base + line, stop=base + end),
        value=Span(start=base + start, stop=base + stop)
        if is_scalar and not is_below and b"\n" not in data[line:stop]
        else None,
        comment=comment[1] if comment else None,
    )


def _has_content(event: yaml.Event) -> bool:
    """A block collection ends, for the parser, where the next key begins."""
    return isinstance(event, yaml.ScalarEvent) or stop_of(event) > start_of(event)


def _is_block(event: yaml.Event) -> bool:
    return isinstance(event, yaml.ScalarEvent) and event.style in {"|", ">"}


class CharacterOffsets:
    """The parser's marks, in rising order, as bytes: they do not count a byte order mark."""

    def __init__(self, text: str) -> None:
        self._text = text.removeprefix("\ufeff")
        self._plain = text.isascii()
        self._chars = 0
        self._bytes = len(text.encode()) - len(self._text.encode())

    def bytes(self, chars: int) -> int:
        if self._plain:
            return chars
        if chars > self._chars:
            self._bytes += len(self._text[self._chars : chars].encode())
            self._chars = chars
        return self._bytes


def line_stop(data: bytes, at: int) -> int:
    return data.find(b"\n", at) + 1 or len(data)


def _key_name(source: bytes) -> str | None:
    name = source[:-1].rstrip().decode("utf-8", "replace")
    if name[0] not in "\"'":
        return None if " #" in name else name
    try:
        event = read_events(name)[0]
    except YamlRefusedError:
        return None
    return str(event.value) if isinstance(event, yaml.ScalarEvent) else None


_NAME = "origin"
_ORIGIN_LINE = re.compile(_NAME.encode(), re.IGNORECASE)
_LINE = re.compile(
    rb"^[ \t\-{,?]*+[\"']?origin[\"']?[ \t]*+:([^\n]*+(?>\n[ \t\-][^\n]*+)*+)",
    re.IGNORECASE | re.MULTILINE,
)
_WORD = re.compile(r"\w+")
_END = re.compile(rb"\n[ \t]*\r?\n|\n\.\.\.")


def declared_origin(data: bytes) -> tuple[str, ...]:
    """The values of `origin`, however it is capitalized; the whole frontmatter is enough."""
    block = find_block(data) if data.startswith((b"---", BOM)) else None
    if block is None:
        return ()
    start, stop = block.span.start, block.span.stop
    if block.unterminated:
        end = _END.search(data, start - 1, start + MAX_BYTES)
        stop = end.start() if end is not None else min(start + MAX_BYTES, len(data))
    # a key may be written with escapes
    if _ORIGIN_LINE.search(data, start, stop) is None and data.find(b"\\", start, stop) < 0:
        return ()
    matter = read_block(data, block.span)
    said = [
        word
        for name, value in matter.values.items()
        if name.casefold() == _NAME
        for word in _words(value)
    ]
    if matter.problems or block.unterminated:
        said += [
            word
            for line in _LINE.finditer(data, start, stop)
            for word in _WORD.findall(line[1].decode("utf-8", "replace"))
        ]
    return tuple(said)


def _words(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Sequence):
        yield from (one for one in value if isinstance(one, str))
