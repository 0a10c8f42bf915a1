"""Digest: what the offline agent writes about what a note watches. Pure."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from hashlib import blake2b
from posixpath import dirname

from parachuted.agents.extract import GENERATED, Extract, LinkStyle, link, name_of, plain
from parachuted.agents.job import ChangedNote
from parachuted.vault import CONTEXT_NAMES, ParsedNote

SECTION = "Watching"
SWITCH = "digest"
BEGIN = (
    f"{GENERATED} (offline, no model). What you write in here is moved below it; "
    f"`{SWITCH}: false` above switches it off.*"
)
MOST_NOTES = 200

_FOLDED_FROM = 30
_HISTORY_LINES = 10
_OFF = {"false", "no", "off"}
_END = re.compile(r"<!-- end of what parachuted generated \(([0-9a-f]{8})\) -->")


@dataclass(frozen=True, slots=True, kw_only=True)
class GeneratedSection:
    inside: tuple[str, ...]
    below: str
    check: str

    @property
    def is_edited(self) -> bool:
        return _check(self.inside) != self.check


def find_generated(note: ParsedNote) -> GeneratedSection | None:
    text = "\n".join(_section_text(note).strip().splitlines())
    mark = _END.search(text)
    if mark is None:
        return None
    inside, below = _lines(text[: mark.start()]), text[mark.end() :].strip("\n")
    return GeneratedSection(inside=inside, below=below, check=mark[1])


def is_foreign(note: ParsedNote) -> bool:
    """Whether a person has a section of that name, which is then left alone."""
    return bool(_section_text(note).strip()) and find_generated(note) is None


def is_switched_off(note: ParsedNote) -> bool:
    return str(note.values.get(SWITCH, "")).strip().casefold() in _OFF


def write_digest(
    watcher: str, extracts: Sequence[Extract], *, watched: int = 0, style: LinkStyle = "markdown"
) -> str:
    """One bullet a note with its focus, many by folder. `watched` counts all there are."""
    shown = sorted(extracts, key=lambda extract: extract.path)[:MOST_NOTES]
    more = max(watched, len(extracts)) - len(shown)
    write = _folded if len(shown) > _FOLDED_FROM else _listed
    lines = write(watcher, shown, style) or ["- nothing yet"]
    return "\n".join([BEGIN, "", *lines, *([f"- and {more} more"] if more > 0 else [])])


def compose(note: ParsedNote, digest: str, before: Sequence[str] | None) -> str:
    """The digest, its mark, and below it what a person wrote, also what was written in between.

    `before` are the lines between the marks when they were set; None: not known, and every line
    that the new digest does not have is kept.
    """
    present, lines = find_generated(note), _lines(digest)
    below = [present.below] if present is not None and present.below.strip() else []
    if present is not None and present.is_edited:
        known = Counter(map(str.strip, (*(lines if before is None else before), BEGIN)))
        added = []
        for line in present.inside:
            known[line.strip()] -= 1
            if known[line.strip()] < 0:
                added.append(line)
        below = ["\n".join(added), *below] if added else below
    mark = f"<!-- end of what parachuted generated ({_check(lines)}) -->"
    return "\n\n".join([f"{digest}\n{mark}", *below])


def is_same(note: ParsedNote, digest: str) -> bool:
    present = find_generated(note)
    return present is not None and not present.is_edited and present.inside == _lines(digest)


def write_history(
    watcher: str, changes: Sequence[ChangedNote], at: datetime, style: LinkStyle = "markdown"
) -> str:
    """One item for a note or a moved folder; `at` is in the time zone used for dates."""
    entries = list(_entries(watcher, changes, style))
    lines = []
    for head, news in entries[:_HISTORY_LINES]:
        lines += _entry(f"- {at:%Y-%m-%d}: {head}", news)
    more = len(entries) - _HISTORY_LINES
    return "\n".join([*lines, *([f"- and {more} more"] if more > 0 else [])])


def _listed(watcher: str, extracts: Iterable[Extract], style: LinkStyle) -> list[str]:
    lines = []
    for extract in extracts:
        lines += [_bullet(watcher, extract, style), *(f"  - {line}" for line in extract.focus)]
    return lines


def _folded(watcher: str, extracts: Iterable[Extract], style: LinkStyle) -> list[str]:
    """By folder, so that an editor can fold them; a context file is listed beside its folder's."""
    folders: dict[str, list[Extract]] = {}
    for extract in extracts:
        folders.setdefault(_place(extract.path), []).append(extract)
    lines = []
    for folder, found in sorted(folders.items()):
        lines.append(f"- {plain(folder) or 'the vault'} ({len(found)})")
        lines += [f"  {_bullet(watcher, one, style)}" for one in found]
    return lines


def _place(path: str) -> str:
    folder = dirname(path)
    return dirname(folder) if path.rpartition("/")[2] in CONTEXT_NAMES else folder


def _bullet(watcher: str, extract: Extract, style: LinkStyle) -> str:
    tail = f" — {extract.description}" if extract.description else ""
    return f"- {link(watcher, extract.path, extract.title, style)}{tail}"


def _entries(
    watcher: str, changes: Sequence[ChangedNote], style: LinkStyle
) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Each piece of news, with the lines below. Notes that moved with their folder are one."""
    folders = Counter(way for change in changes if (way := _way(change)))
    for change in changes:
        way = _way(change)
        if way is None or folders[way] == 1:
            yield _head(watcher, change, style), change.news
        elif folders[way] > 0:
            left = ", which is not watched" if change.target is not None else ""
            yield f"{folders[way]} notes moved from {plain(way[0])} to {plain(way[1])}{left}", ()
            del folders[way]


def _way(change: ChangedNote) -> tuple[str, str] | None:
    """The folders between which a note moved with what it is in, if that is all."""
    source, target = (
        (change.source, change.path) if change.source is not None else (change.path, change.target)
    )
    if target is None or change.news:
        return None
    old, new = source.split("/"), target.split("/")
    while min(len(old), len(new)) > 1 and old[-1] == new[-1]:
        del old[-1], new[-1]
    common = source.split("/")[len(old) :]
    if len(common) > 1 and old[:-1] != new[:-1]:  # the folder has its name still, in another place
        old, new = [*old, common[0]], [*new, common[0]]
    return ("/".join(old), "/".join(new)) if common else None


def _head(watcher: str, change: ChangedNote, style: LinkStyle) -> str:
    title = change.title or name_of(change.path)
    if change.target is not None:
        said = f"moved to {plain(change.target)}, which is not watched"
        return f"{link(watcher, change.target, title, style)}: {said}"
    if change.kind in {"deleted", "ignored"}:
        return f"{title}: {change.kind}"
    said = "" if change.news else "changed"
    if change.kind == "created":
        said = "new"
    elif change.kind == "moved":
        said = f"moved from {plain(change.source or '') or 'elsewhere'}"
    return ": ".join(filter(None, [link(watcher, change.path, title, style), said]))


def _entry(head: str, news: Sequence[str]) -> list[str]:
    if len(news) <= 1:
        return [": ".join([head, *news])]
    return [head, *(f"  {line}" if line.startswith("  ") else f"  - {line}" for line in news)]


def _section_text(note: ParsedNote) -> str:
    section = note.section(SECTION)
    return note.text(section.body) if section is not None else ""


def _lines(text: str) -> tuple[str, ...]:
    return tuple(line.rstrip() for line in text.splitlines() if line.strip())


def _check(lines: Iterable[str]) -> str:
    return blake2b("\n".join(lines).encode("utf-8", "surrogatepass"), digest_size=4).hexdigest()
