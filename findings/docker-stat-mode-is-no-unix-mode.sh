#!/usr/bin/env bash
# Guess: `mode` in what get_archive tells about a path is the number that `stat` gives: stat.S_ISDIR and & 0o7777 work.
# Seen: it is Go's os.FileMode. S_ISDIR is false for a folder and S_ISREG for a file, since the type sits in bits 31, 27 and 25;
#   a setuid file has bit 23 and no 0o4000. `linkTarget` is not what the link says but an absolute path worked out inside the
#   container; the tar that comes with it has the link's own text. And the time has nanoseconds here, whole seconds in the tar.
# Why it matters: a guard "only regular files, no links" that is written with Python's stat module lets nothing through or, when
#   turned around ("refuse if S_ISLNK"), everything. Ask the tar's entries, not the header.
source "$(dirname "$0")/support/common.sh"
source "$support/engine.sh"
script <<'PYTHON'
import io
import stat
import tarfile

from docker_rig import box, changed, fetch

container = box("sh", "-c", "mkdir -p /notes/sub; echo x > /notes/note.md; ln -s note.md /notes/link; busybox chmod 4755 /notes/note.md")
container.wait()
modes = {}
for path in ("/notes/sub", "/notes/note.md", "/notes/link"):
    raw, header = fetch(container, path)
    entry = next(iter(tarfile.open(fileobj=io.BytesIO(raw))))
    mode = modes[path] = header["mode"]
    print(path, "mode", mode, hex(mode), "| S_ISDIR, S_ISREG, S_ISLNK:", stat.S_ISDIR(mode), stat.S_ISREG(mode), stat.S_ISLNK(mode))
    print("    linkTarget", repr(header["linkTarget"]), "| in the tar", repr(entry.linkname), "| times", header["mtime"], entry.mtime)
if modes != {"/notes/sub": 1 << 31 | 0o755, "/notes/note.md": 1 << 23 | 0o755, "/notes/link": 1 << 27 | 0o777}:
    changed("mode is another number")
if (header["linkTarget"], entry.linkname) != ("/notes/note.md", "note.md"):
    changed("linkTarget is the link's own text")
PYTHON
