#!/usr/bin/env bash
# Guess: an archive that is cut short is an error, whoever sends it: put_archive refuses it, get_archive raises.
# Seen: put_archive answers True to an empty body and to a tar that ends between two entries, with the rest simply missing; cut
#   inside an entry it answers 500, but what came before stays, and the note that was being written stays half. get_archive of a
#   folder in which a file shrinks meanwhile ends early without an exception: status and headers were sent long before, and
#   every file behind that one is missing.
# Why it matters: a folder of notes is edited while it is copied. Who unpacks such an archive and takes absence for deletion
#   deletes notes. Look for the tar's two closing blocks of zeros, and list the files on both sides.
source "$(dirname "$0")/support/common.sh"
source "$support/engine.sh"
script <<'PYTHON'
import io
import os
import tarfile
import time

import docker

from docker_rig import archive, box, changed, folder

container = box()
whole = archive(**{"a.md": b"a" * 1000, "b.md": b"b" * 100_000, "c.md": b"c"})
first, second = 512 + 1024, 512 + 1024 + 512 + 100_352
outcomes = {}
for cut, length in (("nothing at all", 0), ("after a.md", first), ("inside b.md", first + 512 + 50_000), ("after b.md", second)):
    for path in folder.iterdir():
        path.unlink()
    try:
        answer = container.put_archive("/folder", whole[:length])
    except docker.errors.APIError as error:
        answer = error.status_code
    outcomes[cut] = (answer, {path.name: path.stat().st_size for path in sorted(folder.iterdir())})
    print(f"put_archive of {cut}:", *outcomes[cut])

(folder / "a.md").write_bytes(b"a" * 60_000_000)
(folder / "z.md").write_bytes(b"z")
chunks = iter(container.get_archive("/folder")[0])
start = next(chunks)
time.sleep(1)
os.truncate(folder / "a.md", 1_000_000)
received = start + b"".join(chunks)  # an exception here would end the script
print("get_archive of a folder in which a.md shrinks: no exception,", len(received), "of 60,000,000 bytes and more")
closed = received.endswith(bytes(1024))
names = []
try:
    names += (entry.name for entry in tarfile.open(fileobj=io.BytesIO(received)))
except tarfile.ReadError as error:
    print("the tar that came:", error, "| names:", names, "| closing blocks:", closed)

if [answer for answer, _ in outcomes.values()] != [True, True, 500, True]:
    changed("put_archive answers in another way")
if outcomes["inside b.md"][1] != {"a.md": 1000, "b.md": 50_000} or len(outcomes["after b.md"][1]) != 2:
    changed("a cut archive leaves other files behind")
if len(received) > 50_000_000 or any("z.md" in name for name in names):
    changed("get_archive now brings the whole folder")
PYTHON
