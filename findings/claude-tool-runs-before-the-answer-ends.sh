#!/usr/bin/env bash
# Guess: a tool runs when the model's answer has come in whole; if the connection is lost before `message_stop`, the answer
#   counts as failed, nothing has run, and it is asked for again.
# Seen: the tool runs as soon as its own block is complete, while the answer is still streaming. When the answer is then cut,
#   it is not asked for again: its tool result goes to the model as if nothing had happened, an assistant message "API Error:
#   Connection lost mid-response" stands in the stream between them, and the result is a plain success.
# Why it matters: "the stream broke, so nothing was written" is false; sending the prompt again would write twice. An
#   assistant event with `error` set is no failed turn, and its text must not end up in a note or a chat as the agent's words.
source "$(dirname "$0")/support/common.sh"
source "$support/claude_cli.sh"

script <<'PYTHON'
import time

from claude_rig import changed, Cli, events, folder, requests, serve


note = folder / "note.md"
ran_before_the_end = []


def answer(number, body):
    if number > 1:
        yield from events("all done")
        return
    yield from events("I will write.", ("Bash", {"command": "echo written >> note.md", "description": "append a line"}), stop=None)
    until = time.monotonic() + 20
    while not note.exists() and time.monotonic() < until:
        time.sleep(0.05)
    ran_before_the_end.append(note.exists())


serve(answer)
process = Cli("--allowed-tools", "Bash")
process.send("append a line")
result = process.until("result")
process.close()
errors = [(event["error"], event["message"]["content"][0]["text"]) for event in process.output if event.get("error")]
after = [block["type"] for message in requests[1]["messages"] if isinstance(message["content"], list) for block in message["content"]]
print("the note is written while the answer still streams:", ran_before_the_end[0])
print("in the stream:", errors)
print("second request brings a tool result:", "tool_result" in after, "| requests:", len(requests))
print("result:", result["subtype"], result["is_error"], result["result"], "| note:", note.read_text().split())

if ran_before_the_end != [True]:
    changed("the tool no longer runs before the answer has ended")
if [kind for kind, _ in errors] != ["server_error"]:
    changed(f"the lost connection is now told as {errors}")
if len(requests) != 2 or "tool_result" not in after or note.read_text() != "written\n":
    changed("the cut answer is handled in another way")
if (result["subtype"], result["is_error"], result["result"]) != ("success", False, "all done"):
    changed("the result is no longer a plain success")
PYTHON
