#!/usr/bin/env bash
# Guess: a resumed session without `--model` asks for the same model as before: the user's default.
# Seen: it asks for the model that the server *named in its last answer* ("model" in message_start), which the transcript
#   keeps. Within one process nothing changes; the first request after `--resume` does. `--model` on the resume overrules it.
# Why it matters: a gateway, a proxy or a provider that answers with another name (an alias resolved, a fallback, a
#   cheaper stand-in) moves every later turn of that conversation to that name: other price, other window, or a name that
#   the gateway does not know. A daemon that resumes sessions should always pass `--model`.
set -euo pipefail
command -v python3 >/dev/null || { echo "needs python3"; exit 2; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install -qq --no-deps --disable-pip-version-check claude-agent-sdk==0.2.189

timeout 120 "$work/venv/bin/python" - "$work" <<'PYTHON' || { echo "FAILED: changed, or no end within 120 s"; exit 1; }
import http.server
import itertools
import json
import os
import pathlib
import subprocess
import sys
import threading

work = pathlib.Path(sys.argv[1])
cli = next(work.rglob("_bundled/claude"))
folder = work / "folder"
folder.mkdir()
requests = []  # the body of each model request, in order
answers = itertools.count(1)


def events(*blocks, stop="end_turn", model="claude-opus-5-5", tokens=(10, 5)):
    """A streamed answer; `stop=None` leaves its end out, as a lost connection does."""
    name, usage = next(answers), {"input_tokens": tokens[0], "output_tokens": 1}
    yield {"type": "message_start", "message": {"id": f"msg_{name}", "type": "message", "role": "assistant",
           "model": model, "content": [], "stop_reason": None, "stop_sequence": None, "usage": usage}}
    for index, block in enumerate(blocks):
        if isinstance(block, str):
            empty, delta = {"type": "text", "text": ""}, {"type": "text_delta", "text": block}
        else:
            empty = {"type": "tool_use", "id": f"toolu_{name}_{index}", "name": block[0], "input": {}}
            delta = {"type": "input_json_delta", "partial_json": json.dumps(block[1])}
        yield {"type": "content_block_start", "index": index, "content_block": empty}
        yield {"type": "content_block_delta", "index": index, "delta": delta}
        yield {"type": "content_block_stop", "index": index}
    if stop:
        yield {"type": "message_delta", "delta": {"stop_reason": stop, "stop_sequence": None}, "usage": {"output_tokens": tokens[1]}}
        yield {"type": "message_stop"}


class ModelServer(http.server.BaseHTTPRequestHandler):
    def log_message(self, *_):
        pass

    def do_HEAD(self):
        self.send_response(200)
        self.end_headers()

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        requests.append(body)
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.end_headers()
        for event in answer(len(requests), body):
            self.wfile.write(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode())
            self.wfile.flush()


server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), ModelServer)
server.daemon_threads = True
threading.Thread(target=server.serve_forever, daemon=True).start()


class Cli:
    """One process of the CLI that speaks JSON lines on both sides."""

    def __init__(self, *flags):
        env = {"PATH": os.environ["PATH"], "HOME": str(work), "ANTHROPIC_API_KEY": "none",
               "ANTHROPIC_BASE_URL": f"http://127.0.0.1:{server.server_port}", "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1"}
        self.process = subprocess.Popen(
            [cli, "-p", "--verbose", "--input-format", "stream-json", "--output-format", "stream-json",
             "--setting-sources", "", "--settings", '{"cleanupPeriodDays": 36500}', *flags],
            cwd=folder, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.output = []

    def send(self, text, **more):
        message = {"type": "user", "message": {"role": "user", "content": text}, "parent_tool_use_id": None, "session_id": ""}
        self.write({**message, **more})

    def write(self, line):
        self.process.stdin.write(json.dumps(line) + "\n")
        self.process.stdin.flush()

    def until(self, kind):
        for line in self.process.stdout:
            self.output.append(json.loads(line))
            if self.output[-1]["type"] == kind:
                return self.output[-1]
        return None

    def close(self):
        self.process.stdin.close()
        self.until("nothing more")
        return self.process.wait(60)


def turn(text, *flags):
    """One message to a process of its own: the result's line."""
    process = Cli(*flags)
    process.send(text)
    process.close()
    return next(event for event in process.output if event["type"] == "result")


print(subprocess.run([cli, "--version"], capture_output=True, text=True, check=True, env={"HOME": str(work)}).stdout.strip())
def answer(number, body):
    return events(f"answer {number}", model="claude-sonnet-4-5")


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

changed = []
if "sonnet" in models[0] or models[1] != models[0]:
    changed.append("the first process no longer keeps its default model")
if models[2] != "claude-sonnet-4-5":
    changed.append("a resumed session no longer follows the name in the last answer")
if models[3] != "claude-opus-5-5":
    changed.append("--model no longer overrules it")

server.shutdown()
if changed:
    print("CHANGED:", *changed, sep="\n  ")
sys.exit(1 if changed else 0)
PYTHON
