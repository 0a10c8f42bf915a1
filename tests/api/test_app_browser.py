"""A real browser on pages of strangers: from another origin, and under a name that was made to lead
here. They change and read nothing.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import shutil
import signal
from collections.abc import AsyncIterator
from datetime import datetime
from pathlib import Path

import aiohttp
import pytest
from aiohttp import web

from tests.api.calls import get
from tests.api.test_app_scopes import contents
from tests.stories.daemon_rig import DaemonRig, Live, save

CHROMIUM = next(
    (
        path
        for name in ("chromium", "chromium-browser", "google-chrome")
        if (path := shutil.which(name))
    ),
    None,
)
FLAGS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking"),
    *("--disable-sync", "--no-first-run", "--disable-component-update", "--disable-dev-shm-usage"),
    "--host-resolver-rules=MAP *.test 127.0.0.1",
)
pytestmark = pytest.mark.timeout(400)  # more than the 300 s that each waits for its browser
CANARY = "canary 8f1b"
PAGE = Path(__file__).with_name("stranger.html").read_text("utf-8")


class ForeignWebServer:
    """A web server with a page under every name; `rebound.test` is one whose name leads to the
    daemon by now, but for the page itself.
    """

    def __init__(self) -> None:
        self.daemon = ""
        self.calls: list[tuple[str, str]] = []
        self.reported: dict[str, dict[str, str]] = {}
        self.port = 0
        self.finished = asyncio.Event()

    async def answer(self, request: web.Request) -> web.StreamResponse:
        """The page, what it tells, or, for the rebound name, whatever the daemon says to the same
        request.
        """
        name = request.host.partition(":")[0]
        if request.path == "/page":
            return web.Response(text=self._page(name), content_type="text/html")
        if request.path == "/told":
            self.reported[name] = await request.json()
            if len(self.reported) == 3:
                self.finished.set()
            return web.Response()
        return (
            await self._passed_on(request) if name == "rebound.test" else web.Response(status=404)
        )

    def _page(self, name: str) -> str:
        following = {"evil.test": "rebound.test", "rebound.test": "friend.test"}.get(name)
        page = PAGE.replace(
            "DAEMON",
            json.dumps(f"http://{name}:{self.port}" if name == "rebound.test" else self.daemon),
        )
        calls = self.calls if name != "friend.test" else [("GET", "/api/health")]
        page = page.replace("CALLS", json.dumps(calls)).replace(
            "OWN", json.dumps(name == "friend.test")
        )
        return page.replace(
            "NEXT", json.dumps(f"http://{following}:{self.port}/page" if following else "")
        )

    async def _passed_on(self, request: web.Request) -> web.Response:
        if request.headers.get("Upgrade"):
            return web.Response(status=403)
        headers = {
            name: value
            for name, value in request.headers.items()
            if name not in {"Content-Length", "Transfer-Encoding"}
        }
        async with aiohttp.ClientSession(auto_decompress=False) as session:
            body = await request.read()
            async with session.request(
                request.method,
                self.daemon + request.raw_path,
                headers=headers,
                data=body or None,
                allow_redirects=False,
            ) as answer:
                return web.Response(
                    status=answer.status, body=await answer.read(), content_type=answer.content_type
                )


@contextlib.asynccontextmanager
async def strangers() -> AsyncIterator[ForeignWebServer]:
    served = ForeignWebServer()
    app = web.Application(client_max_size=1 << 24)
    app.router.add_route("*", "/{rest:.*}", served.answer)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    served.port = runner.addresses[0][1]
    try:
        yield served
    finally:
        await runner.cleanup()


@contextlib.asynccontextmanager
async def browser(profile: Path, *arguments: str) -> AsyncIterator[asyncio.subprocess.Process]:
    process = await asyncio.create_subprocess_exec(
        CHROMIUM,
        *FLAGS,
        f"--user-data-dir={profile}",
        *arguments,
        start_new_session=True,
        env={**os.environ, "HOME": str(profile)},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
    )
    try:
        yield process
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        await process.communicate()


async def calls_of(daemon_rig: DaemonRig) -> list[tuple[str, str]]:
    """Every call of the API, names in paths filled in."""
    document = await get(daemon_rig, "/api/openapi.json")
    found = [
        (method.upper(), path) for path, calls in document["paths"].items() for method in calls
    ]
    return [
        (method, path.replace("{path}", "note.md").replace("{", "").replace("}", ""))
        for method, path in found
    ]


async def heard_since(daemon_rig: DaemonRig, moment: datetime) -> list[dict]:
    """What the audit has of calls since then, but those that ask for it."""
    found, more = [], {"since": moment.isoformat(), "type": "api_call", "limit": "1000"}
    async with aiohttp.ClientSession() as session:
        while True:
            async with session.get(daemon_rig.url + "/api/audit", params=more) as answer:
                page = await answer.json()
            found += [
                event for event in page["events"] if event["target_endpoint"] != "GET /api/audit"
            ]
            if not page["cursor"]:
                return found
            more["cursor"] = page["cursor"]


def answered(reported: dict[str, str]) -> dict[str, str]:
    """What was tried and came to anything but a refusal, or to an answer that says no more than
    that it is one.
    """
    names, kept = {"error", "message", "detail", "request_id"}, {}
    for tried, said in reported.items():
        words = said.removeprefix("403 ").removeprefix("loaded ")
        is_refusal = words.startswith("{") and set(json.loads(words)) == names
        is_opaque = (
            (tried.startswith("no-cors") and said == "0 ")
            or said.startswith("sent")
            or (tried == "frame" and said == "loaded ")
        )
        if said != "refused" and not is_refusal and not is_opaque:
            kept[tried] = said
    return kept


@pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium on this machine")
async def test_pages_of_strangers_change_and_read_nothing(live: Live, vault: Path, tmp_path: Path):
    save(vault / "note.md", f"# Note\n\n{CANARY}\n")
    async with (
        strangers() as served,
        live(api__cors_origins=f"http://friend.test:{served.port}") as daemon_rig,
    ):
        served.daemon, served.calls = daemon_rig.url, await calls_of(daemon_rig)
        before, keys, since = (
            contents(vault),
            await get(daemon_rig, "/api/auth/keys"),
            daemon_rig.daemon.watched.clock(),
        )
        async with browser(
            tmp_path / "profile",
            "--remote-debugging-port=0",
            f"http://evil.test:{served.port}/page",
        ):
            await asyncio.wait_for(served.finished.wait(), 300)

        assert contents(vault) == before
        assert await get(daemon_rig, "/api/auth/keys") == keys
        assert not daemon_rig.daemon.agents.worker.paused
        heard = await heard_since(daemon_rig, since)

    assert CANARY not in json.dumps(served.reported)
    assert answered(served.reported["evil.test"]) == {}
    assert answered(served.reported["rebound.test"]) == {}
    friend = answered(served.reported["friend.test"])
    assert friend.pop("cors GET /api/health").startswith("200 {")
    assert {"keyed GET /api/health", "EventSource"} >= set(friend)
    assert len(heard) > 5 * len(served.calls), "the pages did not reach the daemon"
    done = {event["target_endpoint"] for event in heard if event["success"]}
    assert done <= {
        "GET /api/health",
        "GET /api/events",
        "OPTIONS (no such call)",
        "GET /api/auth/keys",
    }  # a friend's, and our own


@pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium on this machine")
async def test_the_page_to_read_the_api_shows_every_call_in_a_browser(
    tmp_path: Path, daemon_rig: DaemonRig
):
    calls = await calls_of(daemon_rig)
    url = f"{daemon_rig.url}/api/docs#getSearch"
    async with browser(
        tmp_path / "profile", "--dump-dom", "--virtual-time-budget=4000", url
    ) as process:
        page = (await asyncio.wait_for(process.stdout.read(), 300)).decode()

    assert page.count('<details id="') == len(calls)
    assert page.count('<span class="method post">POST</span>') == sum(
        method == "POST" for method, _ in calls
    )
    assert (
        f"curl '{url.partition('/api/')[0]}/api/search?q=a*'" in page
    )  # the call that the address names is open
