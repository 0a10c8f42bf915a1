"""Assets: recordings and pictures of entries, `Daily/assets/DATE/HHMMSS_TYPE.EXT`.

The folder is where the existing app puts them. A file is never replaced: two of one second get
numbers.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterable, Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Final, Literal

from parachuted.errors import ConflictError, EditRefusedError
from parachuted.modules import VaultAccess

MOST_BYTES: Final = 200 << 20
HEAD_BYTES: Final = 16
_MOST_NAMES: Final = 1000

AssetType = Literal["audio", "photo"]

# What a file of each kind begins with; the media player and the speech engine look there too.
_SIGNS: Final = {
    "audio": {
        "wav": rb"RIFF....WAVE",
        "mp3": rb"ID3|\xff[\xe2-\xff]",
        "m4a": rb"....ftyp",
        "mp4": rb"....ftyp",
        "ogg": rb"OggS",
        "opus": rb"OggS",
        "webm": rb"\x1a\x45\xdf\xa3",
    },
    "photo": {
        "png": rb"\x89PNG\r\n\x1a\n",
        "jpg": rb"\xff\xd8\xff",
        "jpeg": rb"\xff\xd8\xff",
        "gif": rb"GIF8",
        "webp": rb"RIFF....WEBP",
        "heic": rb"....ftyp",
    },
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Asset:
    """A file that an entry can name. `path` is relative to `Daily/`, as entries have it; `size` is
    in bytes.
    """

    path: str
    size: int
    sha256: str


def extension(asset: AssetType, name: str) -> str:
    """The suffix of a file's name, lower case. EditRefusedError: that type has other suffixes."""
    suffix = name.rpartition(".")[2].lower()
    if suffix not in _SIGNS[asset]:
        raise EditRefusedError(
            f"{name[:80]!r} is not the name of one of these: {', '.join(_SIGNS[asset])}"
        )
    return suffix


def check_head(asset: AssetType, suffix: str, head: bytes) -> None:
    """Raise EditRefusedError unless a file of that suffix can begin so."""
    if not re.match(_SIGNS[asset][suffix], head, re.DOTALL):
        raise EditRefusedError(f"The content is not that of a .{suffix} file.")


async def keep(
    vault: VaultAccess,
    at: datetime,
    asset: AssetType,
    suffix: str,
    pieces: Callable[[], AsyncIterable[bytes]],
) -> Asset:
    """Write a new file; it is on the disk, and hashed, when this returns.

    `pieces` is called again when the name was taken meanwhile.
    """
    stem = f"assets/{at:%Y-%m-%d}/{at:%H%M%S}_{asset}"
    for number in range(1, _MOST_NAMES):
        path = f"{stem}{'' if number == 1 else f'-{number}'}.{suffix}"
        if await vault.exists(f"Daily/{path}"):
            continue
        try:
            made = await vault.upload(f"Daily/{path}", pieces())
        except ConflictError:
            continue
        return Asset(path=path, size=made.size, sha256=made.digest)
    raise EditRefusedError(f"Daily/{stem}.{suffix} and {_MOST_NAMES} more of that second exist.")
