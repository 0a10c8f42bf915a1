#!/usr/bin/env bash
# Guess: extensions for `$math$` in Markdown follow Pandoc's rule (no blank inside the marks, no digit behind the last), so that notes
# with prices stay text.
# Seen: of eight readers three keep all five lines with prices or variables as text (markdown-it-texmath, @vscode/markdown-it-katex, comrak). dollarmath of
#   mdit-py-plugins and remark-math make a formula of each of the five, `$5 and coffee is $`; pyromark (pulldown-cmark) and arithmatex of
#   `$3-$4` and `US$5 (CA$7)`; mistune of `$PATH to $HOME`.
# Why it matters: with such a reader a note about money or shells loses words to a formula, dollar signs with them. Whichever reader is
#   chosen, hold its formulas against Pandoc's rule before they are shown.
source "$(dirname "$0")/support/common.sh"
python_packages markdown-it-py==4.3.0 mdit-py-plugins==0.7.0 mistune==3.4.0 Markdown==3.11.3 pymdown-extensions==13.1.2 pyromark==0.10.3 comrak==0.0.16
node_packages markdown-it@14.1.0 markdown-it-texmath@1.0.0 katex@0.16.22 @vscode/markdown-it-katex@1.1.2 remark@15.0.1 remark-math@6.0.0

cat >"$work/lines" <<'X'
Tea is $5 and coffee is $10.
It costs 5$ or 6$ a day.
Set $PATH to $HOME/bin.
Between $3-$4 each.
US$5 (CA$7)
no dollars
a $x$ b
X
cat >"$work/read.py" <<'X'
import sys, comrak, markdown, mistune, pyromark
from markdown_it import MarkdownIt
from mdit_py_plugins.dollarmath import dollarmath_plugin
options = comrak.ExtensionOptions()
options.math_dollars = True
readers = {
    "mdit dollarmath": MarkdownIt().use(dollarmath_plugin).render,
    "pyromark": lambda text: pyromark.html(text, options=pyromark.Options.ENABLE_MATH),
    "mistune": mistune.create_markdown(plugins=["math"]),
    "arithmatex": lambda text: markdown.markdown(text, extensions=["pymdownx.arithmatex"]),
    "comrak": lambda text: comrak.render_markdown(text, extension_options=options),
}
lines = open(sys.argv[1]).read().splitlines()
for name, read in readers.items():
    print(f"{name}:", *("formula" if "math" in read(line) else "text" for line in lines))
X
cat >"$work/node/read.mjs" <<'X'
import { readFileSync } from 'node:fs';
import MarkdownIt from 'markdown-it';
import texmath from 'markdown-it-texmath';
import vscode from '@vscode/markdown-it-katex';
import katex from 'katex';
import { remark } from 'remark';
import math from 'remark-math';
const one = new MarkdownIt().use(texmath, { engine: katex, delimiters: 'dollars' }), other = new MarkdownIt().use(vscode.default);
const readers = {
  'markdown-it-texmath': (text) => /katex/.test(one.render(text)),
  'vscode katex': (text) => /katex/.test(other.render(text)),
  'remark-math': (text) => JSON.stringify(remark().use(math).parse(text)).includes('inlineMath'),
};
const lines = readFileSync(process.argv[2], 'utf8').trimEnd().split('\n');
for (const [name, read] of Object.entries(readers)) console.log(`${name}:`, ...lines.map((line) => (read(line) ? 'formula' : 'text')));
X
{ "$python" -W ignore "$work/read.py" "$work/lines"; (cd "$work/node" && node read.mjs "$work/lines"); } | tee "$work/out"
cat >"$work/expected" <<'X'
mdit dollarmath: formula formula formula formula formula text formula
pyromark: text text text formula formula text formula
mistune: text text formula text text text formula
arithmatex: text text text formula formula text formula
comrak: text text text text text text formula
markdown-it-texmath: text text text text text text formula
vscode katex: text text text text text text formula
remark-math: formula formula formula formula formula text formula
X
diff "$work/expected" "$work/out" || changed "see the lines above"
