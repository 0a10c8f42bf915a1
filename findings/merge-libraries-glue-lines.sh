#!/usr/bin/env bash
# Guess: three-way merge libraries differ in what they call a conflict, but one that reports success has kept
# every line of both sides apart, and one that reports a conflict marks it on lines of its own, as git does.
# Seen: diff-match-patch says that all patches applied ([True]) where one side deleted a line and the other
# changed it: what is left of the change is glued to the next line. It doubles a line that both added, and
# where both changed the last line it keeps one side alone.
# three-merge glues a changed line to a moved one, reports nothing, and writes the markers of real
# conflicts in the middle of lines. merge3 puts its ======= and >>>>>>> behind the last words of a
# text that has no final newline. git's own merge-file conflicts or merges cleanly in all of these.
# Why it matters: a glued line turns a task into the tail of another, or `---` into text, and the person is
# told that all went well. A search for conflict markers at the start of a line misses both odd forms.
source "$(dirname "$0")/support/common.sh"
use_git
python_packages diff-match-patch==20241021 three-merge==0.1.1 merge3==1.0.0

cat >"$work/run.py" <<'X'
import subprocess, sys
import three_merge
from diff_match_patch import diff_match_patch
from merge3 import Merge3

CASES = {  # base, ours, theirs
    "deleted and changed": ("a\nb\nc\n", "a\nc\n", "a\nB\nc\n"),
    "moved and changed": ("a\nb\nc\nd\n", "c\na\nb\nd\n", "a\nb\nC\nd\n"),
    "both added": ("a\nb\n", "a\nnew\nb\n", "a\nnew\nb\nnew\n"),
    "no final newline": ("a\nb", "a\nours", "a\ntheirs"),
}

def by_git(base, ours, theirs):
    for name, text in zip(("ours", "base", "theirs"), (ours, base, theirs)):
        with open(f"{sys.argv[1]}/{name}", "w") as file:
            file.write(text)
    return subprocess.run(["git", "merge-file", "-p", "-q", "ours", "base", "theirs"], cwd=sys.argv[1], capture_output=True, text=True).stdout

def by_patch(base, ours, theirs):
    text, applied = diff_match_patch().patch_apply(diff_match_patch().patch_make(base, theirs), ours)
    return text + f" applied: {applied}"

for case, (base, ours, theirs) in CASES.items():
    print(f"{case}: git: {by_git(base, ours, theirs)!r}")
    print(f"{case}: diff-match-patch: {by_patch(base, ours, theirs)!r}")
    print(f"{case}: three-merge: {three_merge.merge(ours, theirs, base)!r}")
    print(f"{case}: merge3: {''.join(Merge3(*(text.splitlines(True) for text in (base, ours, theirs))).merge_lines())!r}")
X
mkdir "$work/files"
"$python" "$work/run.py" "$work/files" | tee "$work/out"
cat >"$work/expected" <<'X'
deleted and changed: git: 'a\n<<<<<<< ours\n=======\nB\n>>>>>>> theirs\nc\n'
deleted and changed: diff-match-patch: 'a\nBc\n applied: [True]'
deleted and changed: three-merge: 'a\n<<<<<<< ++ B ======= -- \n >>>>>>>c\n'
deleted and changed: merge3: 'a\n<<<<<<<\n=======\nB\n>>>>>>>\nc\n'
moved and changed: git: 'c\na\nb\n<<<<<<< ours\n=======\nC\n>>>>>>> theirs\nd\n'
moved and changed: diff-match-patch: 'c\na\nb\nCd\n applied: [True]'
moved and changed: three-merge: 'c\na\nbC\nd\n'
moved and changed: merge3: 'c\na\nb\n<<<<<<<\n=======\nC\n>>>>>>>\nd\n'
both added: git: 'a\nnew\nb\nnew\n'
both added: diff-match-patch: 'a\nnew\nnew\nb\nnew\n applied: [True]'
both added: three-merge: 'a\nnew\nb\nnew\n'
both added: merge3: 'a\nnew\nb\nnew\n'
no final newline: git: 'a\n<<<<<<< ours\nours\n=======\ntheirs\n>>>>>>> theirs\n'
no final newline: diff-match-patch: 'a\ntheirs applied: [True]'
no final newline: three-merge: 'a\n<<<<<<< ++ ours ======= ++ theirs >>>>>>>'
no final newline: merge3: 'a\n<<<<<<<\nours=======\ntheirs>>>>>>>\n'
X
diff "$work/expected" "$work/out" || changed "see the lines above"
