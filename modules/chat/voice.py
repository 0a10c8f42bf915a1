"""Voice messages: what is said in a recording becomes words of the message, by the journal's
transcription where it is.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Sequence
from typing import Any, Final

from parachuted.modules import Finding, Module, reading

from .turn_events import Event

_SUFFIXES: Final = (".wav", ".mp3", ".m4a", ".ogg", ".opus", ".webm", ".flac", ".aac")
_LARGEST: Final = 20 << 20
_NO_JOURNAL: Final = "no module that transcribes is there; install Daily"


def is_recording(path: str) -> bool:
    """Whether a file is one, by its name."""
    return path.casefold().endswith(_SUFFIXES)


async def words_of(
    module: Module, paths: Sequence[str], send: Callable[[Event], None]
) -> list[str]:
    """What is said in each recording. Of one that cannot be transcribed a warning says why; the
    recording stays.
    """
    words, findings = list[str](), list[Finding]()
    for path in paths:
        with reading(path, findings):
            words.append(await _transcribed(module, path))
    for one in findings:
        send(
            {
                "type": "warning",
                "code": "transcription_failed",
                "title": "A recording was not transcribed",
                "message": f"{one.path}: {one.problem}",
                "details": [],
            }
        )
    return words


async def _transcribed(module: Module, path: str) -> str:
    journal: Any = module.get_interface("JournalInterface")
    if journal is None:
        raise ValueError(_NO_JOURNAL)
    data = await module.vault.read_bytes(path)
    if len(data) > _LARGEST:
        raise ValueError(f"it is larger than {_LARGEST >> 20} MB")
    name = path.rpartition("/")[2]
    return str(await journal.transcribe(base64.b64encode(data).decode(), name)).strip()
