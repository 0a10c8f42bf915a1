#!/usr/bin/env bash
# Guess: a Python port of lz-string reads what the JavaScript original wrote, and the other way round: drawings are kept
# so in notes (Base64 in a code block), and the ports are there for such files.
# Seen: true for every character up to U+FFFF. Beyond (a rocket, the letter of a set in mathematics), lzstring writes other bytes, which
#   the original reads as one wrong character; and what the original wrote comes back as two lone surrogates, a str that
#   cannot be encoded. Nothing is raised while packing or unpacking, and lzstring reads its own output back wrong as well.
# Why it matters: a script that adds a label to a drawing and packs it again spoils the labels that it did not touch, and
#   the error, if any, comes later, from write(). Read back with the original before a packed text replaces one that is good.
source "$(dirname "$0")/support/common.sh"
python_packages lzstring==1.0.4
node_packages lz-string@1.5.0

cat >"$work/node/other.cjs" <<'X'
const lz = require('lz-string');
const pairs = JSON.parse(require('fs').readFileSync(0, 'utf8'));
console.log(JSON.stringify(pairs.map(([text, packed]) => [lz.compressToBase64(text), lz.decompressFromBase64(packed)])));
X
cat >"$work/run.py" <<'X'
import json, subprocess, sys
import lzstring

port = lzstring.LZString()
TEXTS = ["tea \u2615 \u65e5\u672c", "\U0001f680 plan", "x \u2208 \U0001d518"]
pairs = [(text, port.compressToBase64(text)) for text in TEXTS]
answers = subprocess.run(["node", "other.cjs"], cwd=sys.argv[1], input=json.dumps(pairs), capture_output=True, text=True, check=True).stdout
for (text, packed), (original, read) in zip(pairs, json.loads(answers)):
    print(f"{ascii(text)}: same bytes {packed == original}; the original reads the port {ascii(read)}; "
          f"the port reads the original {ascii(port.decompressFromBase64(original))}, itself {ascii(port.decompressFromBase64(packed))}")
X
"$python" "$work/run.py" "$work/node" | tee "$work/out"
cat >"$work/expected" <<'X'
'tea \u2615 \u65e5\u672c': same bytes True; the original reads the port 'tea \u2615 \u65e5\u672c'; the port reads the original 'tea \u2615 \u65e5\u672c', itself 'tea \u2615 \u65e5\u672c'
'\U0001f680 plan': same bytes False; the original reads the port '\uf680 plan'; the port reads the original '\ud83d\ude80 plan', itself '\uf680 plan'
'x \u2208 \U0001d518': same bytes False; the original reads the port 'x \u2208 \ud518'; the port reads the original 'x \u2208 \ud835\udd18', itself 'x \u2208 \ud518'
X
diff "$work/expected" "$work/out" || changed "see the lines above"
