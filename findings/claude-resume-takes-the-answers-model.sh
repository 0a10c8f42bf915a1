#!/usr/bin/env bash
# Guess: a resumed session without `--model` asks for the same model as before: the user's default.
# Seen: it asks for the model that the server *named in its last answer* ("model" in message_start), which the transcript
#   keeps. Within one process nothing changes; the first request after `--resume` does. `--model` on the resume overrules it.
# Why it matters: a gateway, a proxy or a provider that answers with another name (an alias resolved, a fallback, a
#   cheaper stand-in) moves every later turn of that conversation to that name: other price, other window, or a name that
#   the gateway does not know. A daemon that resumes sessions should always pass `--model`.
source "$(dirname "$0")/support/common.sh"
source "$support/claude_cli.sh"

script <<'PYTHON'
from claude_rig import changed, Cli, events, requests, serve, turn


def answer(number, body):
    return events(f"answer {number}", model="claude-sonnet-4-5")


serve(answer)
session = "22222222-2222-4222-8222-222222222222"
first = Cli("--session-id", session)
first.send("one")
first.until("result")
first.send("two")
first.until("result")
first.close()
turn("three", "--resume", session)
turn("four", "--resume", session, "--model", "claude-opus-5-5")
models = [body["model"] for body in requests]
print("asked for, in one process:      ", models[0], models[1])
print("the server's answers are named:  claude-sonnet-4-5")
print("asked for after --resume:       ", models[2])
print("after --resume with --model:    ", models[3])

if "sonnet" in models[0] or models[1] != models[0]:
    changed("the first process no longer keeps its default model")
if models[2] != "claude-sonnet-4-5":
    changed("a resumed session no longer follows the name in the last answer")
if models[3] != "claude-opus-5-5":
    changed("--model no longer overrules it")
PYTHON
