"""Files that come with a message: they become files of the vault before the agent is asked."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from parachuted.modules import Finding, Module, reading

from .messages import new_message_id
from .session import now
from .turn_events import Event

FOLDER: Final = "Chat/artifacts"
_MOST: Final = 20
_LARGEST: Final = 20 << 20
_NO_NAME: Final = re.compile(r'[\x00-\x1f\x7f/\\:*?"<>|#^\[\]{}$]+')
_LONGEST_NAME: Final = 160  # bytes


async def save_attachments(
    module: Module, attached: Sequence[Mapping[str, Any]], send: Callable[[Event], None]
) -> list[str]:
    """The paths of these files in the vault. One that cannot be had is left out, with a warning;
    the message is asked without it.
    """
    paths, findings = list[str](), list[Finding]()
    for one in attached[:_MOST]:
        name = str(one.get("fileName") or "file")
        with reading(name, findings):
            paths.append(await _saved(module, one, name))
    for found in findings:
        send(_warning(str(found.path), found.problem))
    for one in attached[_MOST:]:
        send(_warning(str(one.get("fileName") or "file"), f"a message has at most {_MOST} files"))
    return paths


async def _saved(module: Module, one: Mapping[str, Any], name: str) -> str:
    data = one.get("base64Data")
    if not data:
        path = str(one.get("filePath") or "").strip("/")
        if not path or not await module.vault.exists(path):
            raise ValueError("there is no such file in the vault")
        return path
    if len(data) > _LARGEST * 4 // 3 + 4:
        raise ValueError(f"it is larger than {_LARGEST >> 20} MB")
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


def _warning(name: str, why: str) -> Event:
    return {
        "type": "warning",
        "code": "attachment_save_failed",
        "title": "A file was left out",
        "message": f"{name[:200]}: {why}",
        "details": [],
    }
