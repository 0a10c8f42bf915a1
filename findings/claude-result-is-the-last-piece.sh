#!/usr/bin/env bash
# Guess: `result` holds the whole answer; one that was cut by the limit of output tokens is an error, or says so.
# Seen: at `stop_reason: max_tokens`, and also when the connection is lost after some text, the CLI asks the model to go on
#   from where it stopped, by itself. `result` then holds the last piece alone, with `subtype: success`, `is_error: false`,
#   `stop_reason: end_turn`. The pieces before it are in `assistant` events only; `num_turns` above 1 without a tool is the
#   one hint.
# Why it matters: a reflection, a summary or a note that is written from `result` loses its beginning without any error.
#   Put the text together from the assistant events.
source "$(dirname "$0")/support/common.sh"
source "$support/claude_cli.sh"

script <<'PYTHON'
from claude_rig import changed, Cli, events, serve


def answer(number, body):
    cut = {1: "max_tokens", 2: "max_tokens", 4: None}
    return events(f"piece {number};", stop=cut.get(number, "end_turn"))


serve(answer)
def outcome(flags):
    process = Cli(*flags)
    process.send("write it all")
    result = process.until("result")
    process.close()
    pieces = [block["text"] for event in process.output if event["type"] == "assistant"
              for block in event["message"]["content"] if block["type"] == "text"]
    return pieces, {key: result[key] for key in ("subtype", "is_error", "stop_reason", "num_turns", "result")}


for cause, pieces in (("limit of output tokens", ["piece 1;", "piece 2;", "piece 3;"]), ("connection lost", ["piece 4;", "piece 5;"])):
    parts, result = outcome(())
    print(f"{cause}: assistant events {parts}\n  result {result}")
    if parts != pieces:
        changed(f"{cause}: the pieces are now {parts}")
    if result != {"subtype": "success", "is_error": False, "stop_reason": "end_turn", "num_turns": len(pieces), "result": pieces[-1]}:
        changed(f"{cause}: the result is now {result}")
PYTHON
