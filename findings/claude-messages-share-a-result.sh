#!/usr/bin/env bash
# Guess: each message on stdin is a turn of its own: one sent while the agent works waits, and gets its own `result`.
# Seen: messages that come while a tool runs are put into the running turn, behind the tool's result, wrapped in words of
#   the CLI ("The user sent a new message while you were working"). There is one `result` for all of them, the first one's.
#   Only messages with a `uuid` can be followed: `command_lifecycle` goes from queued to completed for each.
# Why it matters: a client that counts one result a message hangs; one that pairs the n-th result with the n-th message shows
#   the answer under the wrong question. Cost and tokens of a follow-up cannot be told from the first message's.
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


def texts(body):
    """The conversation in a model request, without what the CLI adds of its own."""
    found = []
    for message in body["messages"]:
        content = message["content"]
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
        found += [(message["role"], block["text"].strip()) for block in blocks
                  if block["type"] == "text" and message["role"] != "system" and "<system-reminder>" not in block["text"]]
    return found


print(subprocess.run([cli, "--version"], capture_output=True, text=True, check=True, env={"HOME": str(work)}).stdout.strip())
import time


def answer(number, body):
    if number == 1:
        wait = "until [ -e go ]; do sleep 0.1; done"
        return events(("Bash", {"command": wait, "description": "wait"}), stop="tool_use")
    return events(f"answer {number}")


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

changed = []
if results != ["answer 2"] or len(requests) != 2:
    changed.append("the messages no longer share one result")
if len(additions) != 2 or not all("while you were working" in lines[0] for lines in additions):
    changed.append("they are no longer wrapped into the running turn")
if not all(found[0] == "queued" and found[-1] == "completed" for found in states.values()):
    changed.append("command_lifecycle no longer follows each message")

server.shutdown()
if changed:
    print("CHANGED:", *changed, sep="\n  ")
sys.exit(1 if changed else 0)
PYTHON
