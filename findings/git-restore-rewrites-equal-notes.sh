#!/usr/bin/env bash
# Guess: `git restore .` and `git reset --hard` write the files that differ, and leave alone a note whose
# bytes are those of the commit; another mtime makes it compare contents, as `git status` does.
# Seen: every note whose mtime differs from the index is deleted and created anew, though not a
# byte of it differs; `git stash` of the same tree says there is nothing to do.
# Why it matters: after `cp -r`, a restore from a backup or a synchroniser has set times, a single
# `git restore .` is a deletion and a creation of the whole vault to a watcher. Only a comparison of
# contents, made after the burst, tells that nothing happened.
source "$(dirname "$0")/support/common.sh"
use_git

git init -q "$work/vault"
cd "$work/vault"
for name in a b c; do printf '# %s\n' "$name" >$name.md; done
git add . && git commit -qm start

run() { # COMMAND...: touches two of three notes, runs it, and says what was deleted
  touch -d 2020-01-01 a.md b.md
  watch "$work/vault" .git
  "$@" >"$work/out" 2>&1
  watch_ends
  deleted=$(grep ^DELETE "$work/events" | cut -d' ' -f3 | sort | xargs || true)
  echo "$*: deleted and created anew: ${deleted:-nothing}"
}

run git restore .
[[ $deleted = "a.md b.md" ]] || changed "git restore deleted '$deleted'"
run git reset -q --hard
[[ $deleted = "a.md b.md" ]] || changed "git reset --hard deleted '$deleted'"
run git stash
[[ -z $deleted ]] && grep -q 'No local changes' "$work/out" || changed "git stash did something"
git diff --quiet || changed "the content differs after all"
