"""`Daily/ids.jsonl`, where the existing app writes which id it gave to what, one object a line.

Pure. It only helps to find an entry of an older file; it is never the only record.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Final

from .entry import short_id

PATH: Final = "Daily/ids.jsonl"
_PLACE = "Daily/"


def read_ids(text: str) -> Mapping[str, str]:
    """The file of each entry by its id, in lower case; lines that say none are left out."""
    found: dict[str, str] = {}
    for line in text.splitlines():
        try:
            one = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if not isinstance(one, dict) or one.get("type") in {"message", "asset", "session"}:
            continue
        name, path = one.get("id"), one.get("path")
        if isinstance(name, str) and isinstance(path, str) and path:
            _, _, below = path.replace("\\", "/").rpartition(_PLACE)
            found[short_id(name)] = _PLACE + below
    return found
