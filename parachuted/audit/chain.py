"""Audit chain: an event as a line that holds the hash of the line before, so that a later change
shows. A line's hash is the SHA-256 of the line as it would be without it, byte for byte.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import lru_cache
from hashlib import sha256
from math import isfinite
from typing import Literal, NamedTuple, Protocol, TypeAlias, get_args

import orjson

from parachuted.texts.times import time_of
from parachuted.vault import SourceType

SECRET = "[secret]"  # noqa: S105  what stands in a secret's place
_SECRETS = re.compile(
    r"""
    para_[A-Za-z0-9_-]{20,}                                                # a key of ours
    | sk-[A-Za-z0-9_-]{12,} | gh[pousr]_[A-Za-z0-9]{20,} | github_pat_\w{20,} | glpat-[\w-]{16,}
    | xox[abeprs]-[A-Za-z0-9-]{10,} | A(?:KI|SI)A[0-9A-Z]{16} | AIza[0-9A-Za-z_-]{30,}
    | \d{6,12}:[A-Za-z0-9_-]{30,}                                          # a bot's
    | eyJ[\w-]{8,}\.[\w-]{4,}\.[\w-]*                                      # a signed token
    | (?i:bearer)[\s+%:=]+(?:20)?[^\s"',;&]{8,} | (?i:basic)\s+[A-Za-z0-9+/]{12,}={0,2}
    | (?i:authorization|x-api-key|api[_-]?key|access[_-]?key|token|passw(?:or)?d|secret|credential)s?["']?\s*[:=]\s*["']?[^\s"',;&]+
    | -----BEGIN[^-]{0,40}PRIVATE\ KEY.*
    """,  # noqa: E501
    re.VERBOSE | re.DOTALL,
)
_UNSEEN = re.compile(
    r"[\x00-\x1f\x7f-\x9f\xad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\uffff\ud800-\udfff\U000e0000-\U000e0fff]"
)
_BYTE = range(0xDC80, 0xDD00)
_MARGIN = 512


def clean(text: str, most: int) -> str:
    """At most `most` characters, secrets removed and invisible characters escaped as in Python."""
    if len(text) <= most and text.isascii() and text.isalnum() and text.islower():
        return text  # such as an id or a digest, which no secret looks like
    window = text[: most + 2 * _MARGIN]
    return _clean(window, most, is_cut=len(window) < len(text))


@lru_cache(maxsize=8192)  # names of routes, keys and notes are the same again and again
def _clean(window: str, most: int, *, is_cut: bool) -> str:
    """What follows the window may be the rest of a secret, so next to one the margin is cut."""
    cleaned = _SECRETS.sub(SECRET, window)
    if not (cleaned.isascii() and cleaned.isprintable()):
        cleaned = _UNSEEN.sub(_escaped, cleaned)
    if is_cut and SECRET in cleaned:
        cleaned = cleaned[:-_MARGIN]
    return cleaned if len(cleaned) <= most else f"{cleaned[: most - 1]}…"


def _escaped(match: re.Match[str]) -> str:
    code = ord(match[0])
    if code in _BYTE:
        code -= _BYTE.start - 0x80
    kind = "x02" if code <= 0xFF else "u04" if code <= 0xFFFF else "U08"  # noqa: PLR2004
    return f"\\{kind[0]}{code:{kind[1:]}x}"


EventType: TypeAlias = Literal[
    "api_call",
    "mcp_call",
    "module_call",
    "agent_start",
    "agent_end",
    "suggestion",
    "write",
    "audit",
]
EVENT_TYPES: tuple[EventType, ...] = get_args(EventType)


class AuditEvent(NamedTuple):
    """`duration_ms` is in milliseconds, `names` are the values of a route's placeholders, `before`
    and `after` digests, `write` the number of a write's record in the history.
    """

    timestamp: datetime
    event_type: EventType
    source_type: SourceType
    source_id: str
    target_module: str
    target_endpoint: str
    para_ids_involved: Sequence[str] = ()
    duration_ms: float = 0.0
    success: bool = True
    error: str | None = None
    request_id: str | None = None
    status: int | None = None
    paths: Sequence[str] = ()
    names: Sequence[str] = ()
    causes: Sequence[str] = ()
    run: str | None = None
    before: str | None = None
    after: str | None = None
    write: int | None = None
    details: Mapping[str, str | int | bool] | None = None


class AuditRecorder(Protocol):
    """Takes audit events, from any thread. Never blocks and never raises."""

    refusal: str | None
    """Why nothing may be changed just now, since it could not be recorded; None while it can."""

    def record(self, event: AuditEvent) -> None: ...


class NullAuditRecorder:
    refusal: str | None = None

    def record(self, event: AuditEvent) -> None: ...


MOST_LINE_BYTES = 128 << 10
_ID, _TEXT, _PATH = 200, 300, 512
_MOST_TEXTS = {"para_ids_involved": 32, "paths": 20, "names": 8, "causes": 8}
_MOST = dict.fromkeys(("para_ids_involved", "status", "request_id", "run", "before", "after"), _ID)
_MOST |= {"write": 0, "details": _TEXT, "paths": _PATH, "names": _ID, "causes": _ID}
_MOST_SEQ = 10**19
_TAIL = re.compile(rb',"hash":"([0-9a-f]{64})"\}\Z')


class ChainPosition(NamedTuple):
    seq: int
    hash: str


START = ChainPosition(0, "0" * 64)


class ChainLine(NamedTuple):
    """`is_sound`: its hash matches its bytes."""

    link: ChainPosition
    prev: str
    is_sound: bool
    document: dict[str, object]


def stamp(moment: datetime) -> str:
    """A moment as the lines have it, so that texts sort as moments do."""
    return time_of(moment, "microseconds")


def line_of(event: AuditEvent, before: ChainPosition) -> tuple[bytes, ChainPosition]:
    document: dict[str, object] = {
        "seq": before.seq + 1,
        "timestamp": stamp(event.timestamp),
        "event_type": event.event_type,
        "source_type": event.source_type,
        "source_id": clean(event.source_id, _ID),
        "target_module": clean(event.target_module, _ID),
        "target_endpoint": clean(event.target_endpoint, _TEXT),
        "para_ids_involved": [],
        "duration_ms": round(event.duration_ms, 3) if isfinite(event.duration_ms) else 0.0,
        "success": event.success,
        "error": None if event.error is None else clean(event.error, _TEXT),
    }
    for name, most in _MOST.items():
        value = getattr(event, name)
        if name in _MOST_TEXTS and value:
            document[name] = [clean(text, most) for text in value[: _MOST_TEXTS[name]]]
            if len(value) > _MOST_TEXTS[name]:
                document[f"{name}_count"] = len(value)
        elif name == "details" and value:
            document[name] = {
                key: clean(said, most) if isinstance(said, str) else said
                for key, said in value.items()
            }
        elif value or value == 0:
            document[name] = clean(value, most) if isinstance(value, str) else value
    document["prev"] = before.hash
    body = orjson.dumps(document)
    link = ChainPosition(before.seq + 1, sha256(body).hexdigest())
    return body[:-1] + f',"hash":"{link.hash}"}}\n'.encode(), link


def read_line(raw: bytes) -> ChainLine | None:
    """Parse a line without its end; None when it is not one of the audit's."""
    match = _TAIL.search(raw, max(0, len(raw) - 80)) if len(raw) <= MOST_LINE_BYTES else None
    if match is None:
        return None
    try:
        document = orjson.loads(raw)
    except (ValueError, RecursionError):
        return None
    seq, prev = document.get("seq"), document.get("prev")
    if type(seq) is not int or not 0 < seq < _MOST_SEQ or not isinstance(prev, str):
        return None
    digest = match[1].decode()
    is_sound = digest == sha256(raw[: match.start()] + b"}").hexdigest()
    return ChainLine(ChainPosition(seq, digest), prev, is_sound, document)
