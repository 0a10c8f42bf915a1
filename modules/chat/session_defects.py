"""What keeps a session's file from being changed: a person has to mend it first. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

_OPENED = re.compile(r"\ufeff?---[ \t]*\r?\n")
_KEY = re.compile(r"[\"']?[A-Za-z_][\w .-]*[\"']?[ \t]*:(?:\s|\Z)")
_MARKER = re.compile(r"^(?:(<{7})(?: [^\r\n]*)?|(={7})|(>{7})(?: [^\r\n]*)?)\r?$", re.MULTILINE)
_FENCE = re.compile(
    r"^ {0,3}(`{3,}|~{3,})[^\n]*$.*?(?:^ {0,3}\1[`~]*[ \t]*\r?$|\Z)", re.MULTILINE | re.DOTALL
)


@dataclass(frozen=True, slots=True)
class Defect:
    """Why a file is left as it is, and whether messages can still be put at its end."""

    why: str
    can_append: bool


def find_defect(text: str, frontmatter: Mapping[str, object], body_start: int) -> Defect | None:
    """What is wrong with a text whose frontmatter ends at `body_start`; None: nothing."""
    opened = _OPENED.match(text)
    if opened is not None and body_start == 0 and _KEY.match(text, opened.end()):
        return Defect("no second line --- closes the frontmatter", can_append=False)
    if _has_markers(text):
        return Defect("it holds conflict markers (<<<<<<<)", can_append=True)
    if opened is not None and not frontmatter and body_start:
        lines = text[opened.end() : body_start].splitlines()[:-1]
        if any(line.strip() and not line.lstrip().startswith("#") for line in lines):
            return Defect("the frontmatter is not YAML", can_append=True)
    return None


def _has_markers(text: str) -> bool:
    """Whether a merge left both texts here; an example in a code fence is none."""
    if "<<<<<<<" not in text or ">>>>>>>" not in text:
        return False
    awaited = 1
    for marker in _MARKER.finditer(_FENCE.sub("", text)):
        if marker.lastindex == awaited == len(marker.groups()):
            return True
        if marker.lastindex == 1:
            awaited = 2
        elif marker.lastindex == awaited == 2:  # noqa: PLR2004  the second of the three
            awaited = 3
    return False
