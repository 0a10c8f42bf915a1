#!/usr/bin/env bash
# Guess: server-sent events are so small a format that all readers give the same events for a valid stream.
# Seen: of three Python readers no two agree. A block of `id:` or `retry:` alone, which by the standard is no
# event, is a message with empty data for httpx-sse and aiosseclient. A block cut off by the end of the
# stream is dropped by those two and delivered by sseclient-py, half a line or not. The id of an earlier
# event stays for httpx-sse alone. aiosseclient cuts data at U+2028 and loses the rest. None of them reads
# the first event after a byte order mark. eventsource-parser (npm) does what the standard says, but for the
# id of a block without data, which it forgets.
# Why it matters: a server that opens with `retry:` sends such clients an empty message on every connection
# (and json.loads of it raises); one that is restarted mid-event makes others act on half of it; clients
# that resume by the last event's own id start again from the beginning. So: no block without data, JSON
# with escaped non-ASCII, an id on every event, and an end that a client can tell from a cut.
source "$(dirname "$0")/support/common.sh"
python_packages httpx==0.28.1 httpx-sse==0.4.3 requests==2.32.5 sseclient-py==1.9.0 aiosseclient==0.1.8 aiohttp==3.14.5
node_packages eventsource-parser@4.1.3

cat >"$work/node/parse.mjs" <<'X'
import { createParser } from 'eventsource-parser';
import { readFileSync } from 'node:fs';
const events = [];
let last = '';
const parser = createParser({ onEvent: (event) => events.push((last = event.id ?? last) + '|' + event.data) });
parser.feed(readFileSync(0, 'utf8'));
console.log(JSON.stringify(events));
X
cat >"$work/run.py" <<'X'
import asyncio, contextlib, http.server, io, json, subprocess, sys, threading
import aiosseclient, httpx, httpx_sse, requests, sseclient

STREAMS = {
    "retry alone": b"retry: 500\n\ndata: a\n\n",
    "id alone": b"id: 4\n\ndata: a\n\n",
    "cut off": b"data: a\n\ndata: {\"half\n",
    "id stays": b"id: 7\ndata: a\n\ndata: b\n\n",
    "U+2028": "data: a\u2028b\n\n".encode(),
    "mark first": b"\xef\xbb\xbfdata: a\n\n",
}

class Server(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.end_headers()
        self.wfile.write(list(STREAMS.values())[int(self.path[1:])])
    def log_message(self, *_): pass

def text(event):
    return f"{event.id or ''}|{event.data}"

def by_httpx(url):
    with httpx.Client(trust_env=False) as client, httpx_sse.connect_sse(client, "GET", url) as source:
        return [text(event) for event in source.iter_sse()]

def by_requests(url):
    session = requests.Session()
    session.trust_env = False
    return [text(event) for event in sseclient.SSEClient(session.get(url, stream=True).iter_content(None)).events()]

def by_aiohttp(url):
    async def read():
        return [text(event) async for event in aiosseclient.aiosseclient(url)]
    with contextlib.redirect_stdout(io.StringIO()):
        return asyncio.run(asyncio.wait_for(read(), 10))

def by_npm(number):
    stream = list(STREAMS.values())[number]
    return json.loads(subprocess.run(["node", "parse.mjs"], cwd=sys.argv[1], input=stream, capture_output=True, check=True).stdout)

server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Server)
threading.Thread(target=server.serve_forever, daemon=True).start()
for number, name in enumerate(STREAMS):
    url = f"http://127.0.0.1:{server.server_port}/{number}"
    for reader, events in ("httpx-sse", by_httpx(url)), ("sseclient-py", by_requests(url)), ("aiosseclient", by_aiohttp(url)), ("eventsource-parser", by_npm(number)):
        print(f"{name}: {reader}: {json.dumps(events)}")
X
"$python" "$work/run.py" "$work/node" 2>/dev/null | tee "$work/out"
cat >"$work/expected" <<'X'
retry alone: httpx-sse: ["|", "|a"]
retry alone: sseclient-py: ["|a"]
retry alone: aiosseclient: ["|", "|a"]
retry alone: eventsource-parser: ["|a"]
id alone: httpx-sse: ["4|", "4|a"]
id alone: sseclient-py: ["|a"]
id alone: aiosseclient: ["4|", "|a"]
id alone: eventsource-parser: ["|a"]
cut off: httpx-sse: ["|a"]
cut off: sseclient-py: ["|a", "|{\"half"]
cut off: aiosseclient: ["|a"]
cut off: eventsource-parser: ["|a"]
id stays: httpx-sse: ["7|a", "7|b"]
id stays: sseclient-py: ["7|a", "|b"]
id stays: aiosseclient: ["7|a", "|b"]
id stays: eventsource-parser: ["7|a", "7|b"]
U+2028: httpx-sse: ["|a\u2028b"]
U+2028: sseclient-py: ["|a\u2028b"]
U+2028: aiosseclient: ["|a"]
U+2028: eventsource-parser: ["|a\u2028b"]
mark first: httpx-sse: []
mark first: sseclient-py: []
mark first: aiosseclient: ["|"]
mark first: eventsource-parser: ["|a"]
X
diff "$work/expected" "$work/out" || changed "see the lines above"
