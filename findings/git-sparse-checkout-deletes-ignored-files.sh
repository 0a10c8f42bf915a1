#!/usr/bin/env bash
# Guess: narrowing a checkout with `git sparse-checkout set` takes away tracked files; what .gitignore
# names is not git's and stays on the disk.
# Seen: a folder outside the chosen ones is removed whole, ignored files and all, without a word. If one
# untracked file lies in it as well, the folder stays with everything in it, and git warns.
# Why it matters: recordings, indexes and a daemon's state are just what people ignore. They are in no
# commit, so nothing brings them back, and to a watcher it looks like a person's deletion.
source "$(dirname "$0")/support/common.sh"
use_git

vault() { # NAME: two folders of notes, an ignored recording in one
  git init -q "$work/$1"
  cd "$work/$1"
  mkdir Work Daily
  printf 'w\n' >Work/w.md && printf 'd\n' >Daily/d.md && printf '*.ogg\n' >.gitignore
  git add . && git commit -qm start
  printf 'sound\n' >Daily/voice.ogg
}

vault alone
git sparse-checkout set Work >"$work/out" 2>&1
echo "-- ignored file alone: git said '$(cat "$work/out")'; left:"; find . -path ./.git -prune -o -type f -print
[[ ! -e Daily/voice.ogg ]] || changed "the ignored file was kept"
[[ ! -s $work/out ]] || changed "git said something"
git sparse-checkout disable
[[ -f Daily/d.md && ! -e Daily/voice.ogg ]] || changed "disabling brought back something else"

vault beside
printf 'draft\n' >Daily/draft.txt
git sparse-checkout set Work >"$work/out" 2>&1
echo "-- with an untracked file beside it: git said '$(head -n 1 "$work/out")'; left:"; find . -path ./.git -prune -o -type f -print
[[ -f Daily/voice.ogg && -f Daily/draft.txt ]] || changed "the folder with an untracked file went too"
grep -q 'contains untracked files' "$work/out" || changed "git did not warn"
