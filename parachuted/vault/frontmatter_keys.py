"""Frontmatter keys: sets or deletes one key by changing its own lines; all others stay.

The result is read again: every other key must have its old bytes and value.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TypeAlias

from parachuted.errors import EditRefusedError, NotFoundError
from parachuted.vault.bounded_yaml import (
    YamlRefusedError,
    YamlValue,
    is_bare,
    kind_of,
    read_events,
    write_key,
    write_scalar,
)
from parachuted.vault.frontmatter import (
    BOM,
    FrontmatterKey,
    Span,
    find_block,
    key_source,
    keys_by_line,
    read_block,
)
from parachuted.vault.note import ParsedNote, parse_note

FrontmatterInput: TypeAlias = str | int | float | bool | Sequence[str]

_CR_FRONTMATTER = re.compile(rb"(?:\xef\xbb\xbf)?---[ \t]*+\r(?!\n)")
_PERHAPS_OF_ANOTHER = re.compile(rb"\n#|\n[ \t]*+\r?\n-")
_MOST_SUSPECTS = 200


def set_key(note: ParsedNote, name: str, value: FrontmatterInput) -> bytes:
    """The note's data with the key set. Raises EditRefusedError where that is not safe."""
    _check_value(value)
    key = _one_key(note, name)
    if key is None:
        at, new = _addition(note, name, value)
    elif _holds(note, key, value):
        return note.data
    else:
        at, new = _replacement(note, key, value)
    data = note.data[: at.start] + new + note.data[at.stop :]
    _verify(note, data, name, value)
    return data


def delete_key(note: ParsedNote, name: str) -> bytes:
    """The data without the key's lines. Raises NotFoundError, or EditRefusedError if not safe."""
    key = _one_key(note, name)
    if key is None:
        raise NotFoundError(f"there is no frontmatter key {name[:200]!r}")
    data = note.data[: key.span.start] + note.data[key.span.stop :]
    _verify(note, data, name, None)
    return data


def _check_value(value: FrontmatterInput) -> None:
    if not isinstance(value, str | int | float) and not all(
        isinstance(item, str) for item in value
    ):
        raise EditRefusedError("a list in the frontmatter holds texts only")


def _one_key(note: ParsedNote, name: str) -> FrontmatterKey | None:
    if note.frontmatter is None:
        if _CR_FRONTMATTER.match(note.data):
            raise EditRefusedError(
                "the lines of the frontmatter end with a lone CR, which no reader of frontmatter "
                "knows; make it LF first"
            )
        block = find_block(note.data)
        if block and block.unterminated and key_source(note.data, block.span.start):
            raise EditRefusedError(
                "the note begins with a frontmatter that no second line --- closes; close it first"
            )
        return None
    if note.matter.tangled:
        raise EditRefusedError(f"{note.matter.problems[-1].message}; put that right first")
    keys = [key for key in note.keys if key.name == name]
    if len(keys) > 1:
        raise EditRefusedError(
            f"the key {name[:200]!r} stands more than once in the frontmatter; leave one of them "
            "first"
        )
    if not note.matter.readable:
        _check_lines(note, keys[0] if keys else None)
    return keys[0] if keys else None


def _check_lines(note: ParsedNote, target: FrontmatterKey | None) -> None:
    """Refuse, in a block that is not YAML, where `target`'s lines (None: the end) are uncertain."""
    above = [key for key in note.keys if target is None or key.span.start < target.span.start]
    suspects = [source for key in above if re.search(rb"[\"'\[{]", source := _source(note, key))]
    broken = len(suspects) > _MOST_SUSPECTS or not all(map(_is_yaml, suspects))
    if broken or (
        target
        and note.matter.problems[-1].code == "frontmatter-alias"
        and b"&" in _source(note, target)
    ):
        raise EditRefusedError(f"{note.matter.problems[-1].message}; put that right first")
    if target and not _owns_its_lines(_source(note, target)):
        name = target.name[:200]
        raise EditRefusedError(
            f"{note.matter.problems[-1].message}, and the lines below {name!r} may not be its "
            "own; put that right first"
        )


def _owns_its_lines(source: bytes) -> bool:
    """Whether they are one line, or a value by itself in which nothing else may begin."""
    first, *below = source.splitlines()
    return not below or (_is_yaml(source) and not _PERHAPS_OF_ANOTHER.search(source, len(first)))


def _source(note: ParsedNote, key: FrontmatterKey) -> bytes:
    return note.data[key.span.start : key.span.stop]


def _is_yaml(source: bytes) -> bool:
    try:
        read_events(source.decode(), has_aliases=True)
    except (YamlRefusedError, UnicodeDecodeError):
        return False
    return True


def _holds(note: ParsedNote, key: FrontmatterKey, value: FrontmatterInput) -> bool:
    if not note.matter.readable or note.values[key.name] != _read_back(value):
        return False
    written = note.data[key.value.start : key.value.stop] if key.value else b""
    if isinstance(value, str):
        is_quoted = written.startswith((b'"', b"'"))
        return is_bare(value) or is_quoted or _stays_date(written, value)
    return (
        written == write_scalar(value).encode()
        if isinstance(value, int | float)
        else all(map(is_bare, value))
    )


def _stays_date(written: bytes, value: FrontmatterInput) -> bool:
    """Whether a date takes the place of one without quotes: JSON has no type for it."""
    return (
        isinstance(value, str)
        and written.isascii()
        and kind_of(written.decode()) == kind_of(value) == "date"
    )


def _read_back(value: FrontmatterInput) -> YamlValue:
    if isinstance(value, str):
        return value
    return write_scalar(value) if isinstance(value, int | float) else list(value)


def _addition(note: ParsedNote, name: str, value: FrontmatterInput) -> tuple[Span, bytes]:
    block = note.frontmatter
    if block is None:
        start = len(BOM) if note.bom else 0
        lines = [b"---", *_lines(b"", write_key(name), value), b"---"]
        return Span(start=start, stop=start), b"".join(line + note.eol for line in lines)
    eol = b"\r\n" if note.data.endswith(b"\r\n", 0, block.stop) else b"\n"
    first = note.data[note.keys[0].span.start : block.stop] if note.keys else b""
    indent = first[: len(first) - len(first.lstrip(b" "))]
    return Span(start=block.stop, stop=block.stop), b"".join(
        line + eol for line in _lines(indent, write_key(name), value)
    )


def _lines(indent: bytes, key: str, value: FrontmatterInput) -> list[bytes]:
    return _value_lines(indent + key.encode() + b":", value, None)


def _value_lines(source: bytes, value: FrontmatterInput, comment: bytes | None) -> list[bytes]:
    end = b" " + comment if comment else b""
    if isinstance(value, str | int | float) or not value:
        text = write_scalar(value) if isinstance(value, str | int | float) else "[]"
        return [source + b" " + text.encode() + end]
    indent = source[: len(source) - len(source.lstrip(b" "))]
    return [source + end, *(indent + b"  - " + write_scalar(item).encode() for item in value)]


def _replacement(
    note: ParsedNote, key: FrontmatterKey, value: FrontmatterInput
) -> tuple[Span, bytes]:
    if not note.matter.readable:  # the block is not YAML, but the key's own lines may be
        key = next(iter(read_block(note.data, key.span).keys), key)
    if key.value and (isinstance(value, str | int | float) or not value):
        is_date = _stays_date(note.data[key.value.start : key.value.stop], value)
        (text,) = [str(value).encode()] if is_date else _value_lines(b"", value, None)
        return key.value, text if key.value.start == key.value.stop else text.lstrip(b" ")
    line_stop = note.data.find(b"\n", key.span.start, key.span.stop) + 1 or key.span.stop
    source = key_source(note.data, key.span.start)
    eol = b"\r\n" if note.data.endswith(b"\r\n", 0, line_stop) else b"\n"
    lines = _value_lines(source or write_key(key.name).encode() + b":", value, key.comment)
    return key.span, b"".join(line + eol for line in lines)


def _verify(note: ParsedNote, data: bytes, name: str, value: FrontmatterInput | None) -> None:
    after = parse_note(data)
    if (
        after.frontmatter is None
        or len(data) - after.body.start != len(note.data) - note.body.start
    ):
        raise EditRefusedError("the edit would change where the frontmatter ends")
    readable = note.matter.readable
    if readable and not after.matter.readable:
        raise EditRefusedError(f"with the edit, {after.matter.problems[-1].message}")
    if _others(note, name, exact=readable) != _others(after, name, exact=readable):
        raise EditRefusedError("the edit would change another key of the frontmatter")
    if after.matter.readable:
        _verify_values(note if readable else after, after, name, value)


def _others(note: ParsedNote, name: str, *, exact: bool) -> list[tuple[str, bytes]]:
    """The other keys with their bytes; not `exact`: as the lines show them, be it YAML or not."""
    keys = (
        note.keys
        if exact or note.frontmatter is None
        else keys_by_line(note.data, note.frontmatter)[0]
    )
    return [(key.name, _source(note, key)) for key in keys if key.name != name]


def _verify_values(
    before: ParsedNote, after: ParsedNote, name: str, value: FrontmatterInput | None
) -> None:
    values = dict(after.values)
    found = values.pop(name, None)
    if values != {key: kept for key, kept in before.values.items() if key != name}:
        raise EditRefusedError("the edit would change how another key of the frontmatter reads")
    if found != (None if value is None else _read_back(value)):
        raise EditRefusedError(f"the key {name[:200]!r} would not read back as what was set")
