# Sourced by scripts about the claude CLI: it installs the CLI that claude-agent-sdk bundles and writes
# claude_rig.py beside it, with a scripted model server on loopback and a client of the stream protocol.
python_packages --no-deps claude-agent-sdk==0.2.189
export PYTHONPATH="$work" PYTHONDONTWRITEBYTECODE=1
cli=$(find "$work/venv" -path '*_bundled/claude')
echo "CLI $(HOME="$work" "$cli" --version)"

# script: runs the Python on its stdin, for two minutes at most.
script() {
  timeout 120 "$python" - || changed "the lines above say what, or it did not end in time"
}

cat >"$work/claude_rig.py" <<'PYTHON'
import http.server
import itertools
import json
import os
import pathlib
import subprocess
import sys
import threading

work = pathlib.Path(__file__).parent
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
        for event in self.server.answer(len(requests), body):
            self.wfile.write(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode())
            self.wfile.flush()


server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), ModelServer)
server.daemon_threads = True


def serve(answer):
    """`answer(number, body)` gives the events of each model request, numbered from 1."""
    server.answer = answer
    threading.Thread(target=server.serve_forever, daemon=True).start()


def changed(words):
    print("CHANGED:", words)
    sys.exit(1)


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
PYTHON
