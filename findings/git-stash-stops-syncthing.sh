#!/usr/bin/env bash
# Guess: `git stash -u` and `git stash pop` in a vault that Syncthing shares is a change and its reversal;
# both are carried to the other devices and all is as before.
# Seen: git removes the empty folder .stfolder among the untracked ones, and pop does not bring it back,
# since git keeps no empty folder. Syncthing then stops for that vault ("folder marker missing"), also
# after the pop; nothing is sent or received until a person makes the folder again.
# Why it matters: to the daemon the vault is whole, and notes from the phone simply no longer come. A
# health check can look for a missing .stfolder where .stignore, .stversions or conflict copies are found;
# a daemon that tidies empty folders must leave this one alone.
source "$(dirname "$0")/support/common.sh"
source "$support/syncthing_pair.sh"
use_git
syncthing_pair

cd "$work/a"
git init -q --separate-git-dir "$work/git" .
printf 'note\n' >note.md
git add note.md && git commit -qm start
printf 'draft\n' >draft.md
until_true test -f "$work/b/draft.md"
until_true in_sync a b

echo "before: $(ls -A | xargs)"
git stash -qu
git stash pop -q
echo "after stash and pop: $(ls -A | xargs)"
[[ -f draft.md ]] || changed "pop did not bring the draft back"
[[ ! -e .stfolder ]] || changed ".stfolder survived"

stopped() { scan a && api a '/rest/db/status?folder=v' | grep -q '"error": "folder marker missing'; }
until_true stopped || changed "Syncthing goes on"
printf 'later\n' >later.md
sleep 4
[[ ! -e $work/b/later.md ]] || changed "a later note was sent"
echo "later.md is not sent; Syncthing says: $(api a '/rest/db/status?folder=v' | grep '"error":' | cut -c1-60)"

mkdir .stfolder
scan a
until_true test -f "$work/b/later.md" || changed "making the folder again does not help"
echo "with .stfolder made again by hand and a scan, later.md is sent"
