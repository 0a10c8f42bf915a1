"""Module calls: what modules serve, over HTTP, the same in the daemon's process and in one of their
own.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
from contextlib import suppress
from pathlib import Path

import aiohttp
import pytest

from parachuted.api import RESERVED
from parachuted.keys import BEYOND_PATHS, KeyFile
from tests.api.calls import ELSEWHERE, call, expect, get, key_of, messages, noticed, post, refused
from tests.api.routes.test_modules import EXAMPLES, install, run_module
from tests.api.test_app import ROUTES
from tests.stories.daemon_rig import DaemonRig, save

ENTRIES = "/api/daily/entries"

WHERE = {"trusted": "in process", "untrusted": "container"}
KEVIN = f"para:brain:{hashlib.sha256(b'Kevin').hexdigest()[:12]}"

FAILING = '''
from parachuted.modules import Module, Response, route

BODIES = {"object": {"error": "no such bed", "bed": 3, "detail": 4}, "text": "no such bed", "list": [1], "null": None}

class FailingModule(Module):
    @route("GET", "/{kind}")
    async def one(self, kind: str, status: int = 404):
        """Fail."""
        return Response(status=status, body=BODIES[kind])
'''  # noqa: E501


async def test_an_error_of_a_module_has_the_usual_shape_and_its_own_words(
    tmp_path: Path, daemon_rig: DaemonRig
):
    await run_module(daemon_rig, tmp_path, "failing", FAILING)
    reported = {
        kind: await expect(daemon_rig, 404, "GET", f"/api/failing/{kind}")
        for kind in ("object", "text", "list", "null")
    }
    await expect(daemon_rig, 460, "GET", "/api/failing/text?status=460")

    said = {"error": "no such bed", "message": "no such bed", "bed": 3}
    assert reported["object"] == reported["object"] | said
    assert (reported["text"]["message"], reported["list"]["body"]) == ("no such bed", [1])


CALLER = """
from parachuted.modules import Module, mcp_tool, route

class CallerModule(Module):
    @route("GET", "/")
    async def who(self):
        return self.current_call.key

    @mcp_tool("who")
    async def who_calls(self):
        return self.current_call.key
"""


async def test_a_module_knows_which_key_asks_it(tmp_path: Path, trust: str, daemon_rig: DaemonRig):
    await run_module(daemon_rig, tmp_path, "caller", CALLER, trust, "mcp_tools: [who]\n")
    key = {"headers": key_of(daemon_rig, "caller:read,write")}
    (known,) = KeyFile(daemon_rig.daemon.watched.home).load().keys
    tool = "/api/modules/caller/tools/who"
    assert await call(daemon_rig, "GET", "/api/caller/", **key) == (200, known.id)
    assert await call(daemon_rig, "POST", tool, **key) == (200, {"result": known.id})
    assert await get(daemon_rig, "/api/caller/") == ""


async def test_the_examples_of_the_specification_work_in_both_ways(
    vault: Path, trust: str, daemon_rig: DaemonRig
):
    for name in ("brain", "daily"):
        reported = await install(daemon_rig, EXAMPLES / name, trust)
        running = ("running", WHERE[trust])
        assert (reported["status"], reported["where"]) == running, reported["problem"]
    save(vault / "Brain/entities/Kevin.md", "# Kevin\n")
    await noticed(daemon_rig)

    entry, path = {"content": "Met with [[Kevin]] today.", "entry_id": "monday"}, "monday.md"
    made = await expect(daemon_rig, 201, "POST", ENTRIES, json=entry)
    assert made == {"id": "monday", "path": f"Daily/entries/{path}"}
    file = vault / made["path"]
    await daemon_rig.until(lambda: KEVIN in file.read_text())
    assert (await get(daemon_rig, f"{ENTRIES}/monday"))["content"] == file.read_text()
    assert (await get(daemon_rig, "/api/modules/daily/entries?limit=1"))["count"] == 1
    found = await post(daemon_rig, "/api/modules/daily/tools/daily-journal", {"query": "kevin"})
    assert found == {"result": [made["path"]]}
    async with (
        aiohttp.ClientSession() as session,
        session.post(daemon_rig.url + "/api/daily/query", json={"message": "kevin"}) as answer,
    ):
        if trust == "untrusted":
            assert (answer.status, "no module in a container" in await answer.text()) == (502, True)
        else:
            assert answer.content_type == "text/event-stream"
            events = [message.data async for message in messages(answer)]
            assert events == [{"type": "entry", "id": "monday"}, {"type": "done", "count": 1}]
    wrote = {
        event.data["by"] for event in daemon_rig.events if event.data.get("path") == made["path"]
    }
    assert wrote == {"module:daily"}


async def test_calls_of_a_module_are_checked_scoped_and_in_the_audit(
    vault: Path, trust: str, daemon_rig: DaemonRig
):
    for name in ("mine", "other"):
        save(vault / f"Daily/entries/{name}.md", f"{name}\n")
    await noticed(daemon_rig)
    await install(daemon_rig, EXAMPLES / "daily", trust)

    status, message = await refused(daemon_rig, "GET", f"{ENTRIES}?limit=many&offset=2")
    assert (status, "limit" in message, "offset" in message) == (422, True, True)
    for method, path, sent, status in (
        ("POST", ENTRIES, {"json": {}}, 422),
        ("POST", ENTRIES, {"data": b"{"}, 400),
        ("POST", ENTRIES, {"json": []}, 400),
        ("GET", f"{ENTRIES}/none", {}, 404),
        ("GET", "/api/daily/nothing", {}, 404),
        ("POST", "/api/modules/daily/tools/none", {"json": {}}, 404),
    ):
        await expect(daemon_rig, status, method, path, **sent)
    await expect(daemon_rig, 405, "DELETE", ENTRIES, says="this call takes another method")

    reads, other, limited = (
        {"headers": key_of(daemon_rig, words, paths=paths)}
        for words, paths in (
            ("daily:read", []),
            ("vault:read", []),
            ("daily:read,write", ["Daily/entries/mine*"]),
        )
    )
    assert (await expect(daemon_rig, 200, "GET", ENTRIES, **reads))["count"] == 2
    says = "this key lacks the scope daily:write"
    await expect(daemon_rig, 403, "POST", ENTRIES, **reads, json={"content": "x"}, says=says)
    await expect(daemon_rig, 403, "GET", ENTRIES, **other)
    for path in (ENTRIES, f"{ENTRIES}/mine"):
        assert await refused(daemon_rig, "GET", path, **limited) == (403, BEYOND_PATHS)
    for path in (ENTRIES, "/api/nothing/entries", "/api/notes", "/api/nothing", "/nothing"):
        answer = await refused(daemon_rig, "GET", path, headers=ELSEWHERE)
        assert answer == (401, "Valid API key required"), "who shows no key learns of no module"

    entry = {"content": "secret words", "entry_id": "one"}
    await expect(daemon_rig, 201, "POST", ENTRIES, json=entry)
    assert daemon_rig.daemon.vault.audit.flush()
    reported = (await get(daemon_rig, "/api/audit?module=daily"))["events"]
    calls = [(event["target_endpoint"], event.get("status")) for event in reported]
    assert ("POST /api/daily/entries", 201) in calls
    assert "secret words" not in json.dumps(reported)


STREAMS = """
import asyncio
from parachuted.modules import Module, route

class StreamsModule(Module):
    at_work = 0
    @route("GET", "/ticks")
    async def ticks(self, stop: int = 0):
        number = 0
        while not stop or number < stop:
            number += 1
            yield {"tick": number}
            await asyncio.sleep(0.01)
        raise RuntimeError("no more")
    @route("GET", "/quiet")
    async def quiet(self, says: bool = True):
        self.at_work += 1
        try:
            if says:
                yield {"says": "one thing"}
            await asyncio.sleep(600)
            yield {}
        finally:
            self.at_work -= 1
    @route("GET", "/")
    async def count(self):
        return {"at_work": self.at_work}
"""


async def at_work(daemon_rig: DaemonRig, number: int) -> None:
    """Wait until so many streams of the module are at work."""
    async with asyncio.timeout(30):
        while (await get(daemon_rig, "/api/streams/"))["at_work"] != number:
            await asyncio.sleep(0.02)


async def test_a_stream_breaks_with_words_and_ends_with_its_reader_and_its_key(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, daemon_rig: DaemonRig
):
    await run_module(daemon_rig, tmp_path, "streams", STREAMS)
    url = daemon_rig.url + "/api/streams"
    async with aiohttp.ClientSession() as session:
        async with session.get(f"{url}/ticks?stop=2") as answer:
            text = (await answer.read()).decode()
        async with session.get(f"{url}/ticks") as answer:
            await answer.content.readline()
    assert text.startswith('data: {"tick":1}\n\ndata: {"tick":2}\n\nevent: error\n')
    assert "Traceback" not in text

    async def opened(
        says: str, **headers: str
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        reader, writer = await asyncio.open_connection("127.0.0.1", daemon_rig.daemon.port)
        lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        head = f"GET /api/streams/quiet?says={says} HTTP/1.1\r\nHost: localhost\r\n{lines}\r\n"
        writer.write(head.encode())
        await at_work(daemon_rig, 1)
        return reader, writer

    for says in ("true", "false"):  # a reader who goes ends it, though it says nothing
        reader, writer = await opened(says)
        if says == "true":
            assert b"text/event-stream" in await reader.readuntil(b"one thing")
        writer.close()
        await at_work(daemon_rig, 0)

    key, ring = key_of(daemon_rig, "streams:read"), daemon_rig.daemon.authenticator.ring
    reader, writer = await opened("false", **key)
    ring.file.remove(ring.keys[0].id)
    await at_work(daemon_rig, 0)
    with suppress(ConnectionError):
        assert await reader.read() == b""
    writer.close()

    monkeypatch.setattr("parachuted.api.http.module_dispatcher._HEARTBEAT_S", 0.1)
    async with aiohttp.ClientSession() as session, asyncio.timeout(30):
        for says in ("true", "false"):
            async with session.get(f"{url}/quiet?says={says}") as answer:
                assert (answer.status, answer.content_type) == (200, "text/event-stream")
                lines = [await answer.content.readline() for _ in range(6)]
                assert lines.count(b": still here\n") >= 2
    await at_work(daemon_rig, 0)


STARTING = """
import asyncio
from pathlib import Path
from parachuted.modules import Module, route

class StartingModule(Module):
    async def on_enable(self):
        while await asyncio.to_thread(Path("{gate}").exists):
            await asyncio.sleep(0.01)

    @route("GET", "/")
    async def root(self):
        return "here"
"""


async def test_a_module_that_starts_again_is_503_and_never_404(
    tmp_path: Path, daemon_rig: DaemonRig
):
    gate, place = tmp_path / "gate", "/api/modules/starting"
    await run_module(daemon_rig, tmp_path, "starting", STARTING.replace("{gate}", str(gate)))
    gate.touch()
    async with asyncio.timeout(30), asyncio.TaskGroup() as group:
        group.create_task(post(daemon_rig, f"{place}/restart"))
        while (await get(daemon_rig, place))["status"] == "running":
            await asyncio.sleep(0.01)
        await expect(daemon_rig, 503, "GET", "/api/starting", says="still starting")
        await expect(daemon_rig, 404, "GET", "/api/nothing")
        gate.unlink()
    assert await get(daemon_rig, "/api/starting") == "here"


def test_no_module_may_take_a_word_of_the_core_s():
    paths = (route.partition(" ")[2] for route in ROUTES)
    words = {path.split("/")[2] for path in paths if path.startswith("/api/")}

    assert words - {word + ".json" for word in RESERVED} <= RESERVED


OWN_ROUTE = """
from parachuted.modules import Body, Module, route

class WithSecret(Module):
    expected = "s3cret"

    @route("POST", "/told", secret_header="X-Its-Secret")
    async def told(self, body: Body):
        \"\"\"Be told something.\"\"\"
        try:
            await self.vault.read("Private/diary.md")
        except Exception:
            return (await body.read()).decode()
        return "it may read"

    @route("POST", "/expect")
    async def expect(self, secret: str):
        self.expected = secret

    async def route_secret(self, path: str) -> str:
        return self.expected if path == "/told" else ""
"""


async def test_a_route_with_its_own_secret_needs_that_and_no_key(
    tmp_path: Path, vault: Path, trust: str, daemon_rig: DaemonRig
):
    save(vault / "Private/diary.md", "secret\n")
    reads = "permissions: {read: ['**']}\n"
    await run_module(daemon_rig, tmp_path, "withsecret", OWN_ROUTE, trust, reads)

    async def told(secret: str) -> tuple[int, object]:
        headers = {**ELSEWHERE, "X-Its-Secret": secret}
        path = "/api/withsecret/told"
        return await call(daemon_rig, "POST", path, data=b"words", headers=headers)

    for secret, expected in {"": 401, "wrong": 401, "s3cret": 200}.items():
        status, answer = await told(secret)
        assert status == (expected if trust == "trusted" else 403), (secret, answer)
        assert status != 200 or answer == "words", "nothing of the vault is for such a caller"
    await post(daemon_rig, "/api/withsecret/expect", {"secret": ""})
    for secret in ("", "s3cret"):
        assert (await told(secret))[0] in {401, 403}, "where it has none, no one is let in"
