"""Show: answers as text for a person, or as JSON."""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from parachuted.errors import ParachuteError
from parachuted.texts.visible import wrapped

TYPE_CHECKING = False  # as in client.py
if TYPE_CHECKING:
    from typing import Any

    Column = str | Callable[[Any], object]

_UNSEEN = (
    *range(9),
    *range(11, 32),
    *range(127, 160),
    0x61C,
    *range(0x200E, 0x2010),
    *range(0x2028, 0x202F),
    *range(0x2066, 0x206A),
)
_ESCAPES = {code: f"\\x{code:02x}" if code < 256 else f"\\u{code:04x}" for code in _UNSEEN}  # noqa: PLR2004
NOTHING = "(nothing)"
_EMPTY: tuple[object, ...] = (None, "", [], {})


def escape(text: str) -> str:
    """The text as a terminal may have it: control characters and surrogates are spelled out."""
    return text.translate(_ESCAPES).encode("utf-8", "backslashreplace").decode()


def say(text: str = "") -> None:
    """Print one line, with the empty lines around it; control characters are spelled out."""
    line = text.strip("\n")
    before, _, after = text.partition(line) if line else ("", "", text)
    sys.stdout.write(before + escape(" ".join(line.splitlines())) + after + "\n")


def say_each(lines: Iterable[str]) -> None:
    for line in lines:
        say(line)


def say_text(text: str) -> None:
    say_each(text.split("\n"))


def say_lines(lines: Iterable[str]) -> None:
    for line in lines:
        for piece in wrapped(line, _width()):
            say(piece)


def say_json(value: Any) -> int:  # noqa: ANN401  JSON of any shape
    sys.stdout.write(json.dumps(value, indent=2) + "\n")
    return 0


def lines_of(answer: object) -> Iterator[str]:
    """An answer of any shape for a person: a name and what it is on each line."""
    if isinstance(answer, Mapping):
        for key, value in answer.items():
            if value not in _EMPTY:
                yield from _field(key.replace("_", " "), value)
    elif isinstance(answer, list):
        for number, item in enumerate(answer):
            if isinstance(item, Mapping | list) and number:
                yield ""
            yield from lines_of(item)
        if not answer:
            yield NOTHING
    elif isinstance(answer, bool):
        yield "yes" if answer else "no"
    elif answer is not None:
        yield from str(answer).split("\n")


def _field(name: str, value: object) -> Iterator[str]:
    lines = list(lines_of(value))
    if isinstance(value, Mapping | list) or len(lines) > 1:
        yield f"{name}:"
        yield from (f"  {line}".rstrip() for line in lines)
    else:
        yield f"{name}: {lines[0]}"


def say_table(things: Sequence[Any], columns: Mapping[str, Column], *, nothing: str = "") -> None:
    """`columns`: a key or a function under each head."""
    if not things:
        say(nothing)
        return
    rows = [[_cell(thing, column) for column in columns.values()] for thing in things]
    rows = [list(columns), *rows]
    widths = [max(map(len, cells)) for cells in zip(*rows, strict=True)]
    for row in rows:
        say("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())


def _cell(thing: Any, column: Column) -> str:  # noqa: ANN401  JSON of any shape
    value = thing[column] if isinstance(column, str) else column(thing)
    if isinstance(value, bool):
        return "yes" if value else "no"
    text = ", ".join(map(str, value)) if isinstance(value, list) else str(value)
    return "" if value is None else " ".join(text.split())


def say_diff(diff: str) -> None:
    colour = sys.stdout.isatty() and "NO_COLOR" not in os.environ
    codes = {"+": "32", "-": "31", "@": "36"}
    for line in diff.removesuffix("\n").split("\n"):
        code = codes.get(line[:1]) if colour else None
        for piece in wrapped(f"  {escape(line)}", _width()):
            text = piece if code is None else f"{piece[:2]}\x1b[{code}m{piece[2:]}\x1b[0m"
            sys.stdout.write(f"{text}\n")


def agrees(question: str) -> bool:
    if not sys.stdin.isatty():
        say(f"{question} Say --yes to agree without being asked.")
        return False
    try:
        return input(f"{question} [y/N] ").strip().lower() in {"y", "yes"}
    except EOFError:
        return False


def read_json(name: str) -> Any:  # noqa: ANN401  JSON of any shape
    """What a file of JSON holds; `-` is stdin. Raises ParachuteError."""
    from pathlib import Path

    try:
        text = sys.stdin.read() if name == "-" else Path(name).expanduser().read_text("utf-8")
        return json.loads(text)
    except OSError as error:
        raise ParachuteError(f"{name} cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise ParachuteError(f"{name} is not JSON: {error}") from error


def count(number: int, thing: str) -> str:
    return f"{number} {thing}{'' if number == 1 else 's'}"


def when(moment: str | None) -> str:
    return (moment or "")[:19].replace("T", " ")


def _width() -> int:
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else sys.maxsize
