#!/usr/bin/env bash
# Guess: a session that a process has open cannot be resumed by a second one (`--session-id` refuses an id that exists), or
#   the transcript ends with both.
# Seen: there is no lock. The second process finds the first one's question without its answer and puts an assistant
#   message "No response requested." behind it. Both end with success. From then on the conversation goes on from the
#   second: the first one's answer is in the file, and no later request has it.
# Why it matters: a chat that is open in two clients, or a retry while the old process still works, silently loses an answer
#   that the person saw; the model then says that it never gave it. One process a session is the daemon's own duty.
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
second_asked, first_done = threading.Event(), threading.Event()


def answer(number, body):
    if number == 2:
        second_asked.wait(30)
    if number == 3:
        second_asked.set()
        first_done.wait(30)
    return events(f"answer {number}")


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

changed = []
if (first["result"], second["result"]) != ("answer 2", "answer 3"):
    changed.append("one of the two processes is now refused")
if "answer 2" not in transcript:
    changed.append("the first answer is no longer in the file")
if later != [("user", "begin"), ("assistant", "answer 1"), ("user", "from one"), ("assistant", "No response requested."),
             ("user", "from two"), ("assistant", "answer 3"), ("user", "afterwards")]:
    changed.append("the later conversation is another one")

server.shutdown()
if changed:
    print("CHANGED:", *changed, sep="\n  ")
sys.exit(1 if changed else 0)
PYTHON
