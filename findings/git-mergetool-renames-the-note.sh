#!/usr/bin/env bash
# Guess: `git mergetool` hands its copies to the tool from .git or /tmp, and the note in conflict is
# written in place when the tool is done.
# Seen: its first act is to RENAME the note to NAME_BACKUP_PID.md in the same folder and to create the
# note anew; base, local and remote lie beside it as three more .md files while the tool is open; at the
# end the renamed file becomes NAME.md.orig and stays there, untracked.
# Why it matters: a watcher that pairs moved-from with moved-to takes the note's identity to the backup
# and may rewrite every link to it; for as long as the tool is open a search finds four near-twins with
# the same ids; and an .orig is left that no list of editors' leftovers has.
source "$(dirname "$0")/support/common.sh"
use_git

git init -q "$work/vault"
cd "$work/vault"
printf 'start\n' >note.md && git add . && git commit -qm start
git checkout -qb other && printf 'theirs\n' >note.md && git commit -qam theirs
git checkout -q main && printf 'ours\n' >note.md && git commit -qam ours
git merge other >/dev/null 2>&1 && changed "the merge had no conflict"

# The "tool" lists the folder, then takes one side.
git config mergetool.pick.cmd 'ls >"'"$work"'/while-open"; cp "$REMOTE" "$MERGED"'
git config mergetool.pick.trustExitCode true
watch "$work/vault" .git
git mergetool -y -t pick >/dev/null 2>&1
watch_ends

echo "-- events"; grep -E 'MOVED|CREATE|DELETE' "$work/events"
echo "-- in the folder while the tool is open"; cat "$work/while-open"
echo "-- afterwards"; ls

first=$(head -n 2 "$work/events")
[[ $first =~ ^MOVED_FROM\ ([0-9]+)\ note\.md.*MOVED_TO\ ([0-9]+)\ note_BACKUP_[0-9]+\.md$ && ${BASH_REMATCH[1]} = "${BASH_REMATCH[2]}" ]] ||
  changed "the first events are no rename of note.md to a backup ending in .md: $first"
[[ $(grep -cE '^note(_(BACKUP|BASE|LOCAL|REMOTE)_[0-9]+)?\.md$' "$work/while-open") = 5 ]] || changed "other files beside the note"
[[ -f note.md.orig ]] || changed "no note.md.orig is left"
