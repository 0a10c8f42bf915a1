#!/usr/bin/env bash
# Guess: libraries that give headings an id agree with GitHub's for plain words, so that `[plan](note.md#plan-202612)` leads to its heading
# on GitHub, in an editor's preview and on a site; accents at most differ.
# Seen: of seven, comrak and anchors of mdit-py-plugins agree with GitHub's own slugger. markdown-it-anchor keeps dots
#   and slashes, percent-encoded; python-slugify spells Chinese in Latin letters; Python-Markdown drops it, and makes one blank of the two
#   around `&` or `%`. A second `Tea` is `tea-1` or `tea_1`, so a link to the heading `Tea-1` leads to the second `Tea` or to its own.
# Why it matters: no id can be written into a link to a section that holds in two programs. Link by the heading's text and compare what is
#   left of both without marks; what a foreign link names is looked for by each rule, and said when two headings fit.
source "$(dirname "$0")/support/common.sh"
python_packages markdown-it-py==4.3.0 mdit-py-plugins==0.7.0 Markdown==3.11.3 pymdown-extensions==13.1.2 python-slugify==9.2.0 comrak==0.0.16
node_packages github-slugger@2.0.0 markdown-it@14.1.0 markdown-it-anchor@9.2.0

headings=('Café & Tea' '1.5 First' 'Plan (2026/12)' '日本 notes' '50 % off' 'Tea' 'Tea' 'Tea-1')
cat >"$work/ids.py" <<'X'
import re, sys, comrak, markdown
from markdown_it import MarkdownIt
from mdit_py_plugins.anchors import anchors_plugin
from pymdownx.slugs import slugify as like_github
from slugify import slugify
text = "\n\n".join(f"# {heading}" for heading in sys.argv[1:])
options = comrak.ExtensionOptions()
options.header_ids = ""
toc = {"toc": {"slugify": like_github(case="lower")}}
print("python-slugify:", *map(slugify, sys.argv[1:]))
for name, html in {
    "mdit anchors": MarkdownIt().use(anchors_plugin).render(text),
    "Python-Markdown": markdown.markdown(text, extensions=["toc"]),
    "pymdownx slugs": markdown.markdown(text, extensions=["toc"], extension_configs=toc),
    "comrak": comrak.render_markdown(text, extension_options=options),
}.items():
    print(f"{name}:", *re.findall(r'\bid="([^"]+)"', html))
X
cat >"$work/node/ids.mjs" <<'X'
import Slugger from 'github-slugger';
import MarkdownIt from 'markdown-it';
import anchor from 'markdown-it-anchor';
const headings = process.argv.slice(2), slugger = new Slugger();
console.log('github-slugger:', ...headings.map((heading) => slugger.slug(heading)));
const html = new MarkdownIt().use(anchor.default ?? anchor).render(headings.map((heading) => `# ${heading}`).join('\n\n'));
console.log('markdown-it-anchor:', ...[...html.matchAll(/id="([^"]+)"/g)].map((found) => decodeURIComponent(found[1])));
X
{ (cd "$work/node" && node ids.mjs "${headings[@]}"); "$python" -W ignore "$work/ids.py" "${headings[@]}"; } | tee "$work/out"
cat >"$work/expected" <<'X'
github-slugger: café--tea 15-first plan-202612 日本-notes 50--off tea tea-1 tea-1-1
markdown-it-anchor: café-&-tea 1.5-first plan-(2026/12) 日本-notes 50-%-off tea tea-1 tea-1-1
python-slugify: cafe-tea 1-5-first plan-2026-12 ri-ben-notes 50-off tea tea tea-1
mdit anchors: café--tea 15-first plan-202612 日本-notes 50--off tea tea-1 tea-1-1
Python-Markdown: cafe-tea 15-first plan-202612 notes 50-off tea tea_1 tea-1
pymdownx slugs: café--tea 15-first plan-202612 日本-notes 50--off tea tea_1 tea-1
comrak: café--tea 15-first plan-202612 日本-notes 50--off tea tea-1 tea-1-1
X
diff "$work/expected" "$work/out" || changed "see the lines above"
