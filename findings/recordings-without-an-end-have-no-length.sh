#!/usr/bin/env bash
# Guess: the length that mutagen, tinytag or the container's header give of a phone's or a browser's recording is about right, or
# is None where the file does not tell.
# Seen (a tone of 3 seconds, and what PyAV decodes is 3 seconds each time): a recorder that streams leaves the length out, and the
#   libraries do not say so. Of a fragmented .m4a mutagen and tinytag tell 0.0; of a streamed .wav both tell
#   12 hours; of a streamed .flac both tell 0.0; of raw .aac tinytag tells 0.1. A streamed .webm is no file that either
#   knows, and its header has no duration.
# Why it matters: "shorter than half a second, nothing was said" throws a recording away, and "longer than ten hours, refuse it" a
#   voice memo. Count what is decoded, and take a header's length for no more than a first hint.
source "$(dirname "$0")/support/common.sh"
python_packages av==18.1.0 numpy==2.4.6 mutagen==1.48.1 tinytag==2.3.2

cat >"$work/run.py" <<'X'
import io, pathlib, sys

import av
import mutagen
import numpy
import tinytag

RATE, folder = 48000, pathlib.Path(sys.argv[1])
tone = (numpy.sin(numpy.arange(3 * RATE) / 20) * 9000).astype(numpy.int16)
FRAGMENTS = {"movflags": "frag_keyframe+empty_moov+default_base_moof"}

class Pipe(io.RawIOBase):
    """What a recorder that streams has: it can write, and go back to nothing."""

    def __init__(self, path):
        self.file = path.open("wb")

    def writable(self):
        return True

    def write(self, data):
        return self.file.write(data)

def record(path, codec, form, options=None, streamed=False):
    pipe = Pipe(path)
    with av.open(pipe if streamed else str(path), "w", format=form, options=options or {}) as container:
        stream = container.add_stream(codec, rate=RATE, layout="mono")
        for at in range(0, len(tone), 960):
            frame = av.AudioFrame.from_ndarray(tone[None, at : at + 960], format="s16", layout="mono")
            frame.sample_rate, frame.pts = RATE, at
            container.mux(stream.encode(frame))
        container.mux(stream.encode(None))
    pipe.file.close()

def length(call):
    try:
        value = call()
    except Exception as error:
        return type(error).__name__
    return "none" if value is None else f"{value:.1f}"

for path, codec, form, options, streamed in (
    ("whole.m4a", "aac", "mp4", None, False), ("fragments.m4a", "aac", "mp4", FRAGMENTS, False),
    ("whole.wav", "pcm_s16le", "wav", None, False), ("streamed.wav", "pcm_s16le", "wav", None, True),
    ("whole.flac", "flac", "flac", None, False), ("streamed.flac", "flac", "flac", None, True),
    ("raw.aac", "aac", "adts", None, False), ("streamed.webm", "libopus", "webm", None, True)):
    path = folder / path
    record(path, codec, form, options, streamed)
    with av.open(str(path)) as container:
        header = None if container.duration is None else container.duration / av.time_base
        decoded = sum(frame.samples for frame in container.decode(audio=0)) / RATE
    def by_mutagen():
        file = mutagen.File(path)
        return None if file is None else file.info.length
    print(f"{path.name}: decoded {decoded:.1f}, header {length(lambda: header)}, mutagen {length(by_mutagen)}, "
          f"tinytag {length(lambda: tinytag.TinyTag.get(path).duration)}")
X
mkdir "$work/files"
"$python" "$work/run.py" "$work/files" 2>"$work/log" | tee "$work/out"
cat >"$work/expected" <<'X'
whole.m4a: decoded 3.0, header 3.0, mutagen 3.0, tinytag 3.0
fragments.m4a: decoded 3.0, header 3.0, mutagen 0.0, tinytag 0.0
whole.wav: decoded 3.0, header 3.0, mutagen 3.0, tinytag 3.0
streamed.wav: decoded 3.0, header 3.0, mutagen 44739.2, tinytag 44739.2
whole.flac: decoded 3.0, header 3.0, mutagen 3.0, tinytag 3.0
streamed.flac: decoded 3.0, header none, mutagen 0.0, tinytag 0.0
raw.aac: decoded 3.0, header 3.0, mutagen 3.0, tinytag 0.1
streamed.webm: decoded 3.0, header none, mutagen none, tinytag UnsupportedFormatError
X
diff "$work/expected" "$work/out" || changed "see the lines above"
