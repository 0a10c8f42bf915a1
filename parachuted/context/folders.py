"""Folders: the folders of the vault that have a context file."""

from __future__ import annotations

from dataclasses import dataclass

from parachuted.vault import CONTEXT_NAMES, VaultIndex, VaultPath

_BYTES_PER_TOKEN = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextFolder:
    """A folder with a context file. `path` is empty for the vault itself."""

    path: str
    context_file: VaultPath
    has_agents_md: bool
    has_claude_md: bool
    display_name: str
    tokens: int


def context_folders(index: VaultIndex) -> list[ContextFolder]:
    """Every folder with a context file, by path; answered from the index."""
    return [
        found
        for folder in index.context_folders()
        if (found := context_folder(folder, index)) is not None
    ]


def context_folder(folder: str, index: VaultIndex) -> ContextFolder | None:
    """The folder, if it has a context file."""
    path = index.context_file(folder)
    if path is None:
        return None
    files = index.entries(folder)
    return ContextFolder(
        path=folder,
        context_file=path,
        has_agents_md=CONTEXT_NAMES[0] in files,
        has_claude_md=CONTEXT_NAMES[1] in files,
        display_name=folder.rpartition("/")[2] or "Vault",
        tokens=tokens_of(index, path),
    )


def tokens_of(index: VaultIndex, path: VaultPath) -> int:
    """What the file comes to in a prompt."""
    entry = index.get(path)
    return 0 if entry is None else tokens_in(entry.size)


def tokens_in(size: int) -> int:
    """The usual estimate: a token for four bytes."""
    return -(-size // _BYTES_PER_TOKEN)
