"""What is ignored: dot-names, what editors leave behind, and the lines of `.parachuteignore`.

These mean what git means by them. Every library that was tried (pathspec, gitmatch, igittigitt,
dulwich, gitignorefile, gitignorant) differs from git in at least a tenth of random files of rules;
`tests/vault/test_ignore_as_git.py` compares this with git itself.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from parachuted.vault.paths import begins_with_dot, nfc

IGNORE_FILE = ".parachuteignore"
_KEPT_FOLDERS = {".agents"}
_MOST_LINES, _MOST_BYTES = 1000, 4096  # no path has more; a line is compiled in 40 ms at most
_PLAIN = re.compile(r"[0-9A-Za-z][ -}]*\.md")  # most names of notes, which neither rule means
_SCRAP = re.compile(
    r"4913|sed[A-Za-z0-9]{6}|.*~|#.*#|~\$.*|~syncthing~.*|.*\.(?:sw[a-px]|tmp|temp|part|crdownload)",
    re.IGNORECASE | re.DOTALL,
)


class IgnoreRules:
    def __init__(self, text: str = "") -> None:
        """`problem` names the first line that means nothing; `is_stale`: the file is unreadable."""
        self.is_stale = False
        self._lines = GitIgnoreLines(text)
        self.problem = self._lines.problem

    def file(self, folder: str, name: str) -> bool:
        """Never the vault's own `.parachuteignore`, so that a change of it is noticed."""
        if not _PLAIN.fullmatch(name):
            if name == IGNORE_FILE and not folder:
                return False
            if (begins_with_dot(name) and name != IGNORE_FILE) or _SCRAP.fullmatch(name):
                return True
        return self._lines.ignore(folder, name, is_folder=False)

    def hides(self, path: str) -> bool:
        """Whether the lines of the file ignore that file, or a folder that it is in."""
        if not self._lines:
            return False
        folder, _, name = path.rpartition("/")
        if self._lines.ignore(folder, name, is_folder=False):
            return True
        while folder:
            folder, _, name = folder.rpartition("/")
            if self._lines.ignore(folder, name, is_folder=True):
                return True
        return False

    def folder(self, folder: str, name: str) -> bool:
        if begins_with_dot(name) and name not in _KEPT_FOLDERS:
            return True
        return self._lines.ignore(folder, name, is_folder=True)


class GitIgnoreLines:
    """The lines of a `.gitignore`, for one name at a time: what is below an ignored folder is too.

    Names and lines are in NFC, as with git on a Mac, so an accent is the same however it is stored.
    """

    def __init__(self, text: str) -> None:
        self.problem: str | None = None
        rules: list[_Rule] = []
        lines = _bytes(text.removeprefix("\ufeff")).split(b"\n")
        if len(lines) > _MOST_LINES:
            self.problem = (
                f"{IGNORE_FILE} has {len(lines)} lines; those after line {_MOST_LINES} "
                "are not applied"
            )
        for number, line in enumerate(lines[:_MOST_LINES], 1):
            try:
                rules += _rules_of(line)
            except _MeansNothingError as error:
                self.problem = self.problem or (
                    f"line {number} of {IGNORE_FILE} is passed over: {error}"
                )
        self._last_first = rules[::-1]
        self._any_name = _any_of(rule.pattern for rule in rules if rule.is_name)
        self._any_path = _any_of(rule.pattern for rule in rules if not rule.is_name)

    def __bool__(self) -> bool:
        return bool(self._last_first)

    def ignore(self, folder: str, name: str, *, is_folder: bool) -> bool:
        if not self._last_first:
            return False
        end = _bytes(name)
        path = _bytes(folder) + b"/" + end if folder else end
        if not (self._any_name.fullmatch(end) or self._any_path.fullmatch(path)):
            return False
        for rule in self._last_first:
            if (is_folder or not rule.is_for_folders) and rule.pattern.fullmatch(
                end if rule.is_name else path
            ):
                return not rule.is_negated
        return False


class _MeansNothingError(Exception):
    """A line that means no file, whatever its name."""


class _Rule(NamedTuple):
    """`is_name`: it is held against names, else against paths."""

    pattern: re.Pattern[bytes]
    is_name: bool
    is_negated: bool
    is_for_folders: bool


def _bytes(text: str) -> bytes:
    return nfc(text).encode("utf-8", "surrogateescape")


def _any_of(patterns: Iterable[re.Pattern[bytes]]) -> re.Pattern[bytes]:
    """Most names are meant by no line, which is so found out at once."""
    return re.compile(b"|".join(pattern.pattern for pattern in patterns) or b"(?!)", re.DOTALL)


def _rules_of(line: bytes) -> Iterator[_Rule]:
    """As `add_patterns_from_buffer` and `parse_path_pattern` in git's dir.c."""
    line = _without_trailing_spaces(line.removesuffix(b"\r").partition(b"\0")[0])
    if not line or line.startswith(b"#"):
        return
    if len(line) > _MOST_BYTES:
        raise _MeansNothingError(f"it has more than {_MOST_BYTES} bytes")
    is_negated = line.startswith(b"!")
    glob = line[is_negated:]
    is_for_folders = glob.endswith(b"/")
    glob = glob.removesuffix(b"/")
    if glob in {b"", b"/"}:
        raise _MeansNothingError("it names nothing")
    is_name = b"/" not in glob
    expression = _expression(glob.removeprefix(b"/"), is_name=is_name)
    yield _Rule(re.compile(expression, re.DOTALL), is_name, is_negated, is_for_folders)


def _without_trailing_spaces(line: bytes) -> bytes:
    bare = line.rstrip(b" ")
    is_escaped = (len(bare) - len(bare.rstrip(b"\\"))) % 2 == 1
    return line[: len(bare) + 1] if is_escaped else bare


_CLASSES = {
    name: frozenset(b"".join(re.findall(expression, bytes(range(256)))))
    for name, expression in {
        b"alnum": rb"[0-9A-Za-z]",
        b"alpha": rb"[A-Za-z]",
        b"blank": rb"[ \t]",
        b"cntrl": rb"[\0-\x1f\x7f]",
        b"digit": rb"[0-9]",
        b"graph": rb"[!-~]",
        b"lower": rb"[a-z]",
        b"print": rb"[ -~]",
        b"punct": rb"[!-/:-@\[-`{-~]",
        b"space": rb"[ \t\n\r]",
        b"upper": rb"[A-Z]",
        b"xdigit": rb"[0-9A-Fa-f]",
    }.items()
}
_NAMED_SET = re.compile(rb"\[:([^\]]*)\]")
_PLAIN_TEXT = re.compile(rb"[^*?\[\\]*")
_STARS = re.compile(rb"\*+")
# What follows one of these is in its group: it takes as little as it can and gives nothing back, as
# what is found first leaves most to the rest. So no line takes long, however many stars it has.
_STAR = b"(?>[^/]*?"
_ANY_FOLDERS, _SOME_FOLDERS = b"(?>(?:[^/]*/)*?", b"(?>(?:[^/]*/)+?"
_END = rb"\Z"


def _expression(glob: bytes, *, is_name: bool) -> bytes:
    """The regular expression of a glob, as wildmatch.c in git understands it."""
    text, at = _plain_text(glob, 0)
    expression, first, is_in_folders, is_in_star = bytearray(text), at, False, False
    while at < len(glob):
        if glob[at] != ord("*"):
            text, at = _one_byte(glob, at)
            expression += text
            continue
        begin, at = at, _STARS.match(glob, at).end()  # type: ignore[union-attr]  # there is one
        # after plain text `**` counts as at the begin of a name: git compares that text by itself
        crosses = not is_name and at - begin > 1 and (begin == first or glob[begin - 1] == ord("/"))
        rest = glob[at : at + 2]
        if crosses and not rest:
            expression += b".*"
        elif crosses and (rest.startswith(b"/") or rest == b"\\/"):
            expression += b")" * (is_in_star + is_in_folders)
            is_in_folders, is_in_star = True, False
            expression += _ANY_FOLDERS if rest.startswith(b"/") else _SOME_FOLDERS
            at += rest.index(b"/") + 1
        else:
            expression += b")" * is_in_star + _STAR
            is_in_star = True
    return bytes(expression) + _END + b")" * (is_in_star + is_in_folders)


def _plain_text(glob: bytes, at: int) -> tuple[bytes, int]:
    end = _PLAIN_TEXT.match(glob, at).end()  # type: ignore[union-attr]  # it matches nothing too
    return re.escape(glob[at:end]), end


def _one_byte(glob: bytes, at: int) -> tuple[bytes, int]:
    match glob[at : at + 1]:
        case b"?":
            return b"[^/]", at + 1
        case b"\\":
            return re.escape(_at(glob, at + 1)), at + 2
        case b"[":
            return _set(glob, at + 1)
    return _plain_text(glob, at)


def _at(glob: bytes, at: int) -> bytes:
    if at >= len(glob):
        what = "nothing follows its last `\\`" if glob.endswith(b"\\") else "a `[` is not closed"
        raise _MeansNothingError(what)
    return glob[at : at + 1]


def _set(glob: bytes, at: int) -> tuple[bytes, int]:
    is_negated = _at(glob, at) in b"!^"
    at += is_negated
    members: set[int] = set()
    start, previous = at, 0
    while at == start or _at(glob, at) != b"]":
        byte = _at(glob, at)[0]
        if byte == ord("-") and previous and _at(glob, at + 1) != b"]":
            at += 1 + (glob[at + 1] == ord("\\"))
            members |= set(range(previous, _at(glob, at)[0] + 1))
            previous = 0
        elif (named := _NAMED_SET.match(glob, at)) and named[1].endswith(b":"):
            if named[1][:-1] not in _CLASSES:
                raise _MeansNothingError(f"there is no {os.fsdecode(named[0])}")
            members |= _CLASSES[named[1][:-1]]
            at, previous = named.end() - 1, 0
        else:
            at += byte == ord("\\")
            previous = _at(glob, at)[0]
            members.add(previous)
        at += 1
    members = (set(range(256)) - members if is_negated else members) - {ord("/")}
    return (b"[%s]" % _ranges(members) if members else b"(?!)"), at + 1


def _ranges(members: Iterable[int]) -> bytes:
    """Of bytes in a set; `re` takes ten times as long for each of them alone."""
    found = list[list[int]]()
    for member in sorted(members):
        if found and member == found[-1][1] + 1:
            found[-1][1] = member
        else:
            found.append([member, member])
    return b"".join(b"\\x%02x-\\x%02x" % (first, last) for first, last in found)
