#!/usr/bin/env bash
# Guess: four readers of WebVTT and SRT, the formats that recorders and meetings give, agree on what was said and by whom.
# Seen: of `<v Ann>Tom &amp; Jerry</v>` pycaption makes "Ann: Tom & Jerry"; webvtt-py has the voice apart and keeps `&amp;`; pysubs2
#   keeps `&amp;`, and the voice is in no field and in nothing that it writes. In SRT pysubs2 takes `\n` and `\N` of a text for line
#   ends: "C:\new\Notes" becomes three lines, also after a save. A cue with an empty line, a number and an empty line in it (which
#   srt, pysubs2 and webvtt-py read as one cue, the last without its empty lines) ends pycaption's reading with an error.
# Why it matters: a transcript that becomes a journal entry loses who spoke, or shows `&amp;`. Unescape after webvtt-py; never
#   write a transcript back through pysubs2.
source "$(dirname "$0")/support/common.sh"
python_packages webvtt-py==0.6.0 pysubs2==1.8.1 srt==3.5.3 pycaption==2.3.14

cat >"$work/run.py" <<'X'
import io

import pycaption
import pysubs2
import srt
import webvtt

talk = "WEBVTT\n\n00:01.000 --> 00:02.000\n<v Ann>Tom &amp; Jerry</v>\n"
path = "1\n00:00:01,000 --> 00:00:02,000\nC:\\new\\Notes\n"
year = "1\n00:00:01,000 --> 00:00:02,000\nIn the year\n\n1984\n\nit was\n"


def by_pycaption(reader, text):
    try:
        captions = reader().read(text)
    except pycaption.CaptionReadError as error:
        return type(error).__name__
    return [each.get_text() for each in captions.get_captions(captions.get_languages()[0])]


def by_pysubs2(text):
    read = pysubs2.SSAFile.from_string(text)
    return [each.plaintext for each in read]


print("talk:")
print("  webvtt-py", [(each.voice, each.text) for each in webvtt.from_buffer(io.StringIO(talk))])
print("  pysubs2", by_pysubs2(talk), "writes", pysubs2.SSAFile.from_string(talk).to_string("vtt").split("\n")[-3:])
print("  pycaption", by_pycaption(pycaption.WebVTTReader, talk))
for name, text in {"path": path, "year": year}.items():
    print(f"{name}:")
    print("  srt", [each.content for each in srt.parse(text)])
    print("  webvtt-py", [each.text for each in webvtt.from_buffer(io.StringIO(text), format="srt")])
    print("  pysubs2", by_pysubs2(text))
    print("  pycaption", by_pycaption(pycaption.SRTReader, text))
X
"$python" "$work/run.py" | tee "$work/out"
cat >"$work/expected" <<'X'
talk:
  webvtt-py [('Ann', 'Tom &amp; Jerry')]
  pysubs2 ['Tom &amp; Jerry'] writes ['Tom &amp; Jerry', '', '']
  pycaption ['Ann: Tom & Jerry']
path:
  srt ['C:\\new\\Notes']
  webvtt-py ['C:\\new\\Notes']
  pysubs2 ['C:\new\notes']
  pycaption ['C:\\new\\Notes']
year:
  srt ['In the year\n\n1984\n\nit was']
  webvtt-py ['In the year\n1984\nit was']
  pysubs2 ['In the year\n\n1984\n\nit was']
  pycaption CaptionReadSyntaxError
X
diff "$work/expected" "$work/out" || changed "see the lines above"
