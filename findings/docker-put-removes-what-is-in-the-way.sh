#!/usr/bin/env bash
# Guess: put_archive refuses a file whose name is taken by a folder with files in it, as `cp`, `mv` and `tar` do, and a folder
#   whose name is taken by a file.
# Seen: it removes what is in the way, the whole folder with all that is below it, and answers True. The engine has a switch
#   against this (noOverwriteDirNonDir), the docker command sends it always, and the Python package has no argument for it.
# Why it matters: an agent's archive with a *file* called Daily takes a person's journal with it, in a mounted vault too. Code
#   that was tried with `docker cp` behaves in another way once it uses the package. Compare the archive's names with what is
#   there before sending it, or pass the switch through the package's low-level request.
source "$(dirname "$0")/support/common.sh"
source "$support/engine.sh"
mkdir -p "$work/folder/Daily/2026"
echo entry >"$work/folder/Daily/2026/entry.md"
echo note >"$work/folder/Ideas"
script <<'PYTHON'
from docker_rig import archive, box, changed, engine, folder

container = box()
print("before:", sorted(str(path.relative_to(folder)) for path in folder.rglob("*")))

address = engine.api._url("/containers/{0}/archive", container.id)
careful = engine.api._put(address, params={"path": "/folder", "noOverwriteDirNonDir": "1"}, data=archive(Daily=b"a file"))
print("with noOverwriteDirNonDir:", careful.status_code, careful.json()["message"].rsplit(": ", 1)[-1])
kept = (folder / "Daily/2026/entry.md").exists()

answers = container.put_archive("/folder", archive(Daily=b"a file")), container.put_archive("/folder", archive(Ideas=None))
after = sorted((path.name, "folder" if path.is_dir() else "file") for path in folder.rglob("*"))
print("put_archive:", *answers, "| after:", after)
if careful.status_code == 200 or not kept:
    changed("the switch no longer protects the folder")
if answers != (True, True) or after != [("Daily", "file"), ("Ideas", "folder")]:
    changed("put_archive no longer removes what is in the way")
PYTHON
