"""A module in a process of its own: it serves as any other, whatever it does to its process, and it
reaches nothing but its services.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import socket
from pathlib import Path

import psutil
import pytest

from parachuted.access.authority import Authority, current
from parachuted.errors import ActRefusedError, ModuleFailedError, NotFoundError
from parachuted.modules.hosting.module_host import ModuleHost, RestartDelays
from parachuted.modules.registry.arguments import WrongArgumentsError
from parachuted.modules.results import Response
from tests.modules.small_modules import StubServices, approve, until, write_module

QUICK = RestartDelays(first_wait_s=0.05)

BODY = """
@route("GET", "/hello")
async def hello(self, n: int = 1):
    print("printed")
    self.log.warning("logged\\x1b[2J")
    return {"n": n}

@route("GET", "/created")
async def created(self):
    return Response(status=201, body={"a": 1}, headers={"X-A": "b"})

@route("GET", "/count")
async def count(self, n: int = 3):
    try:
        for i in range(n):
            yield {"i": i}
    finally:
        await self.state.put("closed", True)

@route("GET", "/wait")
async def wait(self):
    try:
        await self.state.put("waiting", True)
        await asyncio.Event().wait()
    finally:
        await self.state.put("ended", True)

@route("GET", "/fail")
async def fail(self):
    raise ZeroDivisionError("by zero")

@route("GET", "/missing")
async def missing(self):
    return await self.vault.read("nothing.md")

@route("GET", "/exit")
async def exit(self):
    import os
    os._exit(3)

@route("GET", "/block")
async def block(self):
    import time
    time.sleep(1000)

@route("GET", "/block-later")
async def block_later(self):
    import time
    asyncio.get_running_loop().call_later(0.05, time.sleep, 1000)

@route("GET", "/memory")
async def memory(self):
    return len(bytearray(4_000_000_000))

@route("GET", "/large")
async def large(self):
    return "x" * 20_000_000

@route("GET", "/garbage")
async def garbage(self, text: str = "{}"):
    import os
    data = len(text).to_bytes(4, "big") + text.encode()
    for fd in range(3, 64):
        try:
            os.write(fd, data)
        except OSError:
            pass

@route("GET", "/print")
async def much(self):
    for n in range(20_000):
        print("line", n)

@event("daily.x")
async def heard(self, a: int):
    await self.state.put("heard", a)

@interface("BrainInterface")
async def suggest(self, text, limit=1):
    return [{"text": text, "limit": limit}]

async def on_enable(self):
    await self.state.put("enabled", True)

async def on_disable(self):
    await self.state.put("disabled", True)
"""
MANIFEST = "provides: [BrainInterface]\n"


@pytest.fixture
def given():
    return StubServices()


def processes():
    """Of modules, among our children."""
    return [
        child
        for child in psutil.Process().children(recursive=True)
        if "host_main" in " ".join(child.cmdline())
    ]


@pytest.fixture
def hosted(tmp_path, given, make_isolation):
    """`async with hosted(body, sandbox=...) as worker`, started; nothing of it is left."""

    @contextlib.asynccontextmanager
    async def live(body=BODY, *, sandbox="landlock", services=given, pace=QUICK, **more):
        approved = approve(
            write_module(tmp_path / "copies" / "daily", body, manifest=MANIFEST), trust="untrusted"
        )
        worker = ModuleHost(approved, services, make_isolation(sandbox, **more), pace=pace)
        await worker.start()
        try:
            yield worker
        finally:
            await worker.stop()
            assert worker.pid is None
            assert processes() == []
            assert not (tmp_path / "run").exists() or list((tmp_path / "run").iterdir()) == []

    return live


@pytest.mark.parametrize("sandbox", ["landlock", "docker", "process"])
async def test_it_serves_as_a_module_in_the_daemon_does(hosted, given, sandbox):
    async with hosted(sandbox=sandbox) as worker:
        assert worker.isolated_by == sandbox
        assert worker.declared.name == "daily"
        assert {route.path for route in worker.declared.routes} >= {"/hello", "/count"}
        assert given.state.kept == {"enabled": True}
        assert await worker.call("hello", {}, query={"n": "3"}) == {"n": 3}
        assert await worker.call("created", {}) == Response(
            status=201, body={"a": 1}, headers={"X-A": "b"}
        )
        assert [item async for item in worker.stream("count", {}, query={"n": "4"})] == [
            {"i": n} for n in range(4)
        ]
        await worker.tell("heard", {"a": 5, "more": 1})
        assert given.state.kept["heard"] == 5
        assert await worker.interface("BrainInterface").suggest("text", limit=2) == [
            {"text": "text", "limit": 2}
        ]
        assert worker.interface("Other") is None
        assert worker.problem is None

    assert given.state.kept["disabled"] is True
    with pytest.raises(ModuleFailedError):
        await worker.call("hello", {})


async def test_what_goes_wrong_in_a_handler_is_reported_as_in_the_daemon(hosted):
    async with hosted(services=StubServices(vault=EmptyVault())) as worker:
        with pytest.raises(WrongArgumentsError, match="n: should be"):
            await worker.call("hello", {}, query={"n": "x"})
        with pytest.raises(NotFoundError):
            await worker.call("missing", {})
        with pytest.raises(ModuleFailedError):
            await worker.call("fail", {})
        assert "ZeroDivisionError: by zero" in worker.problem
        with pytest.raises(ModuleFailedError, match="failed in memory"):
            await worker.call("memory", {})
        with pytest.raises(ModuleFailedError, match="more than"):
            await worker.call("large", {})
        with pytest.raises(ActRefusedError, match="has no method"):
            await worker.interface("BrainInterface").nothing()
        with pytest.raises(AttributeError):
            _ = worker.interface("BrainInterface").run_agent
        with pytest.raises(ModuleFailedError, match="failed in wait"):
            await worker.call("wait", {}, timeout_s=0.1)
        assert "was not done after 0.1 s" in worker.problem
        assert await worker.call("hello", {}) == {"n": 1}


async def test_who_no_longer_waits_ends_the_work(hosted, given):
    async with hosted() as worker:
        async with asyncio.timeout(30), asyncio.TaskGroup() as group:
            call = group.create_task(worker.call("wait", {}))
            await until(lambda: given.state.kept.get("waiting"))
            call.cancel()
        await until(lambda: given.state.kept.get("ended"))
        stream = worker.stream("count", {}, query={"n": "1000000"})
        assert await anext(stream) == {"i": 0}
        await stream.aclose()
        await until(lambda: given.state.kept.get("closed"))
        assert worker.problem is None


@pytest.mark.parametrize(
    ("handler", "query", "why"),
    [
        ("exit", {}, "code 3"),
        ("garbage", {"text": '{"kind":"answer","id":1,"value":NaN}'}, "rules of the pipe"),
        ("block", {}, "did not answer within 0.3 s"),
        ("block_later", {}, "stood still"),
    ],
)
async def test_a_process_that_dies_or_stands_still_is_restarted(
    hosted, given, handler, query, why, caplog
):
    limit = 0.3 if handler == "block" else 20
    async with hosted(
        pace=RestartDelays(
            first_wait_s=0.05,
            ping_limit_s=2,
            ping_every_s=0.1 if handler == "block_later" else 60,
        )
    ) as worker:
        first = worker.pid
        with contextlib.suppress(ModuleFailedError):
            await worker.call(handler, {}, query=query, timeout_s=limit)
        await until(lambda: worker.pid not in {first, None})
        given.state.kept.clear()
        await until(lambda: worker.interface("BrainInterface"), 20)

        assert await worker.call("hello", {}) == {"n": 1}
        assert worker.problem is None
    assert why in caplog.text


async def test_while_it_is_down_its_calls_fail_and_say_why(hosted):
    async with hosted(pace=RestartDelays(first_wait_s=60)) as worker:
        waiting = asyncio.gather(
            worker.call("wait", {}), anext(worker.stream("wait", {})), return_exceptions=True
        )
        with pytest.raises(ModuleFailedError, match="ended before it had answered"):
            await worker.call("exit", {})

        assert [type(error) for error in await waiting] == [ModuleFailedError] * 2
        await until(lambda: worker.problem)
        assert "restarts in 60 s: it ended with code 3" in worker.problem
        with pytest.raises(ModuleFailedError, match="restarts in"):
            await worker.call("hello", {})
        assert worker.interface("BrainInterface") is None


async def test_what_it_prints_and_logs_is_in_the_log_but_no_more_than_a_person_can_read(
    hosted, caplog
):
    caplog.set_level(logging.INFO)
    async with hosted() as worker:
        await worker.call("hello", {})
        await until(lambda: "printed" in caplog.text and "logged" in caplog.text)
        assert "\x1b" not in caplog.text
        await worker.call("much", {})
        await asyncio.sleep(1)
        await worker.call("hello", {})
        await until(lambda: "lines of its log were left out" in caplog.text)

    assert len(caplog.records) < 1000


async def test_a_module_that_cannot_begin_says_why_and_leaves_nothing(hosted, tmp_path):
    with pytest.raises(ModuleFailedError, match="failed in the import"):
        async with hosted("raise ZeroDivisionError"):
            pass
    with pytest.raises(ModuleFailedError, match="failed in on_enable"):
        async with hosted("async def on_enable(self):\n    raise ValueError"):
            pass
    with pytest.raises(ModuleFailedError, match="code 5"):
        async with hosted("import os\nos._exit(5)"):
            pass

    assert processes() == []
    assert list((tmp_path / "run").iterdir()) == []


class EmptyVault:
    async def read(self, path):
        raise NotFoundError(path)


class Watched(StubServices):
    """Notes in whose context it was asked."""

    def publish(self, event, data):
        super().publish(event, {**data, "cause": current().causes[0]})


async def test_what_a_stream_does_is_part_of_its_cause_to_its_last_item(hosted):
    services = Watched()
    body = """
@route("GET", "/all")
async def all(self, n: int):
    for i in range(n):
        self.publish("daily.y", i=i)
        yield i
    self.publish("daily.y", i=n)
"""
    async with hosted(body, services=services) as worker:
        caller = Authority(causes=("the caller's",))
        assert [
            item async for item in worker.stream("all", {}, query={"n": "3"}, authority=caller)
        ] == [0, 1, 2]

    assert [(data["i"], data["cause"]) for _event, data in services.published] == [
        (i, "the caller's") for i in range(4)
    ]


async def test_what_it_does_is_part_of_the_cause_that_called_it(hosted):
    services = Watched()
    body = """
@event("daily.x")
async def heard(self, n: int):
    await asyncio.sleep(0.05 - n / 1000)
    self.publish("daily.y", n=n)
"""

    async def reported(worker, n):
        await worker.tell("heard", {"n": n}, authority=Authority(causes=(f"cause {n}",)))

    async with hosted(body, services=services) as worker, asyncio.TaskGroup() as group:
        for n in range(10):
            group.create_task(reported(worker, n))

    assert sorted((data["n"], data["cause"]) for _event, data in services.published) == [
        (n, f"cause {n}") for n in range(10)
    ]


HOSTILE = """
@route("POST", "/escape")
async def escape(self, vault: str, home: str, port: int, daemon: int):
    import errno, glob, os, pathlib, socket, subprocess, ctypes
    tried = {}
    def attempt(name, act):
        try:
            tried[name] = f"done: {act()!r}"[:200]
        except BaseException as error:
            tried[name] = type(error).__name__
    for name, place in (("vault", vault), ("home", home)):
        attempt(f"read {name}", lambda: (pathlib.Path(place) / "secret.md").read_text())
        attempt(f"list {name}", lambda: os.listdir(place))
        attempt(f"write {name}", lambda: (pathlib.Path(place) / "planted.md").write_text("x"))
        attempt(f"mode {name}", lambda: os.chmod(pathlib.Path(place) / "secret.md", 0))
        attempt(f"remove {name}", lambda: (pathlib.Path(place) / "secret.md").unlink())
    attempt("its own code", lambda: pathlib.Path(__file__).write_text("x"))
    attempt("tmp", lambda: pathlib.Path("/tmp/parachute-planted").write_text("x"))
    attempt("here", lambda: pathlib.Path("planted").write_text("x"))
    attempt("connect", lambda: socket.create_connection(("127.0.0.1", port), 1))
    attempt("datagram", lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b"x", ("127.0.0.1", port)))
    attempt("unix", lambda: socket.socket(socket.AF_UNIX).connect("/var/run/docker.sock"))
    attempt("program", lambda: subprocess.run(["id"], capture_output=True).stdout)
    attempt("fork", os.fork)
    attempt("signal", lambda: os.kill(daemon, 0))
    attempt("memory of the daemon", lambda: open(f"/proc/{daemon}/mem", "rb"))
    attempt("its environment", lambda: open(f"/proc/{daemon}/environ", "rb").read())
    attempt("accounts", lambda: open("/etc/passwd").read())
    attempt("devices", lambda: open("/dev/mem", "rb"))
    tried["environment"] = sorted(os.environ)
    return tried
"""  # noqa: E501


@pytest.mark.parametrize("sandbox", ["landlock", "docker"])
async def test_it_gets_out_of_its_cage_by_none_of_these(hosted, tmp_path, sandbox, monkeypatch):
    monkeypatch.setenv("ANTHROPIC_API_KEY", "canary")
    for name in ("vault", "home"):
        (tmp_path / name).mkdir(exist_ok=True)
        (tmp_path / name / "secret.md").write_text("canary")
    with socket.create_server(("127.0.0.1", 0)) as server:
        async with hosted(HOSTILE, sandbox=sandbox) as worker:
            places = {"vault": str(tmp_path / "vault"), "home": str(tmp_path / "home")}
            tried = await worker.call(
                "escape", {**places, "port": server.getsockname()[1], "daemon": os.getpid()}
            )

    environment = tried.pop("environment")
    assert {name: outcome for name, outcome in tried.items() if outcome.startswith("done")} == {}
    assert len(tried) > 20
    assert "canary" not in json.dumps(tried)
    assert not set(environment) & {"ANTHROPIC_API_KEY", "PYTHONPATH", "PARACHUTE_HOME"}
    for name in ("vault", "home"):
        assert [file.name for file in (tmp_path / name).iterdir()] == ["secret.md"]
        assert (tmp_path / name / "secret.md").read_text() == "canary"


async def test_a_module_with_no_cage_takes_its_children_along_when_it_stops(hosted):
    body = """
async def on_enable(self):
    import subprocess
    subprocess.Popen(["sh", "-c", "setsid sleep 98765 & setsid sh -c 'sleep 98765 & exit' & sleep 98765"])
"""  # noqa: E501

    def sleeping():
        return [
            process
            for process in psutil.process_iter(["cmdline"])
            if "98765" in (process.info["cmdline"] or [])
        ]

    async with hosted(body, sandbox="process"):
        await until(lambda: len(sleeping()) >= 3)

    await until(lambda: sleeping() == [])


def open_files():
    return len(list(Path("/proc/self/fd").iterdir()))


async def test_many_lives_leave_no_descriptor_and_no_process(hosted):
    async with hosted():
        pass
    before = open_files()

    for _ in range(2):
        async with hosted() as worker:
            await worker.call("hello", {})

    assert open_files() <= before


async def test_starting_can_be_given_up(hosted, tmp_path, given, make_isolation):
    approved = approve(
        write_module(
            tmp_path / "daily", "async def on_enable(self):\n    await asyncio.Event().wait()"
        ),
        trust="untrusted",
    )
    worker = ModuleHost(approved, given, make_isolation("landlock"))

    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.5):
            await worker.start()

    assert worker.pid is None
    await worker.stop()
    assert os.listdir(tmp_path / "run") == []  # noqa: PTH208  a path method would block the loop as well


async def test_it_can_be_stopped_while_its_next_process_is_being_made(
    tmp_path, given, make_isolation, monkeypatch
):
    approved = approve(
        write_module(tmp_path / "copies" / "daily", BODY, manifest=MANIFEST), trust="untrusted"
    )
    isolation, asked, let = make_isolation("process"), asyncio.Event(), asyncio.Event()
    worker = ModuleHost(approved, given, isolation, pace=QUICK)
    await worker.start()
    make = isolation.hold

    async def hold(*args, **options):
        asked.set()
        await let.wait()
        return await make(*args, **options)

    monkeypatch.setattr(isolation, "hold", hold)
    with pytest.raises(ModuleFailedError):
        await worker.call("exit", {})
    await asyncio.wait_for(asked.wait(), 20)

    async with asyncio.timeout(20), asyncio.TaskGroup() as group:
        group.create_task(worker.stop())
        await asyncio.sleep(0)  # it finds no process to end
        let.set()

    assert processes() == []


THREADS = """
@route("GET", "/threads")
async def threads(self):
    import ctypes, threading, time
    threading.stack_size(32768)
    for _ in range(5000):
        threading.Thread(target=time.sleep, args=(1000,), daemon=True).start()
"""


async def test_one_that_makes_thousands_of_threads_is_ended_or_gets_none(hosted, caplog):
    async with hosted(THREADS) as worker:
        first = worker.pid
        with pytest.raises(ModuleFailedError):
            await worker.call("threads", {})
        await until(lambda: worker.pid != first or "start new thread" in (worker.problem or ""))
    assert "threads" in caplog.text or os.getuid() != 0


async def test_what_went_wrong_in_it_is_in_the_log_with_its_traceback(hosted, caplog):
    body = """
async def deep(self, n: int):
    return await self.deep(n - 1) if n else 1 / 0

@route("GET", "/")
async def broken(self):
    await self.deep(40)

@route("GET", "/logged")
async def logged(self):
    try:
        await self.deep(3)
    except ZeroDivisionError:
        self.log.exception("it was divided")
"""
    caplog.set_level(logging.INFO)
    async with hosted(body) as worker:
        with pytest.raises(ModuleFailedError):
            await worker.call("broken", {})
        await until(lambda: "a module failed" in caplog.text and "ZeroDivisionError" in caplog.text)
        assert "Traceback (most recent call last)" in caplog.text
        assert "module.py" in caplog.text
        caplog.clear()
        await worker.call("logged", {})
        await until(lambda: "it was divided" in caplog.text and "ZeroDivisionError" in caplog.text)


@pytest.mark.parametrize("sandbox", ["process", "landlock", "docker"])
async def test_it_imports_the_packages_of_the_daemon_behind_every_wall(hosted, sandbox):
    body = """
@route("GET", "/")
async def imports(self):
    import importlib
    return [importlib.import_module(name).__name__ for name in ("yaml", "merge3", "tinydb", "frontmatter", "regress")]
"""  # noqa: E501
    async with hosted(body, sandbox=sandbox) as worker:
        assert len(await worker.call("imports", {})) == 5
