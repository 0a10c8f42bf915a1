"""Show: answers as text for a person, or as JSON."""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Iterable, Sequence

from parachuted.errors import ParachuteError
from parachuted.visible import wrapped

TYPE_CHECKING = False  # as in client.py
if TYPE_CHECKING:
    from typing import Any

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


def escape(text: str) -> str:
    """`text` as a terminal may have it: what would move its cursor, turn its writing round or be no
    character is shown and not sent.
    """
    return text.translate(_ESCAPES).encode("utf-8", "backslashreplace").decode()


def say(text: str = "") -> None:
    """Print one line, whatever line breaks a name or a reason in it holds; those that it begins or
    ends with are empty lines.

    Control characters, which a note may hold, are shown and not sent to the terminal.
    """
    line = text.strip("\n")
    before, _, after = text.partition(line) if line else ("", "", text)
    sys.stdout.write(before + escape(" ".join(line.splitlines())) + after + "\n")


def say_text(text: str) -> None:
    for line in text.split("\n"):
        say(line)


def columns() -> int:
    """How wide the terminal is; without end where a program reads, which wants lines as they
    are.
    """
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else sys.maxsize


def say_lines(lines: Iterable[str]) -> None:
    for line in lines:
        for piece in wrapped(line, columns()):
            say(piece)


def say_json(value: Any) -> int:  # noqa: ANN401  JSON of any shape
    sys.stdout.write(json.dumps(value, indent=2) + "\n")
    return 0


def say_table(rows: Iterable[Sequence[str]], heads: Sequence[str], *, nothing: str) -> None:
    """Print columns under their heads, or the sentence when there are no rows."""
    lines = [[" ".join(cell.split()) for cell in row] for row in rows]
    if not lines:
        say(nothing)
        return
    widths = [
        max(len(line[column]) for line in [list(heads), *lines]) for column in range(len(heads))
    ]
    for line in [list(heads), *lines]:
        say("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip())


def say_diff(diff: str) -> None:
    colour = sys.stdout.isatty() and "NO_COLOR" not in os.environ
    codes = {"+": "32", "-": "31", "@": "36"}
    for line in diff.removesuffix("\n").split("\n"):
        code = codes.get(line[:1]) if colour else None
        for piece in wrapped(f"  {escape(line)}", columns()):
            sys.stdout.write(
                f"{piece}\n" if code is None else f"{piece[:2]}\x1b[{code}m{piece[2:]}\x1b[0m\n"
            )


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
    """An ISO time, to the second, as it is read by people."""
    return (moment or "")[:19].replace("T", " ")
