#!/usr/bin/env bash
# Guess: each message on stdin is a turn of its own: one sent while the agent works waits, and gets its own `result`.
# Seen: messages that come while a tool runs are put into the running turn, behind the tool's result, wrapped in words of
#   the CLI ("The user sent a new message while you were working"). There is one `result` for all of them, the first one's.
#   Only messages with a `uuid` can be followed: `command_lifecycle` goes from queued to completed for each.
# Why it matters: a client that counts one result a message hangs; one that pairs the n-th result with the n-th message shows
#   the answer under the wrong question. Cost and tokens of a follow-up cannot be told from the first message's.
source "$(dirname "$0")/support/common.sh"
source "$support/claude_cli.sh"

script <<'PYTHON'
import time

from claude_rig import changed, Cli, events, folder, requests, serve, texts


def answer(number, body):
    if number == 1:
        wait = "until [ -e go ]; do sleep 0.1; done"
        return events(("Bash", {"command": wait, "description": "wait"}), stop="tool_use")
    return events(f"answer {number}")


serve(answer)
ids = [f"{digit}0000000-0000-4000-8000-000000000000" for digit in "123"]
process = Cli("--allowed-tools", "Bash")
process.send("first", uuid=ids[0])
process.until("assistant")
for text, label in zip(("second", "third"), ids[1:]):
    process.send(text, uuid=label)
    process.until("command_lifecycle")  # queued
(folder / "go").touch()
process.until("result")
process.close()

results = [event["result"] for event in process.output if event["type"] == "result"]
states = {label: [event["state"] for event in process.output if event.get("command_uuid") == label] for label in ids}
additions = [text.splitlines()[:2] for role, text in texts(requests[1]) if "second" in text or "third" in text]
print("messages sent: 3, model requests:", len(requests), "| results:", results)
print("in the second request:", *additions, sep="\n  ")
print("states:", *states.items(), sep="\n  ")

if results != ["answer 2"] or len(requests) != 2:
    changed("the messages no longer share one result")
if len(additions) != 2 or not all("while you were working" in lines[0] for lines in additions):
    changed("they are no longer wrapped into the running turn")
if not all(found[0] == "queued" and found[-1] == "completed" for found in states.values()):
    changed("command_lifecycle no longer follows each message")
PYTHON
