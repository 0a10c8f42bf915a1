"""The page of a module in the page: it works through a narrow bridge, and reaches nothing else,
whatever it tries.
"""

from __future__ import annotations

import json
import shutil
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import expect

from tests.cli.command_line import CommandLine
from tests.modules.small_modules import write_module
from tests.web.opened import Opens

CODE = """
@route("GET", "/beds")
async def beds(self):
    return {"beds": ["beans"]}

@route("POST", "/add")
async def add(self, bed: str):
    return {"added": bed}
"""
PAGE = """<!doctype html><html lang="en"><head><title>Beds</title>
<link rel="stylesheet" href="look.css"></head><body><main><h1>Beds</h1><p id="found">no</p>
<p id="tried"></p></main><script src="js/app.js"></script></body></html>"""
SCRIPT = """
const ask = (how, path, body) => parachute[how](path, body).then(
  (answer) => JSON.stringify(answer), (error) => `refused: ${error.message}`);
const attempt = async (act) => { try { return String(await act()); } catch (error) { return `refused: ${error.name}`; } };
const timed = (promise) => Promise.race([promise, new Promise((resolve) => setTimeout(() => resolve('refused: silence'), 3000))]);
(async () => {
  document.getElementById('found').textContent = `${await ask('get', 'beds')} ${await ask('post', 'add', { bed: 'peas' })} ${parachute.theme}`;
  const tried = {};
  for (const path of PATHS) tried[path] = await ask('get', path);
  tried.post = await ask('post', '../daily/entries', { content: 'x' });
  tried.key = await attempt(() => localStorage.getItem('parachute.key'));
  tried.cookie = await attempt(() => document.cookie);
  tried.database = await attempt(() => new Promise((done, fail) => { const asked = indexedDB.open('parachute.recordings'); asked.onsuccess = () => done('opened'); asked.onerror = () => fail(asked.error); }));
  tried.parent = await attempt(() => parent.document.title);
  tried.top = await attempt(() => { top.location = STRANGER; });
  tried.opened = await attempt(() => window.open(STRANGER) === null ? 'refused: none' : 'opened');
  tried.send = await attempt(() => fetch(STRANGER));
  tried.own = await attempt(() => fetch(HERE + '/api/health'));
  tried.socket = await attempt(() => new Promise((done, fail) => { const one = new WebSocket(STRANGER.replace('http', 'ws')); one.onopen = () => done('opened'); one.onerror = () => fail(new TypeError('no')); }));
  tried.picture = await attempt(() => new Promise((done, fail) => { const one = new Image(); one.onload = () => done('loaded'); one.onerror = () => fail(new TypeError('no')); one.src = STRANGER + '/x.png'; }));
  tried.style = await attempt(() => new Promise((done, fail) => { const one = document.createElement('link'); one.rel = 'stylesheet'; one.onload = () => done('loaded'); one.onerror = () => fail(new TypeError('no')); one.href = STRANGER + '/x.css'; document.head.append(one); }));
  tried.script = await attempt(() => new Promise((done, fail) => { const one = document.createElement('script'); one.onload = () => done('loaded'); one.onerror = () => fail(new TypeError('no')); one.src = HERE + '/api/files/Hostile.js'; document.head.append(one); }));
  tried.worker = await timed(attempt(() => new Promise((done, fail) => { const one = new Worker(URL.createObjectURL(new Blob(["postMessage('on')"]))); one.onmessage = () => done('started'); one.onerror = () => fail(new TypeError('no')); })));
  tried.beacon = await attempt(() => { navigator.sendBeacon(STRANGER, 'x'); return 'refused: unseen'; });
  tried.form = await attempt(() => { const one = document.createElement('form'); one.action = STRANGER; document.body.append(one); one.submit(); return 'refused: unseen'; });
  const gathers = (peer, done) => { peer.createDataChannel('x'); peer.onicegatheringstatechange = () => { if (peer.iceGatheringState === 'complete') done('gathered'); }; peer.createOffer().then((one) => peer.setLocalDescription(one)); };
  const servers = `{ iceServers: [{ urls: 'stun:${STRANGER.slice(7)}' }] }`;
  tried.peer = await attempt(() => { new RTCPeerConnection(); return 'made'; });
  tried.blank = await attempt(() => { const one = document.createElement('iframe'); document.body.append(one); new one.contentWindow.RTCPeerConnection(); return 'made'; });
  tried.markup = await attempt(() => { document.body.insertAdjacentHTML('beforeend', '<iframe srcdoc="x"></iframe>'); return 'made'; });
  tried.attribute = await attempt(() => { const one = document.createElement('iframe'); const held = document.createAttribute('srcdoc'); held.value = 'x'; one.setAttributeNode(held); return 'made'; });
  tried.code = await attempt(() => { const one = document.createElement('iframe'); one.src = 'javascript:parent.postMessage("ran", "*")'; document.body.append(one); return 'refused: unseen'; });
  tried.policy = await attempt(() => { trustedTypes.createPolicy('frame', {}); return 'made'; });
  tried.nested = await timed(new Promise((done) => {
    addEventListener('message', (event) => done(event.data));
    const nested = document.createElement('iframe');
    nested.srcdoc = `<script>(${gathers})(new RTCPeerConnection(${servers}), (told) => parent.postMessage(told, '*'))</` + 'script>';
    document.body.append(nested);
  }).catch((error) => `refused: ${error.name}`));
  parent.postMessage('ready', '*');
  document.getElementById('tried').textContent = JSON.stringify(tried);
})();
"""  # noqa: E501
PATHS = [
    *("../daily/entries", "/../daily/entries", "..%2fdaily/entries", "%2e%2e/daily/entries"),
    *("..\\daily/entries", "x/../../daily/entries", "//evil.test/x", "https://evil.test/x"),
    *("../../web/x", "../modules", "../auth/keys", ".%2e/settings", "?/../../health"),
]


@pytest.fixture
def strangers() -> Iterator[list[socket.socket]]:
    """Where nothing may arrive: a port that listens, for TCP and for UDP."""
    with (
        socket.create_server(("127.0.0.1", 0)) as tcp,
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as udp,
    ):
        udp.bind(tcp.getsockname())
        tcp.settimeout(0)
        udp.settimeout(0)
        yield [tcp, udp]


def install(daemon: CommandLine, folder: Path) -> None:
    daemon.does("modules", "install", str(folder), "--trust", "trusted", "--yes")


@pytest.mark.parametrize("width", [390, 1440])
def test_a_modules_page_works_by_its_bridge_and_reaches_nothing_else(
    opens: Opens, daemon: CommandLine, strangers: list[socket.socket], tmp_path: Path, width: int
):
    it = opens("#/modules", width=width, quiet=False)
    name, away = f"beds{width}", f"http://127.0.0.1:{strangers[0].getsockname()[1]}"
    folder = write_module(tmp_path / name, CODE, name=name, manifest="static: {}\n")
    known = f"const STRANGER = {json.dumps(away)}, HERE = {json.dumps(it.url)}"
    known += f", PATHS = {json.dumps(PATHS)}"
    for file, text in (
        ("index.html", PAGE),
        ("look.css", "h1 { color: rgb(1, 2, 3) }"),
        ("js/app.js", f"{known};{SCRIPT}"),
    ):
        place = folder / "ui" / file
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text)
    install(daemon, folder)
    it.go(f"#/modules/{name}/consent")
    it.sees("with pages at ui/")
    it.page.evaluate("localStorage.setItem('mark', 'the page')")
    it.go(f"#/modules/{name}/page")
    frame = it.page.frame_locator("iframe.module-page")
    found = frame.locator("#found")
    expect(found).to_contain_text('{"beds":["beans"]}')
    expect(found).to_contain_text('{"added":"peas"} light')
    expect(frame.get_by_role("heading", name="Beds")).to_have_css("color", "rgb(1, 2, 3)")
    result = frame.locator("#tried")
    expect(result).to_contain_text("nested")
    tried = json.loads(result.inner_text())
    reached = {
        name: reported for name, reported in tried.items() if not reported.startswith("refused")
    }
    assert reached == {}
    tcp, udp = strangers
    with pytest.raises(BlockingIOError):
        tcp.accept()
    with pytest.raises(BlockingIOError):
        udp.recv(1)
    assert it.page.url.endswith(f"#/modules/{name}/page")
    assert it.faults() == []
    daemon.does("modules", "remove", name, "--yes")
    shutil.rmtree(folder)
