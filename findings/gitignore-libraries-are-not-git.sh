#!/usr/bin/env bash
# Guess: rules of one line, all valid by git's manual, are read by the libraries that call themselves
# git-compatible as git reads them; and git itself does what its manual says.
# Seen: git surprises first. `?` and `[!a]` stand for one BYTE, so `?.md` does not ignore é.md; and
# `notes**/x.md` reaches any depth, though the manual calls such asterisks ordinary ones: git compares the
# literal head "notes" by itself, and what is left begins with `**/`. No library follows it there; dulwich and
# ignore-python alone count bytes. Of the others, two keep what `[^a].md` ignores and ignore what it keeps, three read
# nothing in `[[:digit:]]`, and the binding of the Rust crate ignore takes `{a,b}` for braces of a shell.
# Why it matters: a note that its owner thinks ignored is indexed and shown to agents, or one is missing
# without a word. Compatibility is worth what a comparison with `git check-ignore --no-index` over generated rules
# says: of 99 such rules dulwich missed 2, npm's ignore 5, igittigitt 12, ignore-python 13, gitignorefile 29,
# gitignore_parser 33.
source "$(dirname "$0")/support/common.sh"
use_git
python_packages dulwich==1.2.21 igittigitt==2.3.1 gitignore-parser==0.1.13 gitignorefile==1.1.2 ignore-python==0.4.2
node_packages ignore@7.0.16

cat >"$work/node/ignored.mjs" <<'X'
import ignore from 'ignore';
import { readFileSync } from 'node:fs';
const { rules, names } = JSON.parse(readFileSync(0, 'utf8'));
const rule = ignore({ ignorecase: false }).add(rules);
console.log(JSON.stringify(names.filter((name) => rule.ignores(name))));
X
cat >"$work/run.py" <<'X'
import json, os, subprocess, sys, warnings
import gitignore_parser, gitignorefile, igittigitt
from dulwich.ignore import IgnoreFilter
from ignore import WalkBuilder

warnings.simplefilter("ignore")
vault, node = sys.argv[1:]
NAMES = ["1.md", "a.md", "b.md", "d/x.md", "d/y.md", "notes/x.md", "notes1/sub/x.md", "{a,b}.md", "é.md"]
RULES = ["?.md", "notes**/x.md", "[^a].md", "[[:digit:]].md", "{a,b}.md", "d/\n!d/x.md"]
for name in NAMES:
    os.makedirs(os.path.dirname(f"{vault}/{name}"), exist_ok=True)
    open(f"{vault}/{name}", "w").close()

def run(command, text, where):
    return subprocess.run(command, input=text, cwd=where, capture_output=True, text=True).stdout

def by_git(rules):
    return set(filter(None, run(["git", "check-ignore", "--no-index", "-z", "--stdin"], "\0".join(NAMES), vault).split("\0")))

def by_rust(rules):
    walk = WalkBuilder(vault)
    return set(NAMES) - {os.path.relpath(str(entry.path()), vault) for entry in walk.build()}

def by_npm(rules):
    return set(json.loads(run(["node", "ignored.mjs"], json.dumps({"rules": rules, "names": NAMES}), node)))

def by_igittigitt(rules):
    parser = igittigitt.IgnoreParser()
    parser.parse_rule_files(vault, ".gitignore")
    return {name for name in NAMES if parser.match(f"{vault}/{name}")}

def by_path(read):
    return lambda rules: {name for name in NAMES if read(f"{vault}/.gitignore", vault)(f"{vault}/{name}")}

def by_dulwich(rules):
    lines = IgnoreFilter(line.encode() for line in rules.split("\n"))
    return {name for name in NAMES if lines.is_ignored(name)}

LIBRARIES = {"dulwich": by_dulwich, "ignore (npm)": by_npm, "igittigitt": by_igittigitt, "ignore-python": by_rust,
             "gitignore_parser": by_path(gitignore_parser.parse_gitignore), "gitignorefile": by_path(gitignorefile.parse)}
for rules in RULES:
    with open(f"{vault}/.gitignore", "w") as file:
        file.write(rules + "\n")
    expected = by_git(rules)
    print(f"{rules!r}: git: {' '.join(sorted(expected)) or 'nothing'}")
    for library, ignored in LIBRARIES.items():
        found = ignored(rules)
        if found != expected:
            print(f"{rules!r}: {library}: {' '.join(sorted(found)) or 'nothing'}")
X
git init -q "$work/vault"
"$python" "$work/run.py" "$work/vault" "$work/node" | tee "$work/out"
cat >"$work/expected" <<'X'
'?.md': git: 1.md a.md b.md d/x.md d/y.md notes/x.md notes1/sub/x.md
'?.md': ignore (npm): 1.md a.md b.md d/x.md d/y.md notes/x.md notes1/sub/x.md é.md
'?.md': igittigitt: 1.md a.md b.md d/x.md d/y.md notes/x.md notes1/sub/x.md é.md
'?.md': gitignore_parser: 1.md a.md b.md d/x.md d/y.md notes/x.md notes1/sub/x.md é.md
'?.md': gitignorefile: 1.md a.md b.md d/x.md d/y.md notes/x.md notes1/sub/x.md é.md
'notes**/x.md': git: notes/x.md notes1/sub/x.md
'notes**/x.md': dulwich: notes/x.md
'notes**/x.md': ignore (npm): notes/x.md
'notes**/x.md': igittigitt: notes/x.md
'notes**/x.md': ignore-python: notes/x.md
'notes**/x.md': gitignore_parser: notes/x.md
'notes**/x.md': gitignorefile: nothing
'[^a].md': git: 1.md b.md d/x.md d/y.md notes/x.md notes1/sub/x.md
'[^a].md': ignore (npm): 1.md b.md d/x.md d/y.md notes/x.md notes1/sub/x.md é.md
'[^a].md': igittigitt: 1.md b.md d/x.md d/y.md notes/x.md notes1/sub/x.md é.md
'[^a].md': gitignore_parser: a.md
'[^a].md': gitignorefile: a.md
'[[:digit:]].md': git: 1.md
'[[:digit:]].md': ignore-python: nothing
'[[:digit:]].md': gitignore_parser: nothing
'[[:digit:]].md': gitignorefile: nothing
'{a,b}.md': git: {a,b}.md
'{a,b}.md': ignore-python: a.md b.md
'd/\n!d/x.md': git: d/x.md d/y.md
'd/\n!d/x.md': gitignore_parser: d/y.md
'd/\n!d/x.md': gitignorefile: d/y.md
X
diff "$work/expected" "$work/out" || changed "see the lines above"
