#!/usr/bin/env bash
# Guess: a change from another device lands as any careful program writes: a temporary file, its mtime
# set, then one rename over the note. A rename on the other device arrives as a rename.
# Seen: the old note is deleted first and the temporary file moved in afterwards, so for a moment there
# is no note; its mtime is set only after it has the note's name. A rename arrives as two: old name to
# .syncthing.NEW.tmp, that to the new name. With versions kept on that device, the cookie of a renamed
# note leads into .stversions instead, and the new name gets a fresh copy.
# Why it matters: "deleted" is no deletion, a stat in between says the note is gone or gives an mtime of
# now that goes back in time right after, and pairing of moved-from with moved-to finds the new name only
# if it follows hidden names too, or finds the note "moved" among its own old versions.
source "$(dirname "$0")/support/common.sh"
source "$support/syncthing_pair.sh"
syncthing_pair
cd "$work"

printf 'one\n' >a/note.md
until_true test -f b/note.md
until_true in_sync a b

watch b
printf 'two\n' >>a/note.md
until_true grep -q two b/note.md
watch_ends
echo "-- an edit arrives"; grep -E 'note.md' events
order=$(grep -E ' note\.md$' events | cut -d' ' -f1 | xargs)
[[ $order = "DELETE MOVED_TO ATTRIB" ]] || changed "the events of the note are '$order'"

until_true in_sync a b
watch b
mv a/note.md a/new.md
until_true test -f b/new.md
watch_ends
echo "-- a rename arrives"; cat events
moves=$(grep MOVED events | cut -d' ' -f1,3 | xargs)
[[ $moves = "MOVED_FROM note.md MOVED_TO .syncthing.new.md.tmp MOVED_FROM .syncthing.new.md.tmp MOVED_TO new.md" ]] ||
  changed "the moves are '$moves'"
[[ $(grep MOVED events | cut -d' ' -f2 | sort -u | wc -l) = 2 ]] || changed "the two moves have one cookie"

until_true in_sync a b
api b /rest/config/folders/v -X PATCH -d '{"versioning": {"type": "simple", "params": {"keep": "5"}}}' >/dev/null
mkdir -p b/.stversions
until_true in_sync b a
watch b
mv a/new.md a/last.md
until_true test -f b/last.md
watch_ends
echo "-- a rename arrives where versions are kept"; grep MOVED events
from=$(grep -E '^MOVED_FROM [0-9]+ new\.md$' events | cut -d' ' -f2)
grep -qE "^MOVED_TO ${from:-none} \.stversions/new~[0-9-]+\.md$" events || changed "the note did not move to .stversions"
