#!/usr/bin/env bash
# Guess: within one mounted file system a folder is renamed in one step, and a watcher sees one move.
# Seen: on overlayfs, which is what a container's root is, a folder that came with the image cannot be renamed: rename() answers
#   EXDEV ("Invalid cross-device link") though both names are on one mount, with one device number. A file can. `mv` then
#   copies the folder and deletes the old one: the notes get new inodes, and a watcher sees a deletion and a creation, with no cookie that joins them.
#   A folder that was made since is renamed in one step.
# Why it matters: a vault in an image loses the past of its notes when a folder is renamed by hand, unless they are recognised by
#   content; a daemon that renames must expect EXDEV beside the same parent.
# Needs root, for mount.
source "$(dirname "$0")/support/common.sh"
need python3
mkdir -p "$work"/{image/Journal,upper,scratch,vault}
echo text >"$work/image/Journal/day.md"
mount -t overlay overlay -o "lowerdir=$work/image,upperdir=$work/upper,workdir=$work/scratch" "$work/vault" 2>/dev/null || {
  echo "cannot run here: overlayfs cannot be mounted"
  exit 2
}
trap 'umount "$work/vault"; clean' EXIT
uname -s

cat >"$work/run.py" <<'X'
import os
import subprocess
import sys

os.chdir(sys.argv[1])
os.mkdir("Own")
print("one device:", os.stat("Journal").st_dev == os.stat("Own").st_dev == os.stat(".").st_dev)
for folder in ("Journal", "Own"):
    try:
        os.rename(folder, f"{folder} 2")
        print(folder, "is renamed")
    except OSError as error:
        print(folder, type(error).__name__, os.strerror(error.errno))
before = os.stat("Journal/day.md").st_ino
os.rename("Journal/day.md", "Journal/Day.md")
print("a file keeps its inode:", os.stat("Journal/Day.md").st_ino == before)
subprocess.run(["mv", "Journal", "Moved"], check=True)
print("after mv:", os.stat("Moved/Day.md").st_ino == before)
X
watch "$work/vault"
python3 "$work/run.py" "$work/vault" | tee "$work/out"
watch_ends
sed 's/ [0-9]* / /' "$work/events" | tail -8 | tee -a "$work/out"
cat >"$work/expected" <<'X'
one device: True
Journal OSError Invalid cross-device link
Own is renamed
a file keeps its inode: True
after mv: False
ATTRIB Moved/Day.md
CLOSE_WRITE Moved/Day.md
ATTRIB|ISDIR Moved
ATTRIB|ISDIR Moved
ATTRIB|ISDIR Moved
ATTRIB|ISDIR Moved
DELETE Journal/Day.md
DELETE|ISDIR Journal
X
diff "$work/expected" "$work/out" || changed "see the lines above"
