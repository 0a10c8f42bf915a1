"""Visible: untrusted text in a form that a person can judge before agreeing to something.

On our screens it stands behind `label | `, as one paragraph, with the invisible spelled out, cut
where it is long: so it can neither push what follows out of sight nor look like a line of ours.
"""

from __future__ import annotations

import unicodedata

_HIDDEN = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
_BLANK = "\u2800"  # of Braille
_MARKS = frozenset({"Mn", "Me", "Mc"})
_MOST_MARKS = 3  # on one letter, as the languages that have most of them write it
_LABEL = 10
_MARK = "| "
_LEAST_COLUMNS = 30
USUAL_COLUMNS = 80
MOST_CHARACTERS = 300

# Default_Ignorable_Code_Point of DerivedCoreProperties.txt, Unicode 14.0 to 16.0, which unicodedata
# does not have.
_DEFAULT_IGNORABLE = (
    (0x00AD, 0x00AD),
    (0x034F, 0x034F),
    (0x061C, 0x061C),
    (0x115F, 0x1160),
    (0x17B4, 0x17B5),
    (0x180B, 0x180F),
    (0x200B, 0x200F),
    (0x202A, 0x202E),
    (0x2060, 0x206F),
    (0x3164, 0x3164),
    (0xFE00, 0xFE0F),
    (0xFEFF, 0xFEFF),
    (0xFFA0, 0xFFA0),
    (0xFFF0, 0xFFF8),
    (0x1BCA0, 0x1BCA3),
    (0x1D173, 0x1D17A),
    (0xE0000, 0xE0FFF),
)


def is_ignorable(character: str) -> bool:
    """Whether text looks the same without it: default-ignorable in Unicode, or a format control."""
    number = ord(character)
    return unicodedata.category(character) == "Cf" or any(
        first <= number <= last for first, last in _DEFAULT_IGNORABLE
    )


def visible(text: str, keep: str = "") -> str:
    """With an escape such as <backslash>u202e for each invisible character not in `keep`."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(one if one in keep or not _is_hidden(one) else _spelled(one) for one in text)


def one_line(text: str, most: int = MOST_CHARACTERS) -> str:
    """The text as one paragraph, with nothing hidden in it, cut after `most` characters."""
    shown = visible(" ".join(text.split()))
    if not shown.isascii():
        shown = _without_stacks(shown)
    return (
        shown
        if len(shown) <= most
        else f"{shown[:most]}... ({len(shown) - most:,} more characters)"
    )


def fact(label: str, words: str) -> str:
    """A line of ours: `words` hold nothing that a stranger chose freely."""
    return f"{label:<{_LABEL}}  {words}"


def quoted(label: str, text: str, most: int = MOST_CHARACTERS) -> str:
    return f"{label:<{_LABEL}}{_MARK}{one_line(text, most)}"


def quoted_lines(text: str, most_lines: int) -> list[str]:
    """A stranger's text whose lines matter, such as a note: each is marked, blanks stay."""
    lines = text.removesuffix("\n").split("\n")
    shown = [
        f"  {_MARK}{visible(line, keep=chr(9)).expandtabs(4)}".rstrip()
        for line in lines[:most_lines]
    ]
    left = len(lines) - most_lines
    return shown if left <= 0 else [*shown, f"({left:,} more lines)"]


def wrapped(line: str, columns: int = USUAL_COLUMNS) -> list[str]:
    """The line in pieces that fit so many columns, parted at blanks; later ones are marked, too."""
    of_note, of_stranger = "  " + _MARK, " " * _LABEL + _MARK
    is_quoted = line[_LABEL:].startswith(_MARK)
    begins = (
        of_note
        if line.startswith(of_note)
        else of_stranger
        if is_quoted
        else " " * len(of_stranger)
    )
    room, pieces, start, width = max(columns, _LEAST_COLUMNS) - 1, list[str](), 0, 0
    blank, after_blank = 0, 0  # the place behind the last blank, and the columns up to there
    for at, character in enumerate(line):
        takes = _columns_of(character)
        if width + takes > room:
            stop = at if character == " " or blank <= start else blank - 1
            pieces.append(line[start:stop])
            width = len(begins) + (width - after_blank if stop < at else 0)
            start = stop + (line[stop] == " ")
            if start > at:
                continue
        width += takes
        if character == " " and at > len(begins):
            blank, after_blank = at + 1, width
    pieces.append(line[start:])
    return [pieces[0], *(begins + piece for piece in pieces[1:])]


def _without_stacks(text: str) -> str:
    found, marks = [], _MOST_MARKS  # a text that begins with one would mark what stands before it
    for one in text:
        marks = marks + 1 if unicodedata.category(one) in _MARKS else 0
        found.append(one if marks <= _MOST_MARKS else _spelled(one))
    return "".join(found)


def _columns_of(character: str) -> int:
    if character.isascii():
        return 1
    if unicodedata.combining(character):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WFA" else 1


def _is_hidden(one: str) -> bool:
    category = unicodedata.category(one)
    return (
        category in _HIDDEN
        or one == _BLANK
        or is_ignorable(one)
        or (category == "Zs" and one != " ")
    )


def _spelled(one: str) -> str:
    number = ord(one)
    if number < 0x100:  # noqa: PLR2004
        return f"\\x{number:02x}"
    return f"\\u{number:04x}" if number < 0x10000 else f"\\U{number:08x}"  # noqa: PLR2004
