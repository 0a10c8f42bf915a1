#!/usr/bin/env bash
# Guess: a program that edits a note and puts its mtime back is still noticed, by ctime or by the new
# inode; at worst another device's later edit makes a conflict copy.
# Seen: an edit with the same size and mtime is not sent, not even by a scan that is asked for; and the
# next edit from the other device overwrites it without a conflict copy, since as far as Syncthing knows
# the file is the one it had. Nothing is left of the edit.
# Why it matters: "keep the mtime, so that the person's sorting stays" is a tempting kindness of a program
# that ticks `[ ]` to `[x]` or bumps a digit: size and mtime are then both equal. Every write of a daemon
# must move the mtime.
source "$(dirname "$0")/support/common.sh"
source "$support/syncthing_pair.sh"
syncthing_pair
cd "$work"

printf -- '- [ ] pay the rent\n' >a/tasks.md
until_true test -f b/tasks.md
until_true in_sync a b

touch -r a/tasks.md stamp
sed 's/\[ \]/[x]/' a/tasks.md >a/.new && mv a/.new a/tasks.md
touch -r stamp a/tasks.md
sleep 3
scan a
until_true in_sync a b
echo "after a scan: a has '$(cat a/tasks.md)', b has '$(cat b/tasks.md)'"
[[ $(cat b/tasks.md) = "- [ ] pay the rent" ]] || changed "the edit was sent"

printf -- '- [ ] buy milk\n' >>b/tasks.md
until_true grep -q milk a/tasks.md
until_true in_sync a b
echo "after an edit on b, a has:"; cat a/tasks.md; ls a
grep -qF '[x]' a/tasks.md && changed "the edit survived"
compgen -G 'a/*sync-conflict*' >/dev/null && changed "a conflict copy was made"
exit 0
