#!/usr/bin/env bash
# Guess: git holds .git/index.lock for milliseconds, so a program that commits a vault's history waits a
# second and tries again; an editor left open on a commit message does no harm.
# Seen: `git commit -a` and `git commit NAME` keep the lock until the editor is closed, and every other
# `git add` fails meanwhile; a plain `git commit` and `git commit --amend` have let go of it before the editor opens.
# Why it matters: a person, or an agent whose editor waits for ever, can stop all committing for a day. A
# daemon must queue without a limit of tries, say which lock it waits for, and never delete the lock as
# stale by its age.
source "$(dirname "$0")/support/common.sh"
use_git

git init -q "$work/vault"
cd "$work/vault"
printf '0\n' >a.md && printf '0\n' >b.md
git add . && git commit -qm start

# While the message is open, somebody else adds b.md.
cat >"$work/editor" <<'X'
#!/bin/sh
printf 'message\n' >"$1"
if env -u GIT_INDEX_FILE git add b.md 2>"$SEEN/error"; then echo free; else echo locked; fi >"$SEEN/lock"
X
chmod +x "$work/editor"
export SEEN=$work GIT_EDITOR=$work/editor

try() { # EXPECTED GIT-ARGUMENTS...
  printf '%s\n' "$RANDOM" >>a.md && printf '%s\n' "$RANDOM" >>b.md
  git add a.md
  git "${@:2}" >/dev/null 2>&1
  echo "git ${*:2}: the index is $(cat "$work/lock") while the editor is open"
  [[ $(cat "$work/lock") = "$1" ]] || changed "git ${*:2} leaves the index $(cat "$work/lock")"
}

try locked commit -a
try locked commit a.md
grep -q 'index.lock.*File exists' "$work/error" || changed "another error: $(cat "$work/error")"
try free commit
try free commit --amend
