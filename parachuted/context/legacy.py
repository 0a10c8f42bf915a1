"""Legacy: contexts in the form of older programs, single files such as
`Chat/contexts/general-context.md` instead of folders.
"""

from __future__ import annotations

from collections.abc import Iterable

from parachuted.context.chain import ContextSelection
from parachuted.vault import VaultIndex, VaultPath

LEGACY_FOLDER = VaultPath("Chat/contexts")
_SUFFIX = ".md"


def choice_of(names: Iterable[str], index: VaultIndex) -> ContextSelection:
    """The folders and files that names mean: the vault itself is empty or `.`; a context file
    stands for its folder, any other note for itself.

    Raises PathRefusedError for what is no path in the vault.
    """
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
    """The names in texts that hold several, with commas between them; a folder with a comma in its
    name has to stand alone.
    """
    names = []
    for text in texts:
        names += [text] if text in index else [part.strip() for part in text.split(",")]
    return names
