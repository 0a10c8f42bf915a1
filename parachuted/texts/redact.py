"""Redact: removes secrets from texts: known ones, and what has the shape of one."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable

SHOWN = "[secret]"
_SHORTEST = 8
_SHAPES = re.compile(
    r"((?<![A-Za-z0-9])sk-[A-Za-z0-9_-]{12,})"
    r"|(\bpara_[A-Za-z0-9_]{16,})"
    r"|(://)[^/\s]+@"
    r"|((?i:\bbearer)\s+)[A-Za-z0-9._~+/=-]{8,}"
    r"|((?i:x-api-key|authorization)\\?[\"']?\s*[:=]\s*\\?[\"']?)(?!(?i:bearer)\s)[^\s\"',;}]{8,}"
    r"|(\\?\"(?:access|refresh)_?[tT]oken\\?\"\s*:\s*\\?\")[^\"\\]+"
)


def redact(text: str, secrets: Iterable[str] = ()) -> str:
    """`text` without these secrets, and without what looks like a key, a token or its header."""
    for secret in secrets:
        if len(secret) >= _SHORTEST:
            text = text.replace(secret, SHOWN)
    return _SHAPES.sub(_replaced, text)


def _replaced(match: re.Match[str]) -> str:
    kept = next((group for group in match.groups()[2:] if group is not None), "")
    return kept + SHOWN + ("@" if kept == "://" else "")


class RedactedLines(logging.Formatter):
    def __init__(self, lines: logging.Formatter) -> None:
        super().__init__()
        self._lines = lines

    def format(self, record: logging.LogRecord) -> str:
        return redact(self._lines.format(record))
