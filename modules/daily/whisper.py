"""`python whisper.py MODEL AUDIO`: the engine `whisper`, with the model in that folder."""

from __future__ import annotations

import sys
from pathlib import Path


def main(model: str, audio: str) -> None:
    if not Path(model).is_dir():
        sys.exit(f"there is no model in {model}: set `transcription.model` to its folder")
    try:
        from faster_whisper import WhisperModel  # noqa: PLC0415  in the extra alone
    except ImportError:
        sys.exit("faster-whisper is missing: pip install 'parachuted[transcribe]'")
    whisper = WhisperModel(model, device="cpu", compute_type="int8", local_files_only=True)
    segments, _ = whisper.transcribe(audio, condition_on_previous_text=False, vad_filter=True)
    sys.stdout.write(" ".join(segment.text.strip() for segment in segments))


if __name__ == "__main__":
    main(*sys.argv[1:3])
