#!/usr/bin/env bash
# Guess: Markdown readers with footnotes number them as they are referred to in the text, as GitHub does, and give each place that
# refers to one an id of its own, to which its arrow leads back.
# Seen: Python-Markdown numbers them as they are defined, so a text reads "tea [2] and cake [1]", and shows a footnote that nothing refers
#   to. pyromark shows that one too, leaves all where they are defined, and has no way back. mistune gives two places of one footnote the same id.
#   pyromark's id is the bare label: `[^tea]` below the heading "Tea" takes the heading's link. markdown-it and comrak do as guessed.
# Why it matters: two notes on one page, or a note embedded in another, share ids whichever reader is used, and numbers may run
#   backwards. Number footnotes again over all that is shown, and put the note's own mark before each id.
source "$(dirname "$0")/support/common.sh"
python_packages markdown-it-py==4.3.0 mdit-py-plugins==0.7.0 mistune==3.4.0 Markdown==3.11.3 pyromark==0.10.3 comrak==0.0.16

cat >"$work/read.py" <<'X'
import re, comrak, markdown, mistune, pyromark
from collections import Counter
from markdown_it import MarkdownIt
from mdit_py_plugins.footnote import footnote_plugin
TEXT = "Tea[^tea] and cake[^cake], tea again[^tea].\n\n[^cake]: Cake.\n[^tea]: Leaves.\n[^none]: Unused.\n"
options = comrak.ExtensionOptions()
options.footnotes = True
for name, read in {
    "mdit footnote": MarkdownIt().use(footnote_plugin).render,
    "mistune": mistune.create_markdown(plugins=["footnotes"]),
    "Python-Markdown": lambda text: markdown.markdown(text, extensions=["footnotes"]),
    "pyromark": lambda text: pyromark.html(text, options=pyromark.Options.ENABLE_FOOTNOTES),
    "comrak": lambda text: comrak.render_markdown(text, extension_options=options),
}.items():
    html = read(TEXT)
    numbers = re.findall(r">\[?(\d)[^<]*</a>", html.partition("</p>")[0])
    ids = Counter(re.findall(r'\bid="([^"]+)"', html))
    twice = [found for found, count in ids.items() if count > 1]
    print(f"{name}: numbers {' '.join(numbers)}, unused {'shown' if 'Unused' in html else 'left out'},",
          f"ids twice: {' '.join(twice) or 'none'}, back: {'yes' if '#fnref' in html else 'no'}, first id {next(iter(ids))}")
X
"$python" "$work/read.py" | tee "$work/out"
cat >"$work/expected" <<'X'
mdit footnote: numbers 1 2 1, unused left out, ids twice: none, back: yes, first id fnref1
mistune: numbers 1 2 1, unused left out, ids twice: fnref-1, back: yes, first id fnref-1
Python-Markdown: numbers 2 1 2, unused shown, ids twice: none, back: yes, first id fnref:tea
pyromark: numbers 1 2 1, unused shown, ids twice: none, back: no, first id cake
comrak: numbers 1 2 1, unused left out, ids twice: none, back: yes, first id fnref-tea
X
diff "$work/expected" "$work/out" || changed "see the lines above"
