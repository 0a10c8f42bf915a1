#!/usr/bin/env bash
# Guess: readers of `My Clippings.txt`, where a Kindle keeps what its reader marked and wrote, give a note back whole, with its page and
#   its author: an entry is a title line, a line of where and when, an empty line and the text, up to a line of ten `=`.
# Seen: two of four readers keep the first line of a note of two and drop the other without a word (kindle-clippy, myclippings). kclip
#   finds no page where the device writes `page 12 | Location 180-182`. myclippings takes the last hyphen of the title line for the
#   border between title and author, so Jean-Paul Sartre is "Paul", and the book is "Nausea (Sartre, Jean". clippings and kindle-clippy
#   leave the byte order mark, which the device writes before each title, in the title.
# Why it matters: notes that come into a vault by such a reader are cut, and nothing says so. Compare the text of each entry with the
#   file before the file is put away.
source "$(dirname "$0")/support/common.sh"
python_packages clippings==0.9.0 kclip==1.0.1 kindle-clippy==0.0.2 myclippings==0.0.6

where='on page 12 | Location 180-182 | Added on Sunday, May 3, 2026'
{
  printf '\xef\xbb\xbfNausea (Sartre, Jean-Paul)\r\n- Your Highlight %s 10:15:01 PM\r\n\r\nThings are what they seem.\r\n==========\r\n' "$where"
  printf '\xef\xbb\xbfNausea (Sartre, Jean-Paul)\r\n- Your Note %s 10:16:40 PM\r\n\r\nAsk Lena about this.\nRead it again in June.\r\n==========\r\n' "$where"
} >"$work/in.txt"
cat >"$work/run.py" <<'X'
import io
import sys
from pathlib import Path

import kclip
from clippings.parser import parse_clippings
from clippy.Clipping import Clipping
from myclippings.main import clippings_file_to_parsed_array

source = Path(sys.argv[1])
text = source.read_text("utf-8")
for it in parse_clippings(io.StringIO(text)):
    print("clippings", [it.document.title, it.document.authors, it.metadata.page, it.content])
for it in kclip.get_clippings_from_filename(str(source)):
    print("kclip", [it.title, it.author, it.page, it.clip_text])
for it in map(Clipping, text.split("==========\n")[:-1]):
    print("kindle-clippy", [it.title_author, it.page, it.text])
for book in clippings_file_to_parsed_array(str(source)):
    for it in book["clippings"]:
        print("myclippings", [book["title"], book["author"], it["content"]])
X
"$python" "$work/run.py" "$work/in.txt" | tee "$work/out"
cat >"$work/expected" <<'X'
clippings ['\ufeffNausea', 'Sartre, Jean-Paul', 12, 'Things are what they seem.']
clippings ['\ufeffNausea', 'Sartre, Jean-Paul', 12, 'Ask Lena about this.\nRead it again in June.']
kclip ['Nausea', 'Sartre, Jean-Paul', None, 'Things are what they seem.\n']
kclip ['Nausea', 'Sartre, Jean-Paul', None, 'Ask Lena about this.\nRead it again in June.\n']
kindle-clippy ['\ufeffNausea (Sartre, Jean-Paul)', 12, 'Things are what they seem.']
kindle-clippy ['\ufeffNausea (Sartre, Jean-Paul)', 12, 'Ask Lena about this.']
myclippings ['Nausea (Sartre, Jean', 'Paul', 'Things are what they seem.']
myclippings ['Nausea (Sartre, Jean', 'Paul', 'Ask Lena about this.']
X
diff "$work/expected" "$work/out" || changed "see the lines above"
