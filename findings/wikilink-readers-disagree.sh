#!/usr/bin/env bash
# Guess: [[Note]] and [[Note|text]] are simple enough that readers of them agree on the target of every valid link.
# Seen: in a table, where the bar has to be written \|, pyromark and remark-wiki-link (told that | divides) take
# the backslash into the target; by default remark-wiki-link divides at a colon, and [[09:30 call]] or an id
# such as [[para:daily:x]] leads to "09" or "para". obsidiantools goes through HTML and back: [[*Inbox*]] leads to
# _Inbox_, [[a\b]] to ab, [[ Note ]] keeps its first space and loses its last; an escaped \[[Note]] and one in
# indented code count as links, a picture does not, and Note.md becomes Note.
# Why it matters: an index made with one and a page or a rename made with another do not see the same graph: the
# link in the table is "broken" here and followed there. One reader for all, and a test for each of these rows.
source "$(dirname "$0")/support/common.sh"
python_packages pyromark==0.10.3 obsidiantools==0.11.0
node_packages remark-wiki-link@2.0.1 remark-parse@11.0.0 unified@11.0.5

cat >"$work/node/links.mjs" <<'X'
import parse from 'remark-parse';
import { unified } from 'unified';
import * as plugin from 'remark-wiki-link';
import { readFileSync } from 'node:fs';
const wikiLink = plugin.default ?? plugin.wikiLinkPlugin;
const links = (text, options) => {
  const found = [];
  const visit = (node) => { if (node.type === 'wikiLink') found.push(node.value); (node.children ?? []).forEach(visit); };
  visit(unified().use(parse).use(wikiLink, options).parse(text));
  return found;
};
const texts = JSON.parse(readFileSync(0, 'utf8'));
console.log(JSON.stringify(texts.map((text) => [links(text, {}), links(text, { aliasDivider: '|' })])));
X
cat >"$work/run.py" <<'X'
import json, pathlib, subprocess, sys, tempfile
import obsidiantools.api
import pyromark

TEXTS = ["[[Note|text]]", "| x |\n|---|\n| [[Note\\|text]] |", "[[para:daily:x]]", "[[*Inbox*]]", "[[a\\b]]", "[[ Note ]]",
         "[[Note.md]]", "\\[[Note]]", "    [[Note]]", "![[p.png]]"]

def by_pyromark(text):
    options = pyromark.Options.ENABLE_WIKILINKS | pyromark.Options.ENABLE_TABLES
    starts = [event["Start"] for event in pyromark.events(text, options=options) if isinstance(event, dict) and "Start" in event]
    return [tag[kind]["dest_url"] for tag in starts if isinstance(tag, dict) for kind in tag if kind in ("Link", "Image")]

def by_obsidiantools(text):
    with tempfile.TemporaryDirectory() as folder:
        pathlib.Path(folder, "page.md").write_text(text + "\n")
        return obsidiantools.api.Vault(pathlib.Path(folder)).connect().get_wikilinks("page")

by_remark = json.loads(subprocess.run(["node", "links.mjs"], cwd=sys.argv[1], input=json.dumps(TEXTS), capture_output=True, text=True, check=True).stdout)
for text, (colon, bar) in zip(TEXTS, by_remark):
    print(f"{text!r}: pyromark {by_pyromark(text)}, obsidiantools {by_obsidiantools(text)}, remark-wiki-link {colon}, with | {bar}")
X
"$python" "$work/run.py" "$work/node" | tee "$work/out"
cat >"$work/expected" <<'X'
'[[Note|text]]': pyromark ['Note'], obsidiantools ['Note'], remark-wiki-link ['Note|text'], with | ['Note']
'| x |\n|---|\n| [[Note\\|text]] |': pyromark ['Note\\'], obsidiantools ['Note'], remark-wiki-link ['Note\\|text'], with | ['Note\\']
'[[para:daily:x]]': pyromark ['para:daily:x'], obsidiantools ['para:daily:x'], remark-wiki-link ['para'], with | ['para:daily:x']
'[[*Inbox*]]': pyromark ['*Inbox*'], obsidiantools ['_Inbox_'], remark-wiki-link ['*Inbox*'], with | ['*Inbox*']
'[[a\\b]]': pyromark ['a\\b'], obsidiantools ['ab'], remark-wiki-link ['a\\b'], with | ['a\\b']
'[[ Note ]]': pyromark [' Note '], obsidiantools [' Note'], remark-wiki-link [' Note '], with | [' Note ']
'[[Note.md]]': pyromark ['Note.md'], obsidiantools ['Note'], remark-wiki-link ['Note.md'], with | ['Note.md']
'\\[[Note]]': pyromark [], obsidiantools ['Note'], remark-wiki-link [], with | []
'    [[Note]]': pyromark [], obsidiantools ['Note'], remark-wiki-link [], with | []
'![[p.png]]': pyromark ['p.png'], obsidiantools [], remark-wiki-link [], with | []
X
diff "$work/expected" "$work/out" || changed "see the lines above"
