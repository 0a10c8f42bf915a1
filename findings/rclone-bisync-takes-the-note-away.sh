#!/usr/bin/env bash
# Guess: when a note was edited on both sides, rclone bisync keeps one text under the note's name and puts the other beside it, as
#   other programs do, and an equal edit on both sides is no conflict.
# Seen (1.60, Debian's): the note is gone on both sides. `note.md..path1` and `note.md..path2` stand there instead, which no longer end in
#   .md: editors do not list them, links lead nowhere, and a watcher sees a deleted note. The same happens when both sides were
#   given the very same bytes, for times are compared.
# Why it matters: conflict copies are looked for by their names; here the copy is the only text. What ends in `..path1` and `..path2`
#   is to be shown as a conflict of the note that is missing. Later versions have --conflict-resolve and other names.
source "$(dirname "$0")/support/common.sh"
need rclone
rclone version | head -1
export RCLONE_CONFIG="$work/config" XDG_CACHE_HOME="$work/cache"
mkdir "$work/a" "$work/b"
for name in one both same; do echo base >"$work/a/$name.md"; done
for number in 1 2 3; do echo "$number" >"$work/a/other $number.md"; done
bisync() { rclone bisync "$work/a" "$work/b" --workdir "$work/state" "$@" 2>>"$work/log"; }
bisync --resync -q
# Times of the edits are set, for bisync compares them.
edit() { echo "$3" >"$work/$1/$2.md"; touch -d "$4" "$work/$1/$2.md"; }
edit a both "from a" "2027-01-01 10:00"
edit b both "from b" "2027-01-01 11:00"
edit a same "equal" "2027-01-01 10:00"
edit b same "equal" "2027-01-01 11:00"
bisync -q || true
{
  (cd "$work/a" && ls && head -n 3 -- *..path*)
  echo "the other side is equal: $(diff -r "$work/a" "$work/b" >/dev/null && echo yes || echo no)"
} | tee "$work/out"
cat >"$work/expected" <<'X'
both.md..path1
both.md..path2
one.md
other 1.md
other 2.md
other 3.md
same.md..path1
same.md..path2
==> both.md..path1 <==
from a

==> both.md..path2 <==
from b

==> same.md..path1 <==
equal

==> same.md..path2 <==
equal
the other side is equal: yes
X
diff "$work/expected" "$work/out" || changed "see the lines above"
