#!/usr/bin/env bash
# Guess: a session that a process has open cannot be resumed by a second one (`--session-id` refuses an id that exists), or
#   the transcript ends with both.
# Seen: there is no lock. The second process finds the first one's question without its answer and puts an assistant
#   message "No response requested." behind it. Both end with success. From then on the conversation goes on from the
#   second: the first one's answer is in the file, and no later request has it.
# Why it matters: a chat that is open in two clients, or a retry while the old process still works, silently loses an answer
#   that the person saw; the model then says that it never gave it. One process a session is the daemon's own duty.
source "$(dirname "$0")/support/common.sh"
source "$support/claude_cli.sh"

script <<'PYTHON'
import threading

from claude_rig import changed, Cli, events, requests, serve, texts, turn, work


second_asked, first_done = threading.Event(), threading.Event()


def answer(number, body):
    if number == 2:
        second_asked.wait(30)
    if number == 3:
        second_asked.set()
        first_done.wait(30)
    return events(f"answer {number}")


serve(answer)
session = "22222222-2222-4222-8222-222222222222"
turn("begin", "--session-id", session)
one = Cli("--resume", session)
one.send("from one")
while len(requests) < 2:  # it has asked and waits for its answer
    threading.Event().wait(0.05)
two = Cli("--resume", session)
two.send("from two")
first = one.until("result")
first_done.set()
second = two.until("result")
one.close()
two.close()
print("results:", [(result["subtype"], result["result"]) for result in (first, second)])
turn("afterwards", "--resume", session)
later = texts(requests[-1])
print("a later turn's conversation:", *later, sep="\n  ")
transcript = "".join(path.read_text() for path in work.glob(f".claude/projects/*/{session}.jsonl"))

if (first["result"], second["result"]) != ("answer 2", "answer 3"):
    changed("one of the two processes is now refused")
if "answer 2" not in transcript:
    changed("the first answer is no longer in the file")
if later != [("user", "begin"), ("assistant", "answer 1"), ("user", "from one"), ("assistant", "No response requested."),
             ("user", "from two"), ("assistant", "answer 3"), ("user", "afterwards")]:
    changed("the later conversation is another one")
PYTHON
