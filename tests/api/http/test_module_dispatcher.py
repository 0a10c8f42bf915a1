"""Module calls: what modules serve, over HTTP, the same in the daemon's process and in one of their
own.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import time
from contextlib import suppress
from pathlib import Path

import aiohttp
import pytest

from parachuted.api import RESERVED
from parachuted.keys import BEYOND_PATHS, KeyFile
from tests.api.calls import call, code, expect, get, key_of, post, refused
from tests.api.routes.test_modules import EXAMPLES, install, run_module
from tests.api.test_app import ROUTES
from tests.stories.daemon_rig import DaemonRig, Live, save

ENTRIES = "/api/daily/entries"

WHERE = {"trusted": "in process", "untrusted": "container"}
KEVIN = f"para:brain:{hashlib.sha256(b'Kevin').hexdigest()[:12]}"
SLOW = '''
import asyncio
from parachuted.modules import Module, route

class SlowModule(Module):
    @route("GET", "/ticks")
    async def ticks(self, stop: int = 0):
        """Counts, for ever if need be."""
        number = 0
        while not stop or number < stop:
            number += 1
            yield {"tick": number}
            await asyncio.sleep(0.01)
        raise RuntimeError("no more")
'''


FAILING = '''
from parachuted.modules import Module, Response, route

BODIES = {"object": {"error": "no such bed", "bed": 3, "detail": 4}, "text": "no such bed", "list": [1], "null": None}

class FailingModule(Module):
    @route("GET", "/{kind}")
    async def one(self, kind: str, status: int = 404):
        """Fail."""
        return Response(status=status, body=BODIES[kind])
'''  # noqa: E501


async def test_an_error_that_a_module_answers_has_the_shape_of_all_errors_and_what_the_module_says(
    tmp_path: Path, daemon_rig: DaemonRig
):
    await run_module(daemon_rig, tmp_path, "failing", FAILING)
    reported = {
        kind: await call(daemon_rig, "GET", f"/api/failing/{kind}")
        for kind in ("object", "text", "list", "null")
    }
    odd = await call(daemon_rig, "GET", "/api/failing/text?status=460")

    for status, answer in (*reported.values(), odd):
        assert status in {404, 460}
        assert all(
            isinstance(answer[name], str) and answer[name]
            for name in ("error", "message", "detail", "request_id")
        )
    assert (
        reported["object"][1]["error"],
        reported["object"][1]["message"],
        reported["object"][1]["bed"],
    ) == ("no such bed", "no such bed", 3)
    assert (reported["text"][1]["message"], reported["list"][1]["body"]) == ("no such bed", [1])


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


async def events_of(answer: aiohttp.ClientResponse) -> list[object]:
    lines = [line async for line in answer.content]
    return [
        json.loads(line.removeprefix(b"data: ")) for line in lines if line.startswith(b"data: ")
    ]


async def test_a_module_knows_which_key_asks_it(tmp_path: Path, trust: str, daemon_rig: DaemonRig):
    await run_module(daemon_rig, tmp_path, "caller", CALLER, trust, "mcp_tools: [who]\n")
    headers = key_of(daemon_rig, "caller:read,write")
    (known,) = KeyFile(daemon_rig.daemon.watched.home).load().keys
    said = await call(daemon_rig, "GET", "/api/caller/", headers=headers)
    tried = await call(daemon_rig, "POST", "/api/modules/caller/tools/who", headers=headers)

    assert said == (200, known.id)
    assert tried == (200, {"result": known.id})
    assert await get(daemon_rig, "/api/caller/") == ""


async def test_the_examples_of_the_specification_work_in_both_ways(
    vault: Path, trust: str, daemon_rig: DaemonRig
):
    for name in ("brain", "daily"):
        reported = await install(daemon_rig, EXAMPLES / name, trust)
        assert (reported["status"], reported["where"]) == ("running", WHERE[trust]), reported[
            "problem"
        ]
    save(vault / "Brain/entities/Kevin.md", "# Kevin\n")
    await daemon_rig.until(
        lambda: daemon_rig.daemon.watched.index.get("Brain/entities/Kevin.md") is not None
    )

    status, made = await call(
        daemon_rig,
        "POST",
        ENTRIES,
        json={"content": "Met with [[Kevin]] today.", "entry_id": "monday"},
    )
    assert (status, made) == (201, {"id": "monday", "path": "Daily/entries/monday.md"})
    entry = vault / "Daily/entries/monday.md"
    await daemon_rig.until(lambda: KEVIN in entry.read_text())
    assert (await get(daemon_rig, "/api/daily/entries/monday"))["content"] == entry.read_text()
    assert (await get(daemon_rig, "/api/modules/daily/entries?limit=1"))["count"] == 1
    assert await post(daemon_rig, "/api/modules/daily/tools/daily-journal", {"query": "kevin"}) == {
        "result": [made["path"]]
    }
    async with (
        aiohttp.ClientSession() as session,
        session.post(daemon_rig.url + "/api/daily/query", json={"message": "kevin"}) as answer,
    ):
        assert answer.content_type == "text/event-stream"
        assert await events_of(answer) == [
            {"type": "entry", "id": "monday"},
            {"type": "done", "count": 1},
        ]
    wrote = [
        event.data["by"] for event in daemon_rig.events if event.data.get("path") == made["path"]
    ]
    assert set(wrote) == {"module:daily"}


async def test_wrong_arguments_are_reported_all_at_once(trust: str, daemon_rig: DaemonRig):
    await install(daemon_rig, EXAMPLES / "daily", trust)

    status, message = await refused(daemon_rig, "GET", "/api/daily/entries?limit=many&offset=2")
    assert (status, "limit" in message, "offset" in message) == (422, True, True)
    await expect(daemon_rig, 422, "POST", ENTRIES, json={})
    await expect(daemon_rig, 400, "POST", ENTRIES, data=b"{")
    await expect(daemon_rig, 400, "POST", ENTRIES, json=[])
    await expect(daemon_rig, 404, "GET", "/api/daily/entries/none")
    assert (await refused(daemon_rig, "DELETE", ENTRIES)) == (
        405,
        "this call takes another method",
    )
    await expect(daemon_rig, 404, "GET", "/api/daily/nothing")
    await expect(daemon_rig, 404, "POST", "/api/modules/daily/tools/none", json={})


async def test_a_key_reaches_a_module_by_a_scope_on_it_and_one_with_paths_never(
    vault: Path, trust: str, daemon_rig: DaemonRig
):
    save(vault / "Daily/entries/mine.md", "mine\n")
    save(vault / "Daily/entries/other.md", "other\n")
    await install(daemon_rig, EXAMPLES / "daily", trust)
    reads, limited = (
        key_of(daemon_rig, "daily:read"),
        key_of(daemon_rig, "daily:read,write", paths=["Daily/entries/mine*"]),
    )

    assert (await call(daemon_rig, "GET", ENTRIES, headers=reads))[1]["count"] == 2
    assert await refused(daemon_rig, "POST", ENTRIES, headers=reads, json={"content": "x"}) == (
        403,
        "this key lacks the scope daily:write",
    )
    await expect(daemon_rig, 403, "GET", ENTRIES, headers=key_of(daemon_rig, "vault:read"))
    for path in (ENTRIES, "/api/daily/entries/mine"):
        assert await refused(daemon_rig, "GET", path, headers=limited) == (403, BEYOND_PATHS)
    await expect(daemon_rig, 401, "GET", ENTRIES, headers={"X-Forwarded-For": "192.0.2.7"})


async def test_a_stream_that_breaks_says_so_and_a_reader_who_goes_ends_it(
    tmp_path: Path, trust: str, daemon_rig: DaemonRig
):
    await run_module(daemon_rig, tmp_path, "slow", SLOW, trust)
    async with aiohttp.ClientSession() as session:
        async with session.get(daemon_rig.url + "/api/slow/ticks?stop=2") as answer:
            text = (await answer.read()).decode()
        async with session.get(daemon_rig.url + "/api/slow/ticks") as answer:
            await answer.content.readline()
    assert text.startswith('data: {"tick":1}\n\ndata: {"tick":2}\n\nevent: error\n')
    assert "Traceback" not in text
    await expect(daemon_rig, 200, "GET", "/api/notes")


QUIET = """
import asyncio
from parachuted.modules import Module, route

class QuietModule(Module):
    at_work = 0
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
    """Wait until so many streams of the module are at work; within two seconds, as a person would
    notice.
    """
    async with asyncio.timeout(30):
        while (await get(daemon_rig, "/api/quiet/"))["at_work"] != number:
            await asyncio.sleep(0.02)


@pytest.mark.parametrize("says", ["true", "false"])
async def test_a_stream_whose_reader_has_gone_ends_at_once_though_the_module_says_nothing(
    tmp_path: Path, trust: str, says: str, daemon_rig: DaemonRig
):
    await run_module(daemon_rig, tmp_path, "quiet", QUIET, trust)
    reader, writer = await asyncio.open_connection("127.0.0.1", daemon_rig.daemon.port)
    writer.write(f"GET /api/quiet/quiet?says={says} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
    await at_work(daemon_rig, 1)
    if says == "true":
        assert b"text/event-stream" in await reader.readuntil(b"one thing")
    went = time.monotonic()
    writer.close()
    await at_work(daemon_rig, 0)

    assert time.monotonic() - went < 30


async def test_a_quiet_stream_gives_signs_of_life(
    tmp_path: Path, trust: str, monkeypatch: pytest.MonkeyPatch, daemon_rig: DaemonRig
):
    monkeypatch.setattr("parachuted.api.http.module_content._HEARTBEAT_S", 0.1)
    await run_module(daemon_rig, tmp_path, "quiet", QUIET, trust)
    async with aiohttp.ClientSession() as session:
        for path in ("/api/quiet/quiet", "/api/quiet/quiet?says=false"):
            async with session.get(daemon_rig.url + path) as answer, asyncio.timeout(30):
                assert (answer.status, answer.content_type) == (200, "text/event-stream")
                lines = [await answer.content.readline() for _ in range(6)]
                assert lines.count(b": still here\n") >= 2
    await at_work(daemon_rig, 0)


async def test_a_stream_ends_with_the_key_that_opened_it_before_it_has_said_anything(
    tmp_path: Path, trust: str, daemon_rig: DaemonRig
):
    await run_module(daemon_rig, tmp_path, "quiet", QUIET, trust)
    key = key_of(daemon_rig, "quiet:read")
    reader, writer = await asyncio.open_connection("127.0.0.1", daemon_rig.daemon.port)
    head = "".join(f"{name}: {value}\r\n" for name, value in {"Host": "localhost", **key}.items())
    writer.write(f"GET /api/quiet/quiet?says=false HTTP/1.1\r\n{head}\r\n".encode())
    await at_work(daemon_rig, 1)
    daemon_rig.daemon.authenticator.ring.file.remove(
        daemon_rig.daemon.authenticator.ring.keys[0].id
    )
    await at_work(daemon_rig, 0)
    with suppress(ConnectionError):
        assert await reader.read() == b""
    writer.close()


async def test_calls_of_modules_are_in_the_audit(trust: str, daemon_rig: DaemonRig):
    await install(daemon_rig, EXAMPLES / "daily", trust)
    await call(daemon_rig, "POST", ENTRIES, json={"content": "secret words", "entry_id": "one"})
    assert daemon_rig.daemon.vault.audit.flush()
    reported = (await get(daemon_rig, "/api/audit?module=daily"))["events"]

    assert ("POST /api/daily/entries", 201) in [
        (event["target_endpoint"], event.get("status")) for event in reported
    ]
    assert "secret words" not in json.dumps(reported)


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


async def test_a_module_that_starts_again_is_503_until_it_has_its_routes_and_never_404(
    tmp_path: Path, daemon_rig: DaemonRig
):
    gate = tmp_path / "gate"
    code = STARTING.replace("{gate}", str(gate))
    await run_module(daemon_rig, tmp_path, "starting", code)
    gate.touch()
    restarting = asyncio.get_running_loop().create_task(
        post(daemon_rig, "/api/modules/starting/restart")
    )
    async with asyncio.timeout(30):
        while (await get(daemon_rig, "/api/modules/starting"))["status"] == "running":
            await asyncio.sleep(0.01)
    meanwhile = await refused(daemon_rig, "GET", "/api/starting")
    unknown = await refused(daemon_rig, "GET", "/api/nothing")
    gate.unlink()
    await restarting
    assert await get(daemon_rig, "/api/starting") == "here"

    assert (meanwhile[0], unknown[0]) == (503, 404)
    assert "still starting" in meanwhile[1]


async def test_no_module_may_take_a_word_of_the_core_s(live: Live):
    words = {
        path.split("/")[2]
        for _method, path in (route.split(" ", 1) for route in ROUTES)
        if path.startswith("/api/")
    }

    assert words - {word + ".json" for word in RESERVED} <= RESERVED


async def test_who_shows_no_key_learns_of_no_module(daemon_rig: DaemonRig):
    async def seen(daemon_rig: DaemonRig, path: str) -> tuple[int, str]:
        return await refused(daemon_rig, "GET", path, headers={"X-Forwarded-For": "192.0.2.7"})

    await install(daemon_rig, EXAMPLES / "daily")
    for path in (ENTRIES, "/api/nothing/entries", "/api/notes", "/api/nothing", "/nothing"):
        assert await seen(daemon_rig, path) == (401, "Valid API key required")


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


@pytest.mark.parametrize("trust", ["trusted", "untrusted"])
async def test_a_route_with_a_secret_of_its_own_is_for_who_shows_it_and_needs_no_key(
    tmp_path: Path, vault: Path, trust: str, daemon_rig: DaemonRig
):
    save(vault / "Private/diary.md", "secret\n")
    reads = "permissions: {read: ['**']}\n"
    await run_module(daemon_rig, tmp_path, "withsecret", OWN_ROUTE, trust, reads)
    path, passed_on = "/api/withsecret/told", {"X-Forwarded-For": "10.0.0.9"}
    shown = {"": 401, "wrong": 401, "s3cret": 200 if trust == "trusted" else 403}
    for secret, expected in shown.items():
        headers = {**passed_on, "X-Its-Secret": secret}
        status, answer = await call(daemon_rig, "POST", path, data=b"words", headers=headers)
        assert status == (expected if trust == "trusted" else 403), (secret, answer)
        assert status != 200 or answer == "words", "nothing of the vault is for such a caller"
    await post(daemon_rig, "/api/withsecret/expect", {"secret": ""})
    for secret in ("", "s3cret"):
        headers = {**passed_on, "X-Its-Secret": secret}
        assert await code(daemon_rig, "POST", path, data=b"words", headers=headers) in {401, 403}, (
            "where the module has none, no one is let in"
        )
