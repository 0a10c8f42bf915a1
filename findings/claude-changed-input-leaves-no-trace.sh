#!/usr/bin/env bash
# Guess: when a permission answer allows a call with other input (`updatedInput`), the transcript and the model show what
#   really ran, or at least that the input was changed.
# Seen: the other command runs. The stream, the transcript on disk and the model's next request all hold the command that
#   was asked for, with the outcome of the one that ran; the one that ran is written nowhere.
# Why it matters: a daemon that narrows an agent's write (another path, a dry run) and later shows "what did the agent
#   do?" from the transcript shows what did not happen; the model too believes that it did it. Record the changed input
#   yourself, and tell the model by the hook's or the answer's text.
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
def answer(number, body):
    if number == 1:
        return events(("Bash", {"command": "echo asked > asked.md", "description": "write a note"}), stop="tool_use")
    return events("done")


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

changed = []
if written != ["other.md"]:
    changed.append("the changed input is not what runs")
for place, text in places.items():
    if "asked.md" not in text:
        changed.append(f"{place}: the command that was asked for is gone")
    if "other.md" in text:
        changed.append(f"{place}: what ran is now visible")

server.shutdown()
if changed:
    print("CHANGED:", *changed, sep="\n  ")
sys.exit(1 if changed else 0)
PYTHON
