#!/usr/bin/env bash
# Guess: of two edits made apart, the note keeps one and the other is written to a new file, whose name
# carries the device that wrote the text in it.
# Seen: the device in the name is the WINNER's: the copy called after device b holds the text typed on a.
# And nothing is copied: on the device that loses, the note itself is renamed to the conflict file (same
# inode, one cookie), and the winner's text comes in as a new file under the old name.
# Why it matters: a page that says "your phone's version" by the name says it the wrong way round, and a
# watcher that keeps identity across renames takes the note's id, links and history to the conflict copy.
source "$(dirname "$0")/support/common.sh"
source "$support/syncthing_pair.sh"
syncthing_pair
cd "$work"

printf 'start\n' >a/note.md
until_true test -f b/note.md
until_true in_sync a b

part
printf 'typed on a\n' >>a/note.md
sleep 1.1 # the later mtime wins
printf 'typed on b\n' >>b/note.md
scan a
scan b
inode=$(stat -c %i a/note.md)
watch a
meet
until_true grep -q 'typed on b' a/note.md
watch_ends

copy=$(cd a && ls note.sync-conflict-*.md)
text=$(tail -n 1 "a/$copy")
echo "device a: ${id_a%%-*}"; echo "device b: ${id_b%%-*}"
echo "conflict copy on a: $copy"; echo "its last line: $text"; grep -E '(DELETE|MOVED)' events

[[ $text = "typed on a" ]] || changed "the copy holds '$text'"
[[ $copy = *-"${id_b%%-*}".md ]] || changed "the copy no longer bears b's name: $copy"
[[ $(stat -c %i "a/$copy") = "$inode" ]] || changed "the copy is another inode than the note was"
cookie=$(grep -E '^MOVED_FROM [0-9]+ note\.md$' events | cut -d' ' -f2)
grep -qF "MOVED_TO ${cookie:-none} $copy" events || changed "the note was not renamed to the conflict copy"
