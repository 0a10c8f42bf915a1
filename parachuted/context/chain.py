"""Chain: which context files a choice of folders loads, which it leaves out, and why.

Parents are listed, but only included when chosen or watched themselves.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Literal

from parachuted.vault import CONTEXT_NAMES, PathText, VaultIndex, VaultPath

_BYTES_PER_TOKEN = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextFolder:
    """A folder with a context file. `path` is empty for the vault itself."""

    path: PathText
    context_file: VaultPath
    has_agents_md: bool
    has_claude_md: bool
    display_name: PathText
    tokens: int


def context_folders(index: VaultIndex) -> list[ContextFolder]:
    return [
        ContextFolder(
            path=folder,
            context_file=path,
            has_agents_md=CONTEXT_NAMES[0] in (files := index.entries(folder)),
            has_claude_md=CONTEXT_NAMES[1] in files,
            display_name=folder.rpartition("/")[2] or "Vault",
            tokens=tokens_of(index, path),
        )
        for folder in index.context_folders()
        if (path := index.context_file(folder)) is not None
    ]


def tokens_of(index: VaultIndex, path: VaultPath) -> int:
    entry = index.get(path)
    return 0 if entry is None else tokens_in(entry.size)


def tokens_in(size: int) -> int:
    """The usual estimate: a token for four bytes."""
    return -(-size // _BYTES_PER_TOKEN)


Level = Literal["root", "parent", "direct", "watched"]
_ORDER: dict[Level, int] = {"root": 0, "parent": 1, "watched": 2, "direct": 3}
LARGEST_FILE = 128 << 10


@dataclass(frozen=True, slots=True, kw_only=True)
class ChainFile:
    """`tokens` estimates what it comes to in a prompt; `reason` says why it is included or not."""

    path: VaultPath
    folder_path: VaultPath
    level: Level
    tokens: int
    exists: bool
    included: bool
    reason: PathText


@dataclass(frozen=True, slots=True, kw_only=True)
class Chain:
    """In prompt order; `truncated`: the budget left some out."""

    files: tuple[ChainFile, ...]
    total_tokens: int
    truncated: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextSelection:
    """Folders (empty: the vault itself), and single notes, as older programs name them."""

    folders: tuple[str, ...] = ()
    files: tuple[VaultPath, ...] = ()


def chain_of(
    choice: ContextSelection,
    index: VaultIndex,
    watched_by: Callable[[str], Iterable[VaultPath]],
    *,
    max_tokens: int | None = None,
    sees: Callable[[str], bool] = lambda _path: True,
) -> Chain:
    """Over `max_tokens`, the files farthest from the choice are left out first. For threads."""
    files = {file.path: file for file in _chosen(choice, index) if sees(file.path)}
    for path in [file.path for file in files.values() if file.exists]:
        for watched in watched_by(path):
            if watched not in files and index.is_context_file(watched) and sees(watched):
                level: Level = "watched" if watched.folder else "root"
                files[watched] = _file(watched, level, index, reason=f"watched by {path}")
    for parent in sorted(
        {above for folder in (*choice.folders, *choice.files) for above in parents(folder)}
    ):
        path_above = index.context_file(parent)
        if path_above is not None and path_above not in files and sees(path_above):
            level = "parent" if parent else "root"
            listed = _file(path_above, level, index, reason="a parent, neither chosen nor watched")
            files[path_above] = replace(listed, included=False)
    return _within(sorted(files.values(), key=_place), max_tokens)


def _chosen(choice: ContextSelection, index: VaultIndex) -> Iterator[ChainFile]:
    for folder in choice.folders:
        path = index.context_file(folder) or VaultPath(folder) / CONTEXT_NAMES[0]
        yield _file(path, "direct" if folder else "root", index, reason="chosen")
    for path in choice.files:
        level: Level = "root" if path == index.context_file("") else "direct"
        yield _file(path, level, index, reason="chosen")


def _within(files: list[ChainFile], max_tokens: int | None) -> Chain:
    """Cut from the far end: what is chosen goes last."""
    included = [file for file in files if file.included]
    total, cut = sum(file.tokens for file in included), set()
    for file in sorted(included, key=lambda file: (_ORDER[file.level], file.path)):
        if max_tokens is None or total <= max_tokens:
            break
        total -= file.tokens
        cut.add(file.path)
    chain_files = tuple(
        replace(file, included=False, reason="over the token budget") if file.path in cut else file
        for file in files
    )
    return Chain(files=chain_files, total_tokens=total, truncated=bool(cut))


def _file(path: VaultPath, level: Level, index: VaultIndex, *, reason: str) -> ChainFile:
    entry = index.get(path)
    if entry is None:
        reason = f"{reason}, but there is no {'context ' if path.name in CONTEXT_NAMES else ''}file"
    elif entry.size > LARGEST_FILE:
        reason = f"{reason}; all beyond its first {LARGEST_FILE >> 10} KB is left out"
    return ChainFile(
        path=path,
        folder_path=path.folder,
        level=level,
        tokens=tokens_in(min(entry.size, LARGEST_FILE)) if entry else 0,
        exists=entry is not None,
        included=entry is not None,
        reason=reason,
    )


def parents(folder: str) -> Iterator[str]:
    """The folders around it, the nearest first, the vault last."""
    while folder:
        folder = folder.rpartition("/")[0]
        yield folder


def _place(file: ChainFile) -> tuple[int, int, str]:
    return _ORDER[file.level], file.folder_path.count("/"), file.path


LEGACY_FOLDER = VaultPath("Chat/contexts")
_SUFFIX = ".md"


def choice_of(names: Iterable[str], index: VaultIndex) -> ContextSelection:
    """A context file stands for its folder, any other note for itself. PathRefusedError."""
    folders: dict[str, None] = {}
    files: dict[VaultPath, None] = {}
    for name in names:
        path = VaultPath("") if name in {"", "."} else VaultPath.parse(name.rstrip("/") or name)
        if path.endswith(_SUFFIX) and path not in index and not index.is_context_file(path):
            files[path] = None
        else:
            folders[path.folder if index.is_context_file(path) else path] = None
    return ContextSelection(folders=tuple(folders), files=tuple(files))


def names_in(texts: Iterable[str], index: VaultIndex) -> list[str]:
    """A folder with a comma in its name has to stand alone."""
    names = []
    for text in texts:
        names += [text] if text in index else [part.strip() for part in text.split(",")]
    return names
