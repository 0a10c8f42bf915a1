#!/usr/bin/env bash
# Guess: State.OOMKilled is true from the moment at which the kernel ended a process of the container for its memory, and a
# container whose program ended well is not marked.
# Seen: while the first process lives the flag stays false, however many of its children were killed; it becomes true when the
#   container ends, also with exit code 0, after a program that dealt with the loss. The only word in time is the event `oom`.
# Why it matters: an agent whose build was killed goes on and reports something else; a look at the running container says that
#   memory is fine. And "OOMKilled, so the run failed" is wrong for one that ended with 0. Listen to events, and judge
#   by the exit code.
source "$(dirname "$0")/support/common.sh"
source "$support/engine.sh"
script <<'PYTHON'
import time

from docker_rig import box, changed, engine

since = int(time.time())
container = box("sh", "-c", "busybox dd if=/dev/zero of=/dev/null bs=100M count=1; echo child $?; sleep 5", mem_limit="20m", memswap_limit="20m")
while b"child" not in container.logs():
    time.sleep(0.2)
time.sleep(1)
container.reload()
alive = container.status, container.attrs["State"]["OOMKilled"], b"child 137" in container.logs()
code = container.wait()["StatusCode"]
container.reload()
ended = container.attrs["State"]["OOMKilled"], code
events = [event["Action"] for event in engine.events(since=since, until=int(time.time()) + 1, decode=True, filters={"container": container.id})]
print("its child was killed:", alive[2], "| while the first process lives:", alive[0], "OOMKilled", alive[1])
print("after its end: OOMKilled", ended[0], "exit code", ended[1], "| events:", events)
if not alive[2]:
    changed("the child was not ended for its memory")
if alive[:2] != ("running", False) or ended != (True, 0) or "oom" not in events:
    changed("the flag is told earlier, or only of the first process")
PYTHON
