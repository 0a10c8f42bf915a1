#!/usr/bin/env bash
# Guess: when a permission answer allows a call with other input (`updatedInput`), the transcript and the model show what
#   really ran, or at least that the input was changed.
# Seen: the other command runs. The stream, the transcript on disk and the model's next request all hold the command that
#   was asked for, with the outcome of the one that ran; the one that ran is written nowhere.
# Why it matters: a daemon that narrows an agent's write (another path, a dry run) and later shows "what did the agent
#   do?" from the transcript shows what did not happen; the model too believes that it did it. Record the changed input
#   yourself, and tell the model by the hook's or the answer's text.
source "$(dirname "$0")/support/common.sh"
source "$support/claude_cli.sh"

script <<'PYTHON'
import json

from claude_rig import changed, Cli, events, folder, requests, serve, work


def answer(number, body):
    if number == 1:
        return events(("Bash", {"command": "echo asked > asked.md", "description": "write a note"}), stop="tool_use")
    return events("done")


serve(answer)
process = Cli("--permission-prompt-tool", "stdio")
process.send("write the note")
question = process.until("control_request")
other = {"command": "echo other > other.md", "description": "write another note"}
process.write({"type": "control_response", "response": {"subtype": "success", "request_id": question["request_id"],
               "response": {"behavior": "allow", "updatedInput": other}}})
process.until("result")
process.close()

places = {
    "stream": json.dumps(process.output),
    "transcript": "".join(path.read_text() for path in work.glob(".claude/projects/*/*.jsonl")),
    "next model request": json.dumps(requests[1]["messages"]),
}
written = sorted(path.name for path in folder.iterdir())
print("asked:   echo asked > asked.md")
print("allowed:", other["command"])
print("files in the folder afterwards:", written)
for place, text in places.items():
    print(f"{place}: names asked.md {'asked.md' in text}, names other.md {'other.md' in text}")

if written != ["other.md"]:
    changed("the changed input is not what runs")
for place, text in places.items():
    if "asked.md" not in text:
        changed(f"{place}: the command that was asked for is gone")
    if "other.md" in text:
        changed(f"{place}: what ran is now visible")
PYTHON
