"""A module in a real container: it serves as any other, whatever it does there, and it reaches
nothing but the services that its key opens.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import socket
import sys
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from pathlib import Path

import docker
import pytest

from parachuted.access.caller import Caller, current
from parachuted.access.strangers import Taint
from parachuted.agents.sandbox import Sandboxes
from parachuted.agents.sandbox.options import LABEL
from parachuted.errors import ModuleFailedError
from parachuted.modules.hosting.host import HandlerCall
from parachuted.modules.hosting.module_containers import ContainerHost
from parachuted.modules.registry.arguments import RequestParts
from tests.modules import container_rig
from tests.modules.container_rig import ContainerRig
from tests.modules.small_modules import StubServices, approve, until, write_module

Host = Callable[..., AbstractAsyncContextManager[ContainerHost]]


@pytest.fixture
def rig(tmp_path: Path, sandboxes: Sandboxes) -> ContainerRig:
    return ContainerRig(tmp_path / "rig", sandboxes)


@pytest.fixture
def containers(engine: Mapping[str, str], sandboxes: Sandboxes) -> Callable[[], list[str]]:
    """Those of these sandboxes that the engine has, running or not."""
    client = docker.DockerClient.from_env(environment=dict(engine))
    label = f"{LABEL}={sandboxes._owner.daemon}"
    yield lambda: [one.id for one in client.containers.list(all=True, filters={"label": label})]
    client.close()


@pytest.fixture
def hosted(tmp_path: Path, rig: ContainerRig, containers: Callable[[], list[str]]) -> Host:
    """`async with hosted(body, services) as host`, started; nothing of it is left."""

    @contextlib.asynccontextmanager
    async def live(body: str, services: StubServices | None = None) -> AsyncIterator[ContainerHost]:
        async with container_rig.hosted(tmp_path, body, services, rig) as host:
            yield host
        assert containers() == []
        assert list(rig.run.iterdir()) == []
        assert rig.ring._temporary == []

    return live


SERVES = """
@route("GET", "/hello")
async def hello(self, n: int = 1):
    print("printed")
    self.log.warning("logged\\x1b[2J")
    (self.data_folder / "index").write_text("kept")
    return {"n": n}

@route("GET", "/stdin")
async def stdin(self):
    import os
    return {"read": len(os.read(0, 9))}

@route("GET", "/deep")
async def deep(self):
    found = []
    for _ in range(200):
        found = [found]
    return found

async def on_disable(self):
    await self.state.put("disabled", True)
"""


@pytest.mark.usefixtures("linked_python")
async def test_it_serves_and_what_it_prints_and_logs_is_logged_and_printable(hosted, caplog):
    caplog.set_level(logging.INFO)
    services = StubServices()
    async with hosted(SERVES, services) as host:
        asked = HandlerCall("hello", request=RequestParts(query={"n": "3"}))
        assert await host.call(asked) == {"n": 3}
        assert (services.data_folder / "index").read_text() == "kept"
        await until(lambda: "logged" in caplog.text and "printed" in caplog.text)
        assert "\x1b" not in caplog.text
        assert "1 GB" in host.limits
        assert host.problem is None
        assert await host.call(HandlerCall("stdin")) == {"read": 0}, "calls are not its own to read"
        with pytest.raises(ModuleFailedError, match="cannot be sent"):
            await host.call(HandlerCall("deep"))
        assert await host.call(asked) == {"n": 3}

    assert services.state.kept["disabled"] is True
    with pytest.raises(ModuleFailedError):
        await host.call(HandlerCall("hello"))


@pytest.fixture
def linked_python(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The interpreter is a link to a link in a folder that no container has."""
    real = Path(os.path.realpath(sys.executable))
    for name, target in (("python-of-shims", real), ("python", tmp_path / "python-of-shims")):
        (tmp_path / name).symlink_to(target)
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))


class CausesSeen(StubServices):
    """Tells for which caller it was asked."""

    def publish(self, event: str, data: Mapping[str, object]) -> None:
        super().publish(event, {**data, "causes": list(current().causes)})


async def test_what_it_does_is_part_of_the_call_that_led_to_it_and_else_its_own(hosted):
    """But for strangers' text: what one call read marks what every other does."""
    services = CausesSeen()
    body = """
    async def on_enable(self):
        self.publish("daily.up")
        self.started = asyncio.get_running_loop().create_task(self.own())
        self.go = asyncio.Event()
    async def own(self):
        await self.go.wait()
        self.publish("daily.own")
    @event("daily.x")
    async def said(self, n: int):
        await asyncio.sleep(0.05 - n / 100)
        self.publish("daily.y", n=n)
        self.spawn(self.later, n)
    async def later(self, n):
        await asyncio.sleep(0.1)
        self.publish("daily.later", n=n)
    @route("POST", "/go")
    async def release(self):
        self.go.set()
    @route("POST", "/say")
    async def say(self):
        self.publish("daily.said")
    """
    tainted, other = Taint(), Taint()
    tainted.read("a page")
    async with hosted(body, services) as host:
        async with asyncio.TaskGroup() as group:
            for n in range(5):
                caller = Caller(causes=(f"cause {n}",))
                group.create_task(host.call(HandlerCall("said", {"n": n}, caller, is_event=True)))
        await host.call(HandlerCall("release", caller=Caller(causes=("another",))))
        await until(lambda: len(services.published) == 12)
        found = {(event, data.get("n"), *data["causes"]) for event, data in services.published}
        await host.call(HandlerCall("say", caller=Caller(taint=tainted)))
        await host.call(HandlerCall("say", caller=Caller(taint=other)))

    assert found == {
        ("daily.up", None),
        ("daily.own", None),
        *((event, n, f"cause {n}") for event in ("daily.y", "daily.later") for n in range(5)),
    }
    assert other


FORGED = """
@route("POST", "/ask")
async def ask(self, target: str, call: str = ""):
    daemon = self._services.daemon
    import aiohttp
    from parachuted.modules.hosting.container_main import CALL
    headers = {"Authorization": f"Bearer {daemon._key}", "X-Parachute-Call": call or CALL.get()}
    at = aiohttp.UnixConnector(daemon._at)
    async with aiohttp.ClientSession("http://localhost", connector=at, headers=headers) as session:
        async with session.post(target, data=b"{}") as response:
            return response.status
"""
TARGETS = {
    "/api/modules/daily/services/current_call": 200,
    "/api/modules/brain/services/current_call": 403,
    "/api/modules/daily/services/vault.nothing": 502,
    "/api/notes/Private/secret.md": 404,
    "/api/keys": 404,
    "/api/modules/daily/restart": 404,
}


HOSTILE = """
@route("POST", "/escape")
async def escape(self, vault: str, home: str, port: int, daemon: int):
    import os, pathlib, socket, subprocess
    tried = {}
    def attempt(name, act):
        try:
            tried[name] = f"done: {act()!r}"[:200]
        except BaseException as error:
            tried[name] = type(error).__name__
    for name, place in (("vault", vault), ("home", home)):
        attempt(f"read {name}", lambda: (pathlib.Path(place) / "secret.md").read_text())
        attempt(f"write {name}", lambda: (pathlib.Path(place) / "planted.md").write_text("x"))
        attempt(f"remove {name}", lambda: (pathlib.Path(place) / "secret.md").unlink())
    attempt("its own code", lambda: pathlib.Path(__file__).write_text("x"))
    attempt("here", lambda: pathlib.Path("planted").write_text("x"))
    attempt("the daemon's code", lambda: pathlib.Path(asyncio.__file__).write_text("x"))
    attempt("the api's socket", lambda: next(iter(pathlib.Path(self._services.daemon._at).parent.iterdir())).unlink())
    attempt("connect", lambda: socket.create_connection(("127.0.0.1", port), 1))
    attempt("beyond", lambda: socket.create_connection(("192.0.2.1", 80), 1))
    attempt("engine", lambda: socket.socket(socket.AF_UNIX).connect("/var/run/docker.sock"))
    attempt("signal", lambda: os.kill(daemon, 0) if daemon > 1000 else 1 / 0)
    attempt("root", lambda: os.setuid(0))
    attempt("mount", lambda: subprocess.run(["mount", "-t", "tmpfs", "x", "/mnt"], check=True))
    attempt("devices", lambda: open("/dev/mem", "rb"))
    tried["environment"] = sorted(os.environ)
    return tried
"""  # noqa: E501


async def test_its_key_opens_its_own_services_alone_and_it_gets_out_by_no_way(
    hosted, rig, tmp_path, monkeypatch
):
    monkeypatch.setenv("ANTHROPIC_API_KEY", "canary")
    for name in ("vault", "home"):
        (tmp_path / name).mkdir(exist_ok=True)
        (tmp_path / name / "secret.md").write_text("canary")
    with socket.create_server(("127.0.0.1", 0)) as server:
        async with hosted(FORGED + HOSTILE) as host:
            for target, status in TARGETS.items():
                assert await host.call(HandlerCall("ask", {"target": target})) == status, target
            late = {"target": next(iter(TARGETS)), "call": "invented"}
            assert await host.call(HandlerCall("ask", late)) == 403
            [key] = rig.ring._temporary
            assert rig.ring.keys == ()
            answered = {(event.source_id, event.status) for event in rig.audit.events}
            assert ("module daily", 200) in answered

            places = {"vault": str(tmp_path / "vault"), "home": str(tmp_path / "home")}
            asked = {**places, "port": server.getsockname()[1], "daemon": os.getpid()}
            tried = await host.call(HandlerCall("escape", asked))

    assert rig.ring.identity(key.id) is None
    environment = tried.pop("environment")
    assert {name: outcome for name, outcome in tried.items() if outcome.startswith("done")} == {}
    assert "canary" not in json.dumps(tried)
    assert not set(environment) & {"ANTHROPIC_API_KEY", "PYTHONPATH", "PARACHUTE_HOME"}
    for name in ("vault", "home"):
        assert [file.name for file in (tmp_path / name).iterdir()] == ["secret.md"]


ENDS = """
@route("GET", "/hello")
async def hello(self):
    return "hello"

@route("POST", "/attack")
async def attack(self, kind: str):
    import os, time, threading, pathlib
    if kind == "exit":
        os._exit(3)
    if kind == "block":
        time.sleep(1000)
    if kind == "memory":
        return len(bytearray(b"x" * 4_000_000_000))
    if kind == "forks":
        for _ in range(200):  # 64 may be
            try:
                if os.fork() == 0:
                    time.sleep(1000)
            except OSError:
                pass
    if kind == "answer":
        return ["x" * 1_000_000] * 100
    if kind == "print":
        for number in range(100_000):
            print("line", number)
    if kind == "requests":
        async def many():
            for _ in range(20):
                await self.state.put("n", 1)
        await asyncio.gather(*(many() for _ in range(50)))
    return "done"
"""


ATTACKS = {
    "answer": None,
    "print": None,
    "requests": None,
    "forks": None,
    "exit": "the code 3",
    "memory": "memory",
    "block": "did not answer within 1 s",
}


async def test_what_it_uses_up_is_its_own_and_a_dead_one_is_restarted(hosted, caplog):
    slowest, done = 0.0, asyncio.Event()

    async def watch() -> None:
        nonlocal slowest
        loop = asyncio.get_running_loop()
        while not done.is_set():
            began = loop.time()
            await asyncio.sleep(0.01)
            slowest = max(slowest, loop.time() - began)

    async def attack(host: ContainerHost, kind: str, says: str | None) -> None:
        caplog.clear()
        limit_s = 1.0 if kind == "block" else 30.0
        with contextlib.suppress(ModuleFailedError):
            await host.call(HandlerCall("attack", {"kind": kind}, timeout_s=limit_s))
        if says is not None:
            await until(lambda: says in caplog.text)

    async def answers(host: ContainerHost) -> bool:
        with contextlib.suppress(ModuleFailedError):
            return await host.call(HandlerCall("hello")) == "hello"
        if "`parachute modules restart daily` starts another" in (host.problem or ""):
            await host.stop()
            await host.start()
        return False

    async with hosted(ENDS) as host, asyncio.TaskGroup() as group:
        group.create_task(watch())
        for kind, says in ATTACKS.items():
            await attack(host, kind, says)
            async with asyncio.timeout(60):
                while not await answers(host):
                    await asyncio.sleep(0.05)
        done.set()
    assert slowest < 30


async def test_starting_can_be_given_up(hosted, containers):
    services = StubServices()
    body = """
    async def on_enable(self):
        self.publish("daily.up")
        await asyncio.Event().wait()
    """

    async def start() -> None:
        async with hosted(body, services):
            pass

    async with asyncio.TaskGroup() as group:
        starting = group.create_task(start())
        await until(lambda: services.published)
        starting.cancel()
    assert containers() == []


async def test_what_a_killed_daemon_left_is_swept(rig, sandboxes, containers, tmp_path):
    """Its containers are known by a label."""
    earlier = Sandboxes(
        folder=tmp_path / "slots", env=sandboxes._env, label=sandboxes._owner.daemon
    )
    left = ContainerRig(tmp_path / "left", earlier)
    approved = approve(write_module(tmp_path / "copies/left", ENDS), trust="untrusted")
    host = ContainerHost(approved, StubServices(), None, lambda: None, left.containers)
    await host.start()
    assert len(containers()) == 1
    rig.containers._folder = left.run

    await rig.containers.sweep()

    assert containers() == []
    assert not left.run.exists()
    await host.stop()
    await earlier.close()


async def test_without_docker_it_does_not_run_and_says_what_would_let_it(tmp_path):
    nowhere = Sandboxes(
        folder=tmp_path / "slots", env={"DOCKER_HOST": f"unix://{tmp_path}/none"}, label="x"
    )
    approved = approve(write_module(tmp_path / "copy", ENDS), trust="untrusted")
    containers = ContainerRig(tmp_path / "r", nowhere).containers
    host = ContainerHost(approved, StubServices(), None, lambda: None, containers)

    with pytest.raises(ModuleFailedError, match=r"approve daily --trust trusted") as refused:
        await host.start()
    assert str(refused.value).count("install and start Docker") == 1
    assert host.problem is None
