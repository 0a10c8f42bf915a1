"""Reads an answer's token usage while it streams through, without storing the answer."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeGuard

from parachuted.agents.gateway.prices import Tokens
from parachuted.agents.gateway.refusals import ERROR_EVENT

_LONGEST_LINE = 4 << 20
_LONGEST_JSON = 32 << 20
_MOST_TOKENS = 1_000_000_000
_EMPTY_DELTA = 90  # the bytes of a `content_block_delta` that are no text
_BYTES_A_TOKEN = 3  # a token of English is about four: what is cut off is rather counted too high
_NAME_CHARS = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class MeterReading:
    """What was read.

    `is_whole`: the answer was ended by its server; else `tokens.output` is at least what passed by.
    """

    model: str
    tokens: Tokens
    is_whole: bool
    speed: str = ""
    place: str = ""


class Meter:
    """One answer's. `feed` it the pieces in order, whatever their borders, then `read`."""

    def __init__(self, content_type: str) -> None:
        self._is_stream = content_type.partition(";")[0].strip().lower() == "text/event-stream"
        self._rest = bytearray()
        self._passes_over = False
        self._usage: dict[str, object] = {}
        self._model = ""
        self._passed = 0
        self._has_begun = self._has_ended = self._has_failed = False

    def feed(self, piece: bytes) -> None:
        """Take in what passes."""
        if not self._is_stream:
            self._passed += len(piece)
            if self._passed <= _LONGEST_JSON:
                self._rest += piece
            return
        lines = piece.split(b"\n")
        for line in lines[:-1]:
            self._rest += line
            if not self._passes_over:
                self._take(bytes(self._rest))
            self._passes_over = False
            self._rest.clear()
        self._rest += lines[-1]
        if len(self._rest) > _LONGEST_LINE:  # no line that tells of usage is so long
            self._passed += len(self._rest)
            self._passes_over = True
            self._rest.clear()

    def read(self) -> MeterReading:
        """What has been read until now."""
        if not self._is_stream:
            self._take_message(_document(bytes(self._rest)))
            self._has_ended = _is_count(self._usage.get("output_tokens"))
        usage, output = self._usage, _count(self._usage.get("output_tokens"))
        is_cut = not self._has_ended and (self._has_begun or self._passed > 0)
        written, hour = _count(usage.get("cache_creation_input_tokens")), 0
        if isinstance(kinds := usage.get("cache_creation"), Mapping):
            hour = min(written, _count(kinds.get("ephemeral_1h_input_tokens")))
        tools = usage.get("server_tool_use")
        tokens = Tokens(
            input=_count(usage.get("input_tokens")),
            output=max(output, self._passed // _BYTES_A_TOKEN) if is_cut else output,
            cache_read=_count(usage.get("cache_read_input_tokens")),
            cache_write_5m=written - hour,
            cache_write_1h=hour,
            searches=_count(tools.get("web_search_requests")) if isinstance(tools, Mapping) else 0,
        )
        speed, place = _name(usage.get("speed")), _name(usage.get("inference_geo"))
        return MeterReading(
            model=self._model,
            tokens=tokens,
            is_whole=self._has_ended or self._has_failed,
            speed=speed,
            place=place,
        )

    def _take(self, line: bytes) -> None:
        self._has_failed = self._has_failed or line.startswith(ERROR_EVENT)
        if not line.startswith(b"data:"):
            return
        if b'"usage"' not in line:
            self._passed += max(1, len(line) - _EMPTY_DELTA) if b"_delta" in line else 0
            return
        event = _document(line[len(b"data:") :])
        kind = event.get("type")
        if kind == "message_start":
            self._has_begun = True
            message = event.get("message")
            self._take_message(message if isinstance(message, Mapping) else {})
        elif kind == "message_delta":
            usage = event.get("usage")
            self._take_usage(usage)
            self._has_ended = isinstance(usage, Mapping) and _is_count(usage.get("output_tokens"))
        else:
            self._passed += max(1, len(line) - _EMPTY_DELTA)  # a text that speaks of usage

    def _take_message(self, message: Mapping[str, object]) -> None:
        self._model = _name(message.get("model")) or self._model
        self._take_usage(message.get("usage"))

    def _take_usage(self, usage: object) -> None:
        """Later figures are those of the whole answer until then."""
        if isinstance(usage, Mapping):
            self._usage |= {str(name): value for name, value in usage.items() if value is not None}


def _document(data: bytes) -> Mapping[str, object]:
    try:
        document = json.loads(data)
    except (ValueError, RecursionError):
        return {}
    return document if isinstance(document, dict) else {}


def _count(value: object) -> int:
    """A server that is not Anthropic's may say anything."""
    return min(value, _MOST_TOKENS) if _is_count(value) else 0


def _is_count(value: object) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _name(value: object) -> str:
    return value[:_NAME_CHARS] if isinstance(value, str) else ""
