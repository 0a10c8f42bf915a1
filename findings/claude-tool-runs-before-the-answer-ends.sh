#!/usr/bin/env bash
# Guess: a tool runs when the model's answer has come in whole; if the connection is lost before `message_stop`, the answer
#   counts as failed, nothing has run, and it is asked for again.
# Seen: the tool runs as soon as its own block is complete, while the answer is still streaming. When the answer is then cut,
#   it is not asked for again: its tool result goes to the model as if nothing had happened, an assistant message "API Error:
#   Connection lost mid-response" stands in the stream between them, and the result is a plain success.
# Why it matters: "the stream broke, so nothing was written" is false; sending the prompt again would write twice. An
#   assistant event with `error` set is no failed turn, and its text must not end up in a note or a chat as the agent's words.
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


print(subprocess.run([cli, "--version"], capture_output=True, text=True, check=True, env={"HOME": str(work)}).stdout.strip())
import time

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

changed = []
if ran_before_the_end != [True]:
    changed.append("the tool no longer runs before the answer has ended")
if [kind for kind, _ in errors] != ["server_error"]:
    changed.append(f"the lost connection is now told as {errors}")
if len(requests) != 2 or "tool_result" not in after or note.read_text() != "written\n":
    changed.append("the cut answer is handled in another way")
if (result["subtype"], result["is_error"], result["result"]) != ("success", False, "all done"):
    changed.append("the result is no longer a plain success")

server.shutdown()
if changed:
    print("CHANGED:", *changed, sep="\n  ")
sys.exit(1 if changed else 0)
PYTHON
