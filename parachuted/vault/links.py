"""Links: which files a note names, and how to rewrite a link's target and nothing else.

A target is a name, a path from the vault or the note's folder, or the end of one, in any case.
"""

from __future__ import annotations

import json
import posixpath
import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol
from urllib.parse import unquote_to_bytes

from parachuted.vault.bounded_yaml import UNPRINTABLE
from parachuted.vault.frontmatter import Span
from parachuted.vault.link_marks import (
    ABROAD_WIKI,
    LONGEST_LABEL,
    Form,
    LinkKind,
    LinkMark,
    find_links,
    scalar_text,
)
from parachuted.vault.note import ParsedNote

_ESCAPED = re.compile(rb"\\([!-/:-@\[-`{-~])")
_NOT_IN_WIKI = re.compile(rb"[\[\]\r\n#|\0`]|\\$|%%|<!--")
_ENDS_PLAIN = re.compile(r":(?: |\Z)")
_IN_FLOW = re.compile(r"[^-?:,\[\]{}#&*!|>'\"%@`\s][^?:,{}]*")
_SUFFIX = ".md"


@dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    """`target` has its escapes undone and stands at `span`, in bytes; `line` counts from 1.

    `form` in the frontmatter: within quotes (`single`, `double`), none (`plain`), lines of its own
    (`block`), as the list that `[[Note]]` is to YAML (`flow`), or in what is not YAML (`unparsed`).
    """

    kind: LinkKind
    target: str
    anchor: str | None
    label: str | None
    span: Span
    line: int
    form: Form


def links_in(note: ParsedNote) -> tuple[Link, ...]:
    """In order; those to a place in the note itself are left out. Never raises."""
    if not note.is_read:
        return ()
    return tuple(_links_of(find_links(note), note.data))


def rewrite_links(note: ParsedNote, replace: Callable[[Link], str | None]) -> bytes:
    """The note with what `replace` gives (None: as it is), where that can be written."""
    parts, at = [], 0
    for link in links_in(note):
        target = replace(link)
        text = None if target is None or target == link.target else written(link, target, note.data)
        if text is not None:
            parts += [note.data[at : link.span.start], text]
            at = link.span.stop
    return b"".join([*parts, note.data[at:]])


def written(link: Link, target: str, data: bytes) -> bytes | None:
    """None where its form cannot hold the target: `[[a#b]]` never means a file `a#b`."""
    try:
        text = target.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return None
    old = data[link.span.start : link.span.stop]
    if link.form in {"bare", "angle"}:
        return _percent(text, link.form, old=old)
    if (
        not target
        or target != target.strip()
        or _NOT_IN_WIKI.search(text)
        or ABROAD_WIKI.match(text)
        or not (link.form == "wiki" or _fits(link, old, target))
    ):
        return None
    if link.form == "single":
        return text.replace(b"'", b"''")
    return text.replace(b"\\", b"\\\\").replace(b'"', b'\\"') if link.form == "double" else text


def _fits(link: Link, old: bytes, target: str) -> bool:
    if link.form == "unparsed" or b"\n" in old or UNPRINTABLE.search(target):
        return False
    if link.form == "flow":
        return all(map(_IN_FLOW.fullmatch, (link.target, target)))
    return link.form != "plain" or _ENDS_PLAIN.search(target) is None


def _percent(text: bytes, form: Form, *, old: bytes) -> bytes:
    unsafe = set(b"%#?<>\\`|:[]\"'\x7f") | set(range(0x20))
    unsafe |= set() if form == "angle" else set(b" ()")
    raw = not re.search(rb"%[89A-Fa-f][0-9A-Fa-f]", old)
    try:
        text.decode()
    except UnicodeDecodeError:
        raw = False
    return b"".join(
        b"%%%02X" % one if one in unsafe or (one >= 0x80 and not raw) else bytes([one])  # noqa: PLR2004
        for one in text
    )


def _links_of(marks: Iterable[LinkMark], data: bytes) -> Iterator[Link]:
    line, at = 1, 0
    for mark in marks:
        raw = data[mark.span.start : mark.span.stop]
        target = _target(raw, mark.form)
        if target:
            line += data.count(b"\n", at, mark.span.start)
            at = mark.span.start
            anchor = None if mark.anchor is None else _target(mark.anchor, mark.form)
            label = None if mark.label is None else _label(mark.label[:LONGEST_LABEL], mark.form)
            yield Link(
                kind=mark.kind,
                target=target,
                anchor=anchor,
                label=label,
                span=mark.span,
                line=line,
                form=mark.form,
            )


def _target(raw: bytes, form: Form) -> str:
    if form in {"bare", "angle"}:
        return _text(unquote_to_bytes(_ESCAPED.sub(rb"\1", raw)))
    return _text(raw) if form == "wiki" else scalar_text(raw, form)


def _label(raw: bytes, form: Form) -> str:
    return _text(raw) if form in {"bare", "angle"} else _target(raw, form)


def _text(data: bytes) -> str:
    return data.decode("utf-8", "surrogateescape")


class LinkNames(Protocol):
    def by_name(self, key: str) -> Iterable[str]:
        """The files whose last name is that, as `name_key` spells it."""

    def exists(self, path: str) -> bool: ...


def name_key(name: str) -> str:
    """Without what does not matter: letter case, and how accents are put together."""
    return (
        name.lower()
        if name.isascii()
        else unicodedata.normalize("NFC", unicodedata.normalize("NFC", name).lower())
    )


def resolve(link: Link, source: str, names: LinkNames) -> str | None:
    return resolve_target(link.target, source, names, from_folder=link.form in {"bare", "angle"})


def resolve_target(
    target: str, source: str, names: LinkNames, *, from_folder: bool = False
) -> str | None:
    """`from_folder`: look in the note's own folder first, as markdown links mean it."""
    folder = posixpath.dirname(source)
    if target.startswith("/"):
        return _first(_at([target.lstrip("/")], names))
    if target.startswith(("./", "../")):
        return _first(_at([_joined(folder, target)], names))
    nearby, from_root = _joined(folder, target), posixpath.normpath(target)
    places = [nearby, from_root] if from_folder else [from_root, nearby]
    return _first(_at(places, names)) or _first(_ending(target, folder, names))


def leads_straight(link: Link, source: str, path: str) -> bool:
    """Whether it is a path from the note's own folder, as any reader of markdown understands it."""
    if link.form not in {"bare", "angle"} or link.target.startswith("/"):
        return False
    return name_key(_joined(posixpath.dirname(source), link.target)) in {
        name_key(path),
        name_key(path.removesuffix(_SUFFIX)),
    }


def spelled(
    link: Link,
    *,
    was: tuple[str, str],
    now: tuple[str, str],
    names: LinkNames,
    data: bytes,
    whole: bool = False,
) -> str | None:
    """How to write the link for its new target, in its manner; None: that cannot be.

    `was` and `now` are the note's path and the target's; `names` the files afterwards. `whole`:
    never by a name alone, which may be that of a file that `names` lacks.
    """
    from_folder = link.form in {"bare", "angle"}
    has_suffix = name_key(link.target).endswith(_SUFFIX)
    for path in _manners(link, was, now, whole=whole):
        bare = path.removesuffix(_SUFFIX)
        for text in [path] if has_suffix else [bare, path]:
            if (
                resolve_target(text, now[0], names, from_folder=from_folder) == now[1]
                and written(link, text, data) is not None
            ):
                return text
    return None


def _manners(
    link: Link, was: tuple[str, str], now: tuple[str, str], *, whole: bool
) -> Iterator[str]:
    target, new = link.target, now[1]
    near = posixpath.relpath(new, posixpath.dirname(now[0]) or ".")
    if target.startswith("/"):
        yield f"/{new}"
    elif target.startswith("./"):
        yield near if near.startswith("../") else f"./{near}"
    elif target.startswith("../") or leads_straight(link, *was):
        yield near
    elif "/" not in target and not whole:
        yield posixpath.basename(new)
    yield from (new, near, f"/{new}")


def _joined(folder: str, target: str) -> str:
    return posixpath.normpath(posixpath.join(folder, target))


def _first(paths: Iterable[str]) -> str | None:
    return next(iter(paths), None)


def _with_suffix(path: str) -> tuple[str, str]:
    return path, path + _SUFFIX


def _at(places: Iterable[str], names: LinkNames) -> Iterator[str]:
    """Letter case as it is written first."""
    for place in places:
        if place in {"", ".", ".."} or place.startswith("../"):
            continue
        for path in _with_suffix(place):
            if names.exists(path):
                yield path
        for path in _with_suffix(name_key(place)):
            yield from sorted(
                found
                for found in names.by_name(posixpath.basename(path))
                if name_key(found) == path
            )


def _ending(target: str, folder: str, names: LinkNames) -> Iterator[str]:
    """Those below the note's folder first, then the shortest path."""
    wanted = name_key(posixpath.normpath(target))
    for path in _with_suffix(wanted):
        found = [
            one
            for one in names.by_name(posixpath.basename(path))
            if name_key(one) == path or name_key(one).endswith(f"/{path}")
        ]
        if found:
            prefix = f"{folder}/" if folder else ""
            yield min(
                found, key=lambda one: (not one.startswith(prefix), one.count("/"), len(one), one)
            )
            return


_LARGEST = 1 << 20


def link_setting(vault: Path) -> Literal["wiki", "markdown"] | None:
    """What Obsidian's settings say (wikilinks unless told otherwise); None: there are none."""
    settings = vault / ".obsidian"
    if settings.is_symlink() or not settings.is_dir():
        return None
    try:
        with (settings / "app.json").open("rb") as file:
            found = json.loads(file.read(_LARGEST))
    except (OSError, ValueError, RecursionError):
        return "wiki"
    return (
        "markdown" if isinstance(found, dict) and found.get("useMarkdownLinks") is True else "wiki"
    )
