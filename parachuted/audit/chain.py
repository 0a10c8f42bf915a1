"""Audit chain: an event as a line that holds the hash of the line before, so that a later change
shows.

A line's hash is the SHA-256 of the line as it would be without it, byte for byte.
"""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from functools import lru_cache
from hashlib import sha256
from math import isfinite
from typing import Literal, NamedTuple, Protocol, TypeAlias, get_args

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
# each secret holds one of these; most paths hold none, and looking for them is a tenth of the time
_MARKS = ("para_", "sk-", "gh", "glpat-", "xox", "IA", "AIza", "eyJ", "-----", *":=%+")
_UNSEEN = re.compile(
    r"[\x00-\x1f\x7f-\x9f\xad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\uffff\ud800-\udfff\U000e0000-\U000e0fff]"
)
_BYTE = range(0xDC80, 0xDD00)
_LONG = 256
_MARGIN = 512


def clean(text: str, most: int) -> str:
    """At most `most` characters of the text, with secrets removed and invisible characters escaped
    as in a Python string.
    """
    return _short(text, most) if len(text) <= _LONG else _clean(text, most)


def clean_all(texts: Sequence[str], most: int, most_texts: int) -> list[str]:
    """The same for the first of several texts."""
    return [clean(text, most) for text in texts[:most_texts]]


def _clean(text: str, most: int) -> str:
    """What follows the window may be the rest of a secret, so a text that shrank is shown only up
    to half the window.
    """
    window = text[: most + 2 * _MARGIN]
    cleaned = _SECRETS.sub(SECRET, window) if _may_hold_secret(window) else window
    if not (cleaned.isascii() and cleaned.isprintable()):
        cleaned = _UNSEEN.sub(_escaped, cleaned)
    if len(window) < len(text) and SECRET in cleaned:
        cleaned = cleaned[:-_MARGIN]
    return cleaned if len(cleaned) <= most else f"{cleaned[: most - 1]}…"


def _may_hold_secret(text: str) -> bool:
    if not (text.isascii() and text.isprintable()):
        return True
    if any(mark in text for mark in _MARKS):
        return True
    return " " in text and any(word in text.lower() for word in ("bearer", "basic"))


_short = functools.lru_cache(maxsize=8192)(
    _clean
)  # routes, names of keys and modules come again and again


def _escaped(found: re.Match[str]) -> str:
    code = ord(found[0])
    if code in _BYTE:
        return f"\\x{code - 0xDC00:02x}"
    if code <= 0xFF:  # noqa: PLR2004
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"  # noqa: PLR2004


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
    """One thing that happened: first the fields of the specification, then ours.

    `duration_ms` is in milliseconds, `paths` are of the vault, `names` the values of a route's
    placeholders, `before` and `after` digests of a write, `write` the number of its record in the
    history. A named tuple, because one is made for each call.
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

    def record(self, event: AuditEvent) -> None:
        """Keep one."""


class NullAuditRecorder:
    refusal: str | None = None

    def record(self, event: AuditEvent) -> None:
        """Let it go."""


MOST_LINE_BYTES = 128 << 10
_ID, _ENDPOINT, _ERROR, _PATH = 200, 300, 300, 512
_MOST_PATHS, _MOST_IDS, _MOST_NAMES = 20, 32, 8
_DIGITS, _PLAIN = 19, 40
_DIGEST = re.compile(r"[0-9a-f]{64}")  # which holds no secret, and never comes twice
_TAIL = re.compile(rb',"hash":"([0-9a-f]{64})"\}\Z')
_encode = json.JSONEncoder(
    ensure_ascii=False, separators=(",", ":"), check_circular=False, allow_nan=False
).encode


class ChainPosition(NamedTuple):
    """The number of a line and its hash."""

    seq: int
    hash: str


START = ChainPosition(0, "0" * 64)


class AuditLine(NamedTuple):
    """A line that was read. `is_sound`: its hash matches its bytes."""

    link: ChainPosition
    prev: str
    is_sound: bool
    document: dict[str, object]


def line_of(event: AuditEvent, before: ChainPosition) -> tuple[bytes, ChainPosition]:
    """The line, with its end, and its position in the chain.

    Built from JSON pieces, since a busy daemon writes thousands a second: a fifth of the time.
    """
    at, duration = event.timestamp, event.duration_ms
    moment = (at if at.tzinfo is UTC else at.astimezone(UTC)).isoformat(timespec="microseconds")[
        :-6
    ]
    body = (
        f'{{"seq":{before.seq + 1},"timestamp":"{moment}Z",{_target(*event[1:6])},"para_ids_involved":'  # noqa: E501
        f"{_encode(clean_all(event.para_ids_involved, _ID, _MOST_IDS)) if event.para_ids_involved else '[]'},"  # noqa: E501
        f'"duration_ms":{round(duration, 3) if isfinite(duration) else 0.0},{_outcome(event.success, event.error, event.status)}'  # noqa: E501
        f'{_ours(event)},"prev":"{before.hash}"}}'
    ).encode()
    digest = sha256(body).hexdigest()
    return body[:-1] + f',"hash":"{digest}"}}\n'.encode(), ChainPosition(before.seq + 1, digest)


def read_line(raw: bytes) -> AuditLine | None:
    """Parse a line without its end; None when it is not one of the audit's."""
    found = _TAIL.search(raw, max(0, len(raw) - 80)) if len(raw) <= MOST_LINE_BYTES else None
    if found is None:
        return None
    try:
        document = json.loads(raw)
    except (ValueError, RecursionError):
        return None
    if not isinstance(document, dict):
        return None
    seq, prev, digest = document.get("seq"), document.get("prev"), document.get("hash")
    if not (
        type(seq) is int
        and 0 < seq < 10**_DIGITS
        and isinstance(prev, str)
        and isinstance(digest, str)
    ):
        return None
    body = sha256(raw[: found.start()] + b"}").hexdigest()
    return AuditLine(
        link=ChainPosition(seq, digest),
        prev=prev,
        is_sound=body == digest == found[1].decode(),
        document=document,
    )


@lru_cache(maxsize=4096)
def _target(kind: str, source_type: str, source_id: str, module: str, endpoint: str) -> str:
    """Cached, since the same few come again and again."""
    named = {"event_type": kind, "source_type": source_type, "source_id": clean(source_id, _ID)}
    return _encode(
        {
            **named,
            "target_module": clean(module, _ID),
            "target_endpoint": clean(endpoint, _ENDPOINT),
        }
    )[1:-1]


@lru_cache(maxsize=4096)
def _outcome(success: bool, error: str | None, status: int | None) -> str:  # noqa: FBT001  a value to tell
    outcome = {"success": success, "error": clean(error, _ERROR) if error is not None else None}
    return _encode(outcome if status is None else {**outcome, "status": status})[1:-1]


def _ours(event: AuditEvent) -> str:
    """Our own fields that have a value, each with a comma before it."""
    asked = event.request_id
    said = (
        f',"request_id":"{asked}"'
        if asked is not None and len(asked) <= _PLAIN and asked.isascii() and asked.isalnum()
        else ""
    )
    if not said or event.run or event.before or event.after or event.write or event.details:
        document = _document(event, "" if said else asked)
        said += f",{_encode(document)[1:-1]}" if document else ""
    if not (event.paths or event.names or event.causes):
        return said
    for name, several, most, most_texts in (
        ("paths", event.paths, _PATH, _MOST_PATHS),
        ("names", event.names, _ID, _MOST_NAMES),
        ("causes", event.causes, _ID, _MOST_NAMES),
    ):
        if several:
            said += f',"{name}":{_listed(tuple(several[:most_texts]), most)}'
            said += f',"{name}_count":{len(several)}' if len(several) > most_texts else ""
    return said


@lru_cache(maxsize=4096)
def _listed(texts: tuple[str, ...], most: int) -> str:
    """Cached, since the same note is asked for again and again."""
    return _encode(clean_all(texts, most, len(texts)))


def _document(event: AuditEvent, request_id: str | None) -> dict[str, object]:
    texts = (
        ("request_id", request_id or None),
        ("run", event.run),
        ("before", event.before),
        ("after", event.after),
    )
    document: dict[str, object] = {
        name: text if _DIGEST.fullmatch(text) else clean(text, _ID)
        for name, text in texts
        if text is not None
    }
    if event.write is not None:
        document["write"] = event.write
    if event.details:
        document["details"] = {
            name: clean(value, _ERROR) if isinstance(value, str) else value
            for name, value in event.details.items()
        }
    return document
