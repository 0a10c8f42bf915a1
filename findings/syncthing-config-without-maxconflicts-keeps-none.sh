#!/usr/bin/env bash
# Guess: an element left out of a folder in Syncthing's config.xml has its documented default: up to ten
# conflict copies are kept.
# Seen: a folder whose XML has no <maxConflicts> counts as 0, and 0 means that the losing edit is thrown
# away with no copy and no line in the log. The default of ten belongs to the program that makes a folder,
# not to the one that reads its XML.
# Why it matters: configurations written by hand, by a container's template or by a provisioning tool look
# fine and lose text at the first conflict. A check-up that reads config.xml must take "absent" for 0, and
# a vault's own history has to see the overwritten text, since Syncthing keeps nothing.
source "$(dirname "$0")/support/common.sh"
source "$support/syncthing_pair.sh"
FOLDER_XML="" syncthing_pair
cd "$work"

kept=$(api a /rest/config/folders/v | grep -o '"maxConflicts": [0-9-]*')
made=$(api a /rest/config/defaults/folder | grep -o '"maxConflicts": [0-9-]*')
echo "without the element: $kept; a folder made by the program itself: $made"
[[ $kept = '"maxConflicts": 0' ]] || changed "absent now means $kept"
[[ $made = '"maxConflicts": 10' ]] || changed "the program's own default is $made"

printf 'start\n' >a/note.md
until_true test -f b/note.md
until_true in_sync a b
part
printf 'typed on a\n' >>a/note.md
sleep 1.1
printf 'typed on b\n' >>b/note.md
scan a
scan b
meet
until_true grep -q 'typed on b' a/note.md
until_true in_sync b a

echo "after the conflict, a has: $(ls -A a | xargs); 'typed on a' is found in: $(grep -rl 'typed on a' a b | xargs)"
grep -rq 'typed on a' a b && changed "the losing text is kept"
grep -qi conflict log-a log-b && changed "a log speaks of the conflict"
exit 0
