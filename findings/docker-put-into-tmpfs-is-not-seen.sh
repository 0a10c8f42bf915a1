#!/usr/bin/env bash
# Guess: put_archive to a path on which a tmpfs is mounted puts the files there, or says that it cannot.
# Seen: it answers True and the container does not see them: they land in the layer below the tmpfs. get_archive of the same
#   path brings them back, so a check by reading back succeeds too, while a file that the container wrote there is 404. The
#   bind mount beside it works. With a read-only root the same call is an error.
# Why it matters: the usual hardening gives an agent /tmp and its home as tmpfs. Prompts, settings and skills that a daemon puts
#   there are not there for the agent, and nothing fails; what the agent leaves there cannot be fetched. Use a volume, or
#   send files through a process inside (`exec` with a tar on its stdin).
source "$(dirname "$0")/support/common.sh"
source "$support/engine.sh"
script <<'PYTHON'
import docker

from docker_rig import archive, box, changed, fetch

container = box(tmpfs={"/home": ""})
inside = lambda command: container.exec_run(["sh", "-c", command]).output.decode().split()  # noqa: E731
answer = container.put_archive("/home", archive(**{"settings.json": b"{}"}))
inside("echo mine > /home/agent.md")
seen = inside("ls /home")
back = fetch(container, "/home/settings.json")[1]["name"]
try:
    fetch(container, "/home/agent.md")
    own = "fetched"
except docker.errors.NotFound:
    own = "404"
mounted = container.put_archive("/folder", archive(**{"note.md": b"x"})) and inside("ls /folder")
print("put_archive to the tmpfs:", answer, "| the container sees:", seen)
print("get_archive of what was put:", back, "| of what the container wrote there:", own)
print("put_archive to a bind mount: the container sees:", mounted)
hard = box(tmpfs={"/home": ""}, read_only=True)
try:
    strict = hard.put_archive("/home", archive(**{"settings.json": b"{}"}))
except docker.errors.APIError as error:
    strict = error.explanation
print("with a read-only root:", strict)

if answer is not True or seen != ["agent.md"] or back != "settings.json" or own != "404":
    changed("the archive calls now see the tmpfs")
if mounted != ["note.md"]:
    changed("the bind mount is not seen either")
if "read-only" not in str(strict):
    changed("a read-only root is no error any more")
PYTHON
