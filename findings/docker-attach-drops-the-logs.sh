#!/usr/bin/env bash
# Guess: attach(logs=True) of the Python package gives what the container has written so far, like logs(), also when it runs.
# Seen: mostly it gives nothing. The engine sends the logs right behind the head of its answer; the package reads the answer's head
#   through a buffer and then goes on with the bare socket, so that all which came along in the buffer is gone. The same request read
#   as a plain answer, and logs(), have every byte, each time. With stream=True the first part is lost as well.
# Why it matters: a daemon that attaches again to a running agent after its own restart misses lines from the middle of the
#   talk, on a quick machine more often, and no error says so. Take what was written from logs(), and attach before the start.
source "$(dirname "$0")/support/common.sh"
source "$support/engine.sh"
script <<'PYTHON'
import time

from docker_rig import box, changed, engine

TRIES = 20
container = box("sh", "-c", "echo hello; sleep 600")
while not container.logs():
    time.sleep(0.2)
attached = [container.attach(logs=True) for _ in range(TRIES)]
logged = [container.logs() for _ in range(TRIES)]
url = engine.api.base_url + f"/containers/{container.id}/attach"
plain = [engine.api.post(url, params={"logs": 1, "stdout": 1, "stderr": 1}).content for _ in range(TRIES)]
print(f"of {TRIES} tries the line is missing in attach(logs=True):", "some or all" if attached.count(b"") else "none")
print(f"in logs(): {logged.count(b'')}, in the same request read plainly: {sum(b'hello' not in answer for answer in plain)}")
if not attached.count(b""):
    changed("attach gave the logs each time")
if set(logged) != {b"hello\n"} or not all(answer.endswith(b"hello\n") for answer in plain):
    changed("logs() or the engine's answer lacks the line too")
PYTHON
