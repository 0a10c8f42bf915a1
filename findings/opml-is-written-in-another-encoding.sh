#!/usr/bin/env bash
# Guess: readers of OPML, the format in which outliners such as Workflowy, Dynalist and OmniOutliner give their outlines away, write
#   what they read, with the notes below a line (`_note`) and the boxes that are ticked.
# Seen: the opml package of npm, by the author of the format, begins what it writes with encoding="ISO-8859-1", and its text is a string
#   that Node writes as UTF-8: XML readers see "CafÃ©". A note's line ends stand in the attribute as they are, where XML has them read
#   as spaces; the package itself reads both back as they were, so its own round trip shows neither. The
#   Python package opyml drops `_note` and all other attributes that it does not know, without a word.
# Why it matters: an outline that goes through either loses letters or notes without a message. Write `&#10;`
#   and say UTF-8; compare the attributes before and after.
source "$(dirname "$0")/support/common.sh"
python_packages opml==0.5 opyml==0.1.2
node_packages opml@0.5.8

cat >"$work/in.opml" <<'X'
<?xml version="1.0" encoding="UTF-8"?>
<opml version="2.0"><head><title>Plans</title></head><body>
<outline text="Café" _note="first line&#10;second line" _complete="true"><outline text="Table"/></outline>
</body></opml>
X
cat >"$work/node/run.cjs" <<'X'
const fs = require('node:fs');
const opml = require('opml');

const [, , source, target] = process.argv;
opml.parse(fs.readFileSync(source, 'utf8'), (error, outline) => {
  fs.writeFileSync(target, opml.stringify(outline));
  opml.parse(fs.readFileSync(target, 'utf8'), (again, read) => console.log('opml of npm reads', JSON.stringify(read.opml.body.subs[0])));
});
X
cat >"$work/run.py" <<'X'
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import opml
import opyml

source, written = map(Path, sys.argv[1:])
print("it begins", written.read_text("utf-8").splitlines()[0])
print("xml.etree reads", ElementTree.parse(written).find(".//outline").attrib)
for outline in opml.parse(str(written)):
    print("opml of PyPI reads", [outline.text, outline._note])
print("opyml writes", opyml.OPML.from_xml(source.read_text("utf-8")).to_xml().partition("<body>")[2])
X
{ node "$work/node/run.cjs" "$work/in.opml" "$work/out.opml" && "$python" "$work/run.py" "$work/in.opml" "$work/out.opml"; } | tee "$work/out"
cat >"$work/expected" <<'X'
opml of npm reads {"text":"Café","_note":"first line\nsecond line","_complete":"true","subs":[{"text":"Table"}]}
it begins <?xml version="1.0" encoding="ISO-8859-1"?>
xml.etree reads {'text': 'CafÃ©', '_note': 'first line second line', '_complete': 'true'}
opml of PyPI reads ['CafÃ©', 'first line second line']
opyml writes <outline text="Café"><outline text="Table" /></outline></body></opml>
X
diff "$work/expected" "$work/out" || changed "see the lines above"
