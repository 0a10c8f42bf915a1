#!/usr/bin/env bash
# Guess: put_archive over a file that is there writes it anew in place, as `tar` or `cp` into a running container would, or
#   replaces it by a rename.
# Seen: the engine deletes the file, makes a new one under the same name and fills it piece by piece. A watcher sees a deletion
#   and a creation; a reader meets no file, an empty one or the first 32 kB; a hard link keeps the old text; mode and owner
#   are the archive's. This also holds for a folder of the host that is mounted into the container.
# Why it matters: a daemon that watches the mounted folder may take the deletion for a person's, drop the note from its index
#   and move links, then read half a note. Agents' files are better written through the mount by the daemon's own rename.
source "$(dirname "$0")/support/common.sh"
source "$support/engine.sh"
printf 'of a person' >"$work/folder/note.md"
ln "$work/folder/note.md" "$work/link.md"
chmod 600 "$work/folder/note.md"
before=$(stat -c '%i %a' "$work/folder/note.md")

watch "$work/folder"
script <<'PYTHON'
from docker_rig import archive, box

print("put_archive:", box().put_archive("/folder", archive(**{"note.md": b"of an agent" * 20_000})))
PYTHON
watch_ends
after=$(stat -c '%i %a' "$work/folder/note.md")
echo "inode and mode before: $before, after: $after; the hard link holds: $(cat "$work/link.md")"
echo "events:"
uniq "$work/events"
uniq "$work/events" | tr '\n' ' ' | grep -qi 'delete.*create.*modify.*close' || changed "it is no longer deletion, creation, writing"
[[ ${before% *} != "${after% *}" && ${after#* } == 644 ]] || changed "inode or mode are kept"
[[ $(cat "$work/link.md") == "of a person" ]] || changed "the hard link is written through"
