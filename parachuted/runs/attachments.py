"""Attachments: files of the vault that go with a conversation's prompt."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

from parachuted.agents import PromptFile
from parachuted.errors import ActRefusedError
from parachuted.vault import printable

_MEDIA_TYPES = {
    ".png": "image/png",
    ".jpg": "image/jpeg",
    ".jpeg": "image/jpeg",
    ".gif": "image/gif",
    ".webp": "image/webp",
    ".pdf": "application/pdf",
}
_MOST_FILES = 20
_LARGEST_FILE, _LARGEST_ALL = 5 << 20, 16 << 20  # as the Messages API takes them
_LONGEST_TEXT = 100_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Attachments:
    """Texts as words before the prompt; pictures and documents as they are."""

    words: str = ""
    files: tuple[PromptFile, ...] = ()


async def load_attachments(
    paths: Sequence[str], read: Callable[[str], Awaitable[bytes]]
) -> Attachments:
    """The files at these paths. Raises ActRefusedError for what no model takes, and what `read`
    raises.
    """
    if len(paths) > _MOST_FILES:
        raise ActRefusedError(f"at most {_MOST_FILES} files go with a message")
    words, files, size = [], [], 0
    for path in paths:
        data = await read(path)
        size += len(data)
        media_type = _MEDIA_TYPES.get(PurePosixPath(path).suffix.lower())
        if len(data) > _LARGEST_FILE or size > _LARGEST_ALL:
            raise ActRefusedError(
                f"{printable(path)} is too large: a file that goes with a message has at most "
                f"{_LARGEST_FILE >> 20} MB, and all together {_LARGEST_ALL >> 20}"
            )
        if media_type is not None:
            files.append(PromptFile(path=path, media_type=media_type, data=data))
            continue
        words.append(_words(path, data))
    return Attachments(words="".join(words), files=tuple(files))


def _words(path: str, data: bytes) -> str:
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise ActRefusedError(
            f"{printable(path)} is neither text nor a picture (png, jpeg, gif, webp) nor a PDF, "
            "and no model reads it"
        ) from error
    cut = "\n(it goes on; read_note reads all of it)" if len(text) > _LONGEST_TEXT else ""
    return f"The file {printable(path)}:\n\n{text[:_LONGEST_TEXT]}{cut}\n\n"
