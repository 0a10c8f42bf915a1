"""Files of a message: saved into the vault; what recordings say becomes words of the message."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

from parachuted.modules import Finding, Module, reading

from .messages import new_message_id
from .session import now
from .turn_events import Event

FOLDER: Final = "Chat/artifacts"
_MOST: Final = 20
_LARGEST: Final = 20 << 20
_TOO_LARGE: Final = f"it is larger than {_LARGEST >> 20} MB"
_NO_NAME: Final = re.compile(r'[\x00-\x1f\x7f/\\:*?"<>|#^\[\]{}$]+')
_LONGEST_NAME: Final = 160  # bytes
_SUFFIXES: Final = (".wav", ".mp3", ".m4a", ".ogg", ".opus", ".webm", ".flac", ".aac")
_NO_JOURNAL: Final = "no module that transcribes is there; install Daily"

Send = Callable[[Event], None]


async def save_attachments(
    module: Module, attached: Sequence[Mapping[str, Any]], send: Send
) -> list[str]:
    """Their paths in the vault. One that cannot be saved is left out, with a warning."""
    paths, findings = list[str](), list[Finding]()
    for place, one in enumerate(attached):
        name = str(one.get("fileName") or "file")
        if place >= _MOST:
            findings.append(
                Finding(path=name[:200], problem=f"a message has at most {_MOST} files")
            )
            continue
        with reading(name[:200], findings):
            paths.append(await _saved(module, one, name))
    _warn(findings, "attachment_save_failed", "A file was left out", send)
    return paths


async def _saved(module: Module, one: Mapping[str, Any], name: str) -> str:
    data = one.get("base64Data")
    if not data:
        path = str(one.get("filePath") or "").strip("/")
        if not path or not await module.vault.exists(path):
            raise ValueError("there is no such file in the vault")
        return path
    if len(data) > _LARGEST * 4 // 3 + 4:
        raise ValueError(_TOO_LARGE)
    try:
        content = base64.b64decode(str(data), validate=True)
    except binascii.Error as error:
        raise ValueError("its content is not base64") from error
    clean = " ".join(_NO_NAME.sub(" ", name).split()).lstrip(".") or "file"
    clean = clean.encode("utf-8", "replace")[-_LONGEST_NAME:].decode("utf-8", "ignore")
    stem, dot, suffix = clean.rpartition(".")
    called = f"{stem} {new_message_id()[:6]}.{suffix}" if dot else f"{clean} {new_message_id()[:6]}"
    path = f"{FOLDER}/{now()[:10]} {called}"
    await module.vault.write_bytes(path, content)
    return path


def is_recording(path: str) -> bool:
    return path.casefold().endswith(_SUFFIXES)


async def words_of(module: Module, paths: Sequence[str], send: Send) -> list[str]:
    """What each recording says. Of one that cannot be transcribed a warning says why."""
    words, findings = list[str](), list[Finding]()
    for path in paths:
        with reading(path, findings):
            words.append(await _transcribed(module, path))
    _warn(findings, "transcription_failed", "A recording was not transcribed", send)
    return words


async def _transcribed(module: Module, path: str) -> str:
    journal: Any = module.get_interface("JournalInterface")
    if journal is None:
        raise ValueError(_NO_JOURNAL)
    data = await module.vault.read_bytes(path)
    if len(data) > _LARGEST:
        raise ValueError(_TOO_LARGE)
    name = path.rpartition("/")[2]
    return str(await journal.transcribe(base64.b64encode(data).decode(), name)).strip()


def _warn(findings: Iterable[Finding], code: str, title: str, send: Send) -> None:
    for one in findings:
        message = f"{one.path}: {one.problem}"
        send({"type": "warning", "code": code, "title": title, "message": message, "details": []})
