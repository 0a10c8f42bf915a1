#!/usr/bin/env bash
# Guess: `commit` keeps the files of a container whatever they are called.
# Seen: a file called `.wh.note.md` is gone in the image and takes `note.md` with it, since layers write deletions under that
#   name. The container shows both, `export` has both; nothing warns.
# Why it matters: names come from people, imports and agents. A snapshot of a workspace by `commit` is no copy of it: one odd
#   name deletes a neighbour. Use volumes and the folder itself for what must be kept, and leave such names out of images.
source "$(dirname "$0")/support/common.sh"
source "$support/engine.sh"
script <<'PYTHON'
import io
import tarfile

from docker_rig import box, changed, engine


def names(image):
    return engine.containers.run(image, ["ls", "-A", "/notes"], remove=True, network_disabled=True).decode().split()


first = box("sh", "-c", "mkdir /notes; echo precious > /notes/note.md; echo other > /notes/other.md")
first.wait()
first.commit("first")
second = box("sh", "-c", "echo odd > /notes/.wh.note.md; ls -A /notes", image="first")
second.wait()
inside = second.logs().decode().split()
second.commit("second")
exported = [entry.name for entry in tarfile.open(fileobj=io.BytesIO(b"".join(second.export()))) if entry.name.startswith("notes/")]
print("first image:         ", names("first"))
print("in the container:    ", inside)
print("exported:            ", exported)
print("committed image:     ", names("second"))
if inside != [".wh.note.md", "note.md", "other.md"] or len(exported) != 3:
    changed("the container or its export have other names")
if names("second") != ["other.md"]:
    changed("commit no longer reads the name as a deletion")
PYTHON
