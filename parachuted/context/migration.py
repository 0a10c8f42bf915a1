"""Migration: moves an older program's context files (`Chat/contexts/*.md`) into context folders.

Pure: the same plan is shown first and carried out afterwards. Nothing of an old text is lost.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain, count
from typing import Literal

from parachuted.access.paths import is_hidden
from parachuted.context.chain import LEGACY_FOLDER
from parachuted.errors import EditRefusedError, ParachuteError
from parachuted.vault import (
    CONTEXT_NAMES,
    AppendToSection,
    ParsedNote,
    Section,
    VaultIndex,
    VaultPath,
    apply_edit,
    is_utf8,
    parse_note,
    printable,
)

KEPT_FOLDER = VaultPath(f"{LEGACY_FOLDER}/migrated")
LARGEST_OLD_FILE = 1 << 20
_SUFFIX = ".md"
_CONTEXT = "-context"
_GENERAL = "general"
_NEW_FOLDERS = "Projects"
_BELOW_SECTION = 3
_DEEPEST = 6

MigrationAction = Literal["create", "append", "keep", "refuse"]
Read = Callable[[VaultPath], bytes]


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextAddition:
    data: bytes
    sections: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedMove:
    """Its text goes into `target` (`keep`: nothing is missing there), itself to `kept_as`."""

    file: VaultPath
    target: VaultPath
    action: MigrationAction
    sections: tuple[str, ...]
    kept_as: VaultPath
    reason: str


def plan_moves(index: VaultIndex, read: Read) -> Iterator[PlannedMove]:
    """`read` raises what the store's raises."""
    texts: dict[VaultPath, bytes | None] = {}
    for file in old_files(index):
        target = target_of(file, index)
        action, sections, reason = _outcome(file, target, index, read, texts)
        kept_as = _free(file, index)
        yield PlannedMove(
            file=file,
            target=target,
            action=action,
            sections=sections,
            kept_as=kept_as,
            reason=reason,
        )


def old_files(index: VaultIndex) -> list[VaultPath]:
    return [
        LEGACY_FOLDER / name
        for name in sorted(index.files(LEGACY_FOLDER))
        if name.endswith(_SUFFIX) and not name.startswith(".")
    ]


def target_of(file: VaultPath, index: VaultIndex) -> VaultPath:
    """The vault's own context file, that of the folder with its name, or a new one."""
    name = file.name.removesuffix(_SUFFIX)
    if name.casefold().endswith(_CONTEXT) and len(name) > len(_CONTEXT):
        name = name[: -len(_CONTEXT)]
    folder = VaultPath("") if name.casefold() == _GENERAL else _folder_named(name, index)
    return index.context_file(folder) or folder / CONTEXT_NAMES[0]


def added_to(present: bytes | None, old: bytes, file: VaultPath) -> ContextAddition:
    """New sections as such, all else that is not said there under one of the file's name.

    Raises EditRefusedError where that would change how the rest is read.
    """
    if present is None or not present.strip():
        return ContextAddition(data=old, sections=())
    note = parse_note(old)
    if not note.is_read or not parse_note(present).is_read:
        raise EditRefusedError("one of the two files is too large to be read as a note")
    if not is_utf8(old):
        raise EditRefusedError("the old file holds bytes that are not UTF-8")
    data, settled, sections = present, [], []
    for section in (section for section in note.sections if section.level == 2):  # noqa: PLR2004 - as in `##`
        body, now = note.text(section.body), parse_note(data)
        there = now.section(section.title)
        if there is not None and now.text(there.body).split() == body.split():
            settled.append(section)
        elif there is None:
            with suppress(EditRefusedError):  # then it goes with the rest
                edit = AppendToSection(section=section.title, content=body, create=True)
                data = apply_edit(edit, data)
                settled.append(section)
                sections.append(section.title)
    rest = _rest(note, settled)
    if not _is_said(rest, data):
        title = f"From {printable(file)}".replace(">", "-")
        data = apply_edit(AppendToSection(section=title, content=rest, create=True), data)
        sections.append(title)
    return ContextAddition(data=data, sections=tuple(sections))


def _outcome(
    file: VaultPath,
    target: VaultPath,
    index: VaultIndex,
    read: Read,
    texts: dict[VaultPath, bytes | None],
) -> tuple[MigrationAction, tuple[str, ...], str]:
    """`texts` holds what the targets would hold by then."""
    try:
        _refuse_large(file, index)
        if target not in texts:
            _refuse_large(target, index)
            texts[target] = read(target) if index.get(target) is not None else None
        before = texts[target]
        addition = added_to(before, read(file), file)
    except ParachuteError as error:
        return "refuse", (), error.message
    texts[target] = addition.data
    if before is None:
        return "create", (), "there is no context file yet"
    if addition.data == before:
        return "keep", (), "the context file says all of it already"
    return "append", addition.sections, "added to what is there; nothing of that is changed"


def _refuse_large(path: VaultPath, index: VaultIndex) -> None:
    entry = index.get(path)
    if entry is not None and entry.size > LARGEST_OLD_FILE:
        raise EditRefusedError(
            f"{printable(path)} is larger than {LARGEST_OLD_FILE >> 20} MB, too large for a "
            "context file"
        )


def _folder_named(name: str, index: VaultIndex) -> VaultPath:
    """A project's first, then the nearest to the vault's root."""
    wanted, projects = _plain(name), f"{_NEW_FOLDERS}/"
    found = [
        (not folder.startswith(projects), folder.count("/"), folder)
        for folder in index.all_folders()
        if _plain(folder.rpartition("/")[2]) == wanted
        and not folder.startswith("Chat/")
        and not is_hidden(folder)
    ]
    return VaultPath(min(found)[2]) if found else VaultPath(_NEW_FOLDERS) / name


def _plain(name: str) -> str:
    return "-".join(name.casefold().replace("_", " ").replace("-", " ").split())


def _free(file: VaultPath, index: VaultIndex) -> VaultPath:
    """Under its own name, or with the first number that is free."""
    taken, stem = set(index.files(KEPT_FOLDER)), file.name.removesuffix(_SUFFIX)
    numbered = (f"{stem}-{number}{_SUFFIX}" for number in count(2))
    return KEPT_FOLDER / next(name for name in chain([file.name], numbered) if name not in taken)


def _rest(note: ParsedNote, settled: list[Section]) -> str:
    """Without settled sections, headings below a section's, the frontmatter as a block."""
    kept, at = [], note.body.start
    for section in settled:
        kept.append(note.data[at : section.start])
        at = section.stop
    # behind a line end no frontmatter begins
    text = _lowered(parse_note(b"\n" + b"".join([*kept, note.data[at:]]))).strip()
    if note.frontmatter is None or not (matter := note.text(note.frontmatter).strip()):
        return text
    runs = [len(run) for run in matter.split() if set(run) == {"`"}]
    fence = "`" * max(3, 1 + max(runs, default=0))
    return f"{fence}yaml\n{matter}\n{fence}\n\n{text}".strip()


def _lowered(note: ParsedNote) -> str:
    headings = note.outline.headings
    by = _BELOW_SECTION - min((heading.level for heading in headings), default=_BELOW_SECTION)
    if by <= 0:
        return note.text(note.body)
    parts, at = [], note.body.start
    for heading in headings:
        marks = "#" * min(heading.level + by, _DEEPEST)
        line = note.data[heading.start : heading.stop].lstrip(b" ")
        is_marked = line.startswith(b"#")
        own = line.lstrip(b"#") if is_marked else f" {heading.title}\n".encode()
        parts += [note.data[at : heading.start], marks.encode(), own]
        at = heading.stop
    return b"".join([*parts, note.data[at:]]).decode("utf-8", "replace")


def _is_said(text: str, data: bytes) -> bool:
    """Each line stands there already, rules and marks aside."""
    present = {_bare(line) for line in data.decode("utf-8", "replace").splitlines()}
    return all(_bare(line) in present for line in text.splitlines() if _bare(line))


def _bare(line: str) -> str:
    return line.strip().lstrip("#-*_=> ").strip()
