#!/usr/bin/env bash
# Guess: the stream of an exec or of an attached container is a pipe: it ends when the last writer has closed its end, be that
# before the program ends or after it.
# Seen: both ways wrong. A program that closes its outputs and works on keeps the stream open until it ends. And a child that
#   holds the output and lives on after the program is cut off a second or two after that: it works on, and its next word is in
#   no stream and ends it, as writing to a closed pipe does: what it was to do after that word is not done. ExitCode is that of the
#   program, Running is false.
# Why it matters: "the stream ended, so the agent's work is over" is wrong for whatever it left in the background, which still
#   edits notes, and which ends in the middle because it said something. Give such a child a file for its output, and end the container whole.
source "$(dirname "$0")/support/common.sh"
source "$support/engine.sh"
script <<'PYTHON'
import time

from docker_rig import box, changed, engine

container = box()

def run(command):
    job = engine.api.exec_create(container.id, ["sh", "-c", command])
    start = time.monotonic()
    output = b"".join(engine.api.exec_start(job, stream=True))
    took, state = time.monotonic() - start, engine.api.exec_inspect(job)
    return output, took, (state["ExitCode"], state["Running"])

output, took, state = run("echo first; exec >&- 2>&-; sleep 5; exit 3")
print("outputs closed at once, end after 5 s: stream ends", "with the program" if took > 4 else "before it", output, state)
if took < 4 or (output, state) != (b"first\n", (3, False)):
    changed("the stream ends when the outputs are closed")
output, took, state = run("(sleep 6; echo x >/tmp/before; echo late; echo x >/tmp/after) & echo first; exit 3")
print("a child holds the output for 6 s: stream ends", "before it" if took < 5 else "with it", output, state)
time.sleep(10)
files = container.exec_run("ls /tmp").output.decode().split()
print("what the child did meanwhile, before and after its own word:", files)
if took > 5 or (output, state) != (b"first\n", (3, False)) or files != ["before"]:
    changed("the stream waits for the child, or the child lives otherwise")
PYTHON
