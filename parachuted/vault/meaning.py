"""Meaning: digests of a note's parts, so that a change without meaning wakes no watcher.

White space, line ends, a byte order mark and the order of keys and sections are no meaning. What
cannot be told apart into parts counts as one part, which then concerns everybody: rather one look
too many than a change unseen.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping

from parachuted.vault.note import ParsedNote, YamlValue, is_utf8, parse_note

Meaning = Mapping[str, str]
"""The digest of each unit in the note's order: sections by heading path (`Projects > A`), keys
(`@status`), `(opening text)`.
"""

OPENING = "(opening text)"
FRONTMATTER = "(frontmatter)"
WHOLE = "(whole note)"
OWN_NAMES = {OPENING, FRONTMATTER, WHOLE}
_UNTITLED = "(untitled)"


def meaning(data: bytes) -> Meaning:
    """What a note says.

    A section's own text ends at its first subsection; of headings of the same path the later ones
    are numbered.
    """
    units = unit_texts(parse_note(data))
    return (
        {WHOLE: _digest(data)}
        if units is None
        else {name: _digest(" ".join(text.split()).encode()) for name, text in units.items()}
    )


def unit_texts(note: ParsedNote) -> dict[str, str] | None:
    """The text of each unit, that of a key as JSON; None where the note cannot be told apart into
    parts.
    """
    if not (note.outline.complete and is_utf8(note.data)):
        return None
    units: dict[str, str] = {}
    used: dict[str, int] = {}
    for name, text in _parts(note):
        units[_numbered(name, used)] = text
    return units


def changed_units(old: Meaning | None, new: Meaning | None) -> tuple[str, ...]:
    """The names of the units that differ, in the new note's order, then those that are gone; None
    is a note that is not there.
    """
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
    """The titles in a row, with a `#` before what could be taken for a key or for one of our own
    names.
    """
    path = " > ".join(" ".join(title.split()) or _UNTITLED for title in titles)
    return f"#{path}" if path[0] in "#@" or path in OWN_NAMES else path


def _numbered(name: str, used: dict[str, int]) -> str:
    used[name] = used.get(name, 0) + 1
    return name if used[name] == 1 else _numbered(f"{name} ({used[name]})", used)


def _digest(data: bytes) -> str:
    return hashlib.blake2b(data, digest_size=8).hexdigest()
