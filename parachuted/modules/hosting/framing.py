"""Frames on the pipe between the daemon and a module host: JSON, or an answer of bytes, with a
bounded length.

Both ends call and answer, many at once. The reader trusts nothing: a frame that is too long or of
unknown shape is an error.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Annotated, Literal, TypeAlias

from pydantic import ConfigDict, Field, TypeAdapter, ValidationError
from pydantic.dataclasses import dataclass

from parachuted.errors import ModuleFailedError
from parachuted.json_limits import check_json
from parachuted.modules.results import WrongResultError, to_json

MOST_BYTES = 8 * 1024 * 1024
MOST_ASKED_VALUES = (
    20_000  # in an ask: it is checked, passed on and told by code that runs on the loop
)
PER_SECOND = 2_000.0
MOST_SAVED = 20_000.0
_PER_PARSING_SECOND = (
    8_000.0  # so that a process has at most a quarter of one processor's time read its frames
)
_BY_VERB: Mapping[str, float] = MappingProxyType(
    {"publish": 20.0}
)  # everyone who hears of it does something
_HEAD = struct.Struct(">I")
_BYTES, _BYTES_HEAD = b"\0", struct.Struct(">cQ")
_STRICT = ConfigDict(defer_build=True, extra="forbid", strict=True)


class WireError(ModuleFailedError):
    """Data on the pipe is not a valid frame."""


@dataclass(frozen=True, slots=True, kw_only=True, config=_STRICT)
class AskFrame:
    """A call.

    `of`, set only by a module host, is the daemon's call on whose behalf it is made.
    """

    kind: Literal["ask"] = "ask"
    id: int
    verb: str
    body: Mapping[str, object]
    of: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True, config=_STRICT)
class AnswerFrame:
    """It is done. `value` is JSON, or bytes."""

    kind: Literal["answer"] = "answer"
    id: int
    value: object = None


@dataclass(frozen=True, slots=True, kw_only=True, config=_STRICT)
class RefusalFrame:
    """It is not done.

    `error` names the class, `details` is what that class needs beside its message.
    """

    kind: Literal["refusal"] = "refusal"
    id: int
    error: str
    message: str
    details: Mapping[str, object] = Field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True, config=_STRICT)
class CancelFrame:
    """The caller does not wait for that answer any more."""

    kind: Literal["cancel"] = "cancel"
    id: int


@dataclass(frozen=True, slots=True, kw_only=True, config=_STRICT)
class EndedFrame:
    """Nothing is done on behalf of that ask of the daemon any more: its last task has ended."""

    kind: Literal["ended"] = "ended"
    id: int


@dataclass(frozen=True, slots=True, kw_only=True, config=_STRICT)
class LogFrame:
    """A line for the log."""

    kind: Literal["said"] = "said"
    level: int
    text: str


Frame: TypeAlias = AskFrame | AnswerFrame | RefusalFrame | CancelFrame | EndedFrame | LogFrame
_FRAMES: TypeAdapter[Frame] = TypeAdapter(
    Annotated[Frame, Field(discriminator="kind")], config=ConfigDict(extra="forbid")
)


def pack(frame: Frame) -> bytes:
    """The frame as bytes; raises WireError if it is too long, holds too much, or what JSON
    has not.
    """
    try:
        text = _text(frame)
    except (ValueError, TypeError, RecursionError) as error:
        raise WireError(f"this cannot be sent to or from a module's process: {error}") from error
    if len(text) > MOST_BYTES:
        raise WireError(
            f"{len(text)} bytes are more than the {MOST_BYTES} that may be sent to or from a "
            "module's process at once"
        )
    return _HEAD.pack(len(text)) + text


def _text(frame: Frame) -> bytes:
    if isinstance(frame, AnswerFrame) and isinstance(frame.value, bytes):
        return _BYTES_HEAD.pack(_BYTES, frame.id) + frame.value
    text = _FRAMES.dump_json(frame)
    _check_values(frame, check_json(text))
    return text


class Unpacker:
    """Makes frames of bytes as they come."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def texts(self, data: bytes) -> Iterator[bytes]:
        """The texts of the frames that are whole now, not yet parsed; raises WireError."""
        self._buffer += data
        while len(self._buffer) >= _HEAD.size:
            (length,) = _HEAD.unpack_from(self._buffer)
            if length > MOST_BYTES:
                raise WireError(f"a frame of {length} bytes is longer than {MOST_BYTES}")
            end = _HEAD.size + length
            if len(self._buffer) < end:
                return
            text = bytes(self._buffer[_HEAD.size : end])
            del self._buffer[:end]
            yield text

    def feed(self, data: bytes) -> Iterator[Frame]:
        """The frames that are whole now; raises WireError."""
        return map(parse_frame, self.texts(data))


def parse_frame(text: bytes) -> Frame:
    """The frame; raises WireError.

    Its size was checked, what it holds is checked here before it is parsed.
    """
    if text.startswith(_BYTES):
        return _bytes_frame(text)
    try:
        values = check_json(text)
        frame = _FRAMES.validate_json(text)
        _check_values(frame, values)
        to_json(
            frame.body
            if isinstance(frame, AskFrame)
            else frame.value
            if isinstance(frame, AnswerFrame)
            else None
        )  # NaN and the like are none
        return frame  # noqa: TRY300  the errors of all are one
    except WrongResultError as error:
        raise WireError(f"a frame holds what JSON has not: {error}") from error
    except ValidationError as error:
        raise WireError(
            f"a frame is invalid: {error.errors(include_url=False, include_input=False)[0]['msg']}"
        ) from error
    except ValueError as error:
        raise WireError(f"a frame holds too much: {error}") from error


def _bytes_frame(text: bytes) -> AnswerFrame:
    if len(text) < _BYTES_HEAD.size:
        raise WireError("a frame of bytes has no number")
    _, asked = _BYTES_HEAD.unpack_from(text)
    return AnswerFrame(id=asked, value=text[_BYTES_HEAD.size :])


def _check_values(frame: Frame, values: int) -> None:
    if isinstance(frame, AskFrame) and values > MOST_ASKED_VALUES:
        raise ValueError(
            f"what is asked holds more than {MOST_ASKED_VALUES:,} values; send it in parts"
        )


def cost_of(frame: Frame, parsed_s: float) -> float:
    """What a frame costs. `parsed_s`: the processor's time that parsing it took, in seconds."""
    return (
        _BY_VERB.get(frame.verb, 1.0) if isinstance(frame, AskFrame) else 1.0
    ) + parsed_s * _PER_PARSING_SECOND


class FrameBudget:
    """How fast a module host may send; one that floods its pipe delays only itself.

    Each frame has a cost, by the work that it causes, taken from a budget that refills steadily.
    When it is used up, the pipe is not read until there is enough again, so the process blocks at
    its next write. Times are seconds of a monotonic clock.
    """

    def __init__(
        self, now: float, *, per_second: float = PER_SECOND, most_saved: float = MOST_SAVED
    ) -> None:
        self._per_second, self._most_saved = per_second, most_saved
        self._saved, self._at = most_saved, now

    def spend(self, cost: float, now: float) -> float:
        """Take that much; how many seconds to wait until it was there."""
        self._saved = (
            min(self._saved + max(now - self._at, 0.0) * self._per_second, self._most_saved) - cost
        )
        self._at = now
        return max(-self._saved / self._per_second, 0.0)
