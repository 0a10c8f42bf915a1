#!/usr/bin/env bash
# Guess: `- [ ] text` is defined by GitHub's specification, and readers of it agree on which items of valid lists are tasks.
# Seen: they agree on the plain forms and on no others. An item that stands first in a quotation or callout is no task for
#   cmark-gfm, GitHub's own reader; `1)` and no text are none for some; a tab behind the box is none for markdown-it and its
#   Python port; text on the next line is a task for three of seven. Spaces behind an empty box make it a task or not. None of the
#   seven reads the states of note editors, [/] and [-].
# Why it matters: a count of open tasks from one library and a page rendered by another differ, and "tick the third box",
#   told by a page, ticks another line of the note. Name a task by its line, and count with the reader that the page uses.
source "$(dirname "$0")/support/common.sh"
python_packages pyromark==0.10.3 markdown-it-py==4.3.0 mdit-py-plugins==0.7.0 mistune==3.4.0 cmarkgfm==2025.10.22 Markdown==3.11.3 pymdown-extensions==13.1.2
node_packages remark-parse@11.0.0 remark-gfm@4.0.1 unified@11.0.5 markdown-it@15.0.3 markdown-it-task-lists@2.1.1

cat >"$work/node/tasks.mjs" <<'X'
import { readFileSync } from 'node:fs';
import MarkdownIt from 'markdown-it';
import taskLists from 'markdown-it-task-lists';
import gfm from 'remark-gfm';
import parse from 'remark-parse';
import { unified } from 'unified';
const markdownIt = new MarkdownIt().use(taskLists);
const count = (node) => (node.type === 'listItem' && typeof node.checked === 'boolean') + (node.children ?? []).reduce((sum, child) => sum + count(child), 0);
console.log(JSON.stringify(JSON.parse(readFileSync(0, 'utf8')).map((text) => ({
  remark: count(unified().use(parse).use(gfm).parse(text)),
  'markdown-it': (markdownIt.render(text).match(/<input/g) ?? []).length }))));
X
cat >"$work/run.py" <<'X'
import json, subprocess, sys

import cmarkgfm, markdown, mistune, pyromark
from markdown_it import MarkdownIt
from mdit_py_plugins.tasklists import tasklists_plugin

def by_pyromark(text):
    events = pyromark.events(text, options=pyromark.Options.ENABLE_TASKLISTS)
    return sum(isinstance(event, dict) and "TaskListMarker" in event for event in events)

PAGES = {
    "markdown-it-py": MarkdownIt().use(tasklists_plugin).render,
    "mistune": mistune.create_markdown(plugins=["task_lists"]),
    "cmark-gfm": lambda text: cmarkgfm.markdown_to_html_with_extensions(text, extensions=["tasklist"]),
    "pymdownx": lambda text: markdown.markdown(text, extensions=["pymdownx.tasklist"]),
}
TEXTS = ["- [ ] a", "1. [x] a", "1) [x] a", "- a\n    - [ ] b", "> - [ ] a", "> [!todo]\n> - [ ] a", "- [ ]\ta", "- [ ]", "- [ ] ", "- [ ]\n  a", "- [/] a"]
others = json.loads(subprocess.run(["node", "tasks.mjs"], cwd=sys.argv[1], input=json.dumps(TEXTS), capture_output=True, text=True, check=True).stdout)
for text, more in zip(TEXTS, others):
    tasks = {"pyromark": by_pyromark(text), **{name: page(text).count("<input") for name, page in PAGES.items()}, **more}
    missing = [name for name, number in tasks.items() if not number]
    print(f"{text!r}: " + ("a task for all" if not missing else "a task for none" if len(missing) == 7 else f"no task for {', '.join(missing)}"))
X
"$python" "$work/run.py" "$work/node" | tee "$work/out"
cat >"$work/expected" <<'X'
'- [ ] a': a task for all
'1. [x] a': a task for all
'1) [x] a': no task for pymdownx
'- a\n    - [ ] b': a task for all
'> - [ ] a': no task for cmark-gfm
'> [!todo]\n> - [ ] a': no task for cmark-gfm, pymdownx
'- [ ]\ta': no task for markdown-it-py, markdown-it
'- [ ]': no task for pyromark, markdown-it-py, cmark-gfm, pymdownx, remark, markdown-it
'- [ ] ': no task for markdown-it-py, remark, markdown-it
'- [ ]\n  a': no task for markdown-it-py, cmark-gfm, pymdownx, markdown-it
'- [/] a': a task for none
X
diff "$work/expected" "$work/out" || changed "see the lines above"
