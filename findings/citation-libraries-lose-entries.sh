#!/usr/bin/env bash
# Guess: a bibliography that a library reads and writes has the same entries afterwards, with the same links.
# Seen: bibtexparser leaves out each entry of biblatex's own types (online, thesis, report, software), with a line of its log alone,
#   and of two fields that differ by case keeps the first. pybtex writes every `_` and `%` with a backslash, also in a link and where
#   one stood already, so a second pass adds another: the links of a vault's bibliography lead nowhere after one save.
# Why it matters: notes cite by key from a .bib file beside them, and a tool that adds an entry rewrites the whole file. Append, or change the
#   one entry's bytes. (bibtexparser has ignore_nonstandard_types=False.)
source "$(dirname "$0")/support/common.sh"
python_packages bibtexparser==1.4.4 pybtex==0.26.1

cat >"$work/run.py" <<'X'
import bibtexparser
from pybtex.database import parse_string

text = r"""
@article{ann, title = {100\% of tea}, URL = {https://a.example/green_tea%20leaves}, url = {https://b.example}}
@online{page, title = {A page}, url = {https://a.example}, urldate = {2026-11-30}}
@thesis{work, title = {A thesis}, date = {2020-05}}
@report{paper, title = {A report}, institution = {Home}}
"""
read = bibtexparser.loads(text)
print("bibtexparser:", [entry["ID"] for entry in read.entries], read.entries[0]["url"])
text = text.replace(", url = {https://b.example}", "")
for number in (1, 2):
    text = parse_string(text, "bibtex").to_string("bibtex")
    print(f"pybtex, pass {number}:", *[line.strip() for line in text.split("\n") if "100" in line or "green" in line])
X
"$python" "$work/run.py" 2>/dev/null | tee "$work/out"
cat >"$work/expected" <<'X'
bibtexparser: ['ann'] https://a.example/green_tea%20leaves
pybtex, pass 1: title = "100\\% of tea", URL = "https://a.example/green\_tea\%20leaves"
pybtex, pass 2: title = "100\\\% of tea", URL = "https://a.example/green\\_tea\\%20leaves"
X
diff "$work/expected" "$work/out" || changed "see the lines above"
