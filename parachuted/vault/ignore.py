"""Ignore: which names in the vault are not a person's notes."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING

from parachuted.heavy import load_heavy_here
from parachuted.vault.paths import begins_with_dot

if TYPE_CHECKING:
    from pathspec import GitIgnoreSpec

IGNORE_FILE = ".parachuteignore"
_KEPT_FOLDERS = {".agents"}
_KEPT_FILES = {IGNORE_FILE}
_STARS = re.compile(r"\*+")
_MOST_STARS, _MOST_STARS_IN_A_NAME, _MOST_LINES = 4, 3, 1000
_PLAIN = re.compile(r"[0-9A-Za-z][ -}]*\.md")  # most names of notes, which neither rule means
_SCRAP = re.compile(
    r"4913|sed[A-Za-z0-9]{6}|.*~|#.*#|~\$.*|~syncthing~.*|.*\.(?:sw[a-px]|tmp|temp|part|crdownload)",
    re.IGNORECASE | re.DOTALL,
)


class IgnoreRules:
    """The rules of one vault: dot-names, what editors and sync programs leave behind, and the lines
    of `.parachuteignore`.

    Those are in gitignore syntax. Every file's path is held against them, so what could take long
    is no rule: a line has at most four runs of `*`, three between two slashes; a file has at most a
    thousand lines.
    """

    def __init__(self, text: str = "") -> None:
        """`text` is the ignore file's.

        Lines that are no rules are passed over; `problem` names the first.
        """
        self.problem: str | None = None
        lines = [line.removesuffix("\r") for line in text.split("\n")]
        if len(lines) > _MOST_LINES:
            self.problem = (
                f"{IGNORE_FILE} has {len(lines)} lines; those after line {_MOST_LINES} "
                "are not applied"
            )
        rules = [
            line
            for number, line in enumerate(lines[:_MOST_LINES], 1)
            if self._is_rule(line, number)
        ]
        self._own = _compile(rules) if rules else None

    def file(self, folder: str, name: str) -> bool:
        """Whether the file `name` in `folder` is ignored."""
        if not _PLAIN.fullmatch(name) and (
            (begins_with_dot(name) and name not in _KEPT_FILES) or _SCRAP.fullmatch(name)
        ):
            return True
        return self._own is not None and self._own.match_file(
            f"{folder}/{name}" if folder else name
        )

    def folder(self, folder: str, name: str) -> bool:
        """Whether the folder `name` in `folder`, and all below it, is ignored."""
        if begins_with_dot(name) and name not in _KEPT_FOLDERS:
            return True
        return self._own is not None and self._own.match_file(
            f"{folder}/{name}/" if folder else f"{name}/"
        )

    def _is_rule(self, line: str, number: int) -> bool:
        if not line.strip() or line.startswith("#"):
            return False
        reason = _refusal(line)
        if reason is not None and self.problem is None:
            self.problem = f"line {number} of {IGNORE_FILE} is passed over: {reason}"
        return reason is None


def _refusal(line: str) -> str | None:
    if len(_STARS.findall(line)) > _MOST_STARS or any(
        len(_STARS.findall(part)) > _MOST_STARS_IN_A_NAME for part in line.split("/")
    ):
        return "it has too many *"
    try:
        _compile([line])
    except (ValueError, re.error) as error:
        return str(error)
    return None


def _compile(lines: Iterable[str]) -> GitIgnoreSpec:
    spec: GitIgnoreSpec = load_heavy_here("pathspec").GitIgnoreSpec.from_lines(lines)
    return spec
