#!/usr/bin/env bash
# Guess: `uuid` on a message that is sent over stream-json is a label: two messages are two turns, whatever their labels.
# Seen: a message whose uuid was seen before is dropped with all its text: no model request, no error and no `result`,
#   also in a later process that resumes the session (the transcript is where it looks). In the process that saw it there
#   is not one line of output; a resumed one says only `command_lifecycle: completed`. A fork of the session takes it as new.
# Why it matters: this makes sending again after a crash safe, if the uuid is kept with the message. And it is a trap: who
#   derives the uuid from the chat or the note, or waits for one `result` a message, waits for ever.
source "$(dirname "$0")/support/common.sh"
source "$support/claude_cli.sh"

script <<'PYTHON'
from claude_rig import changed, Cli, events, requests, serve


def answer(number, body):
    return events(f"answer {number}")


serve(answer)
session, label = "22222222-2222-4222-8222-222222222222", "11111111-1111-4111-8111-111111111111"
process = Cli("--session-id", session)
process.send("first", uuid=label)
process.until("result")
process.until("command_lifecycle")  # of the first: completed
before = len(process.output)
process.send("another text", uuid=label)
process.close()
silent = process.output[before:]
print("same process, same uuid, other text: requests", len(requests), "| lines", len(silent))

resumed = Cli("--resume", session)
resumed.send("another text", uuid=label)
resumed.close()
states = [(event["type"], event.get("state")) for event in resumed.output]
print("resumed session:                     requests", len(requests), "| lines", states)
after_resume = len(requests)

turns = Cli("--resume", session, "--fork-session")
turns.send("another text", uuid=label)
forked = turns.until("result")
turns.close()
print("fork of the session:                 requests", len(requests), "| result", forked and forked["result"])

if silent or after_resume != 1:
    changed("a message with a known uuid is no longer dropped")
if states != [("command_lifecycle", "completed")]:
    changed(f"a resumed session now says {states}")
if len(requests) != 2:
    changed("a fork no longer takes the uuid as new")
PYTHON
