"""Manager: what runs is what may run, and nothing that one module does ends another."""

from __future__ import annotations

import asyncio
import shutil
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace

import pytest

from parachuted.access.caller import Caller
from parachuted.errors import ModuleFailedError, NotFoundError
from parachuted.modules.hosting.host import HandlerCall
from tests.modules.manager_rig import ManagerRig
from tests.modules.small_modules import until

HELLO = """
@route("GET", "/hello")
async def hello(self):
    return "hello"
"""
BRAIN = "provides: [BrainInterface]\n"
WHO = """
@interface("BrainInterface")
async def who(self):
    return self._services.name
"""
HANGS = """
@event("file.deleted", is_async=False)
async def gone(self):
    await asyncio.Event().wait()
"""
READS = "permissions: {read: ['**']}\n"


@pytest.fixture
def rig(tmp_path: Path) -> ManagerRig:
    return ManagerRig(tmp_path)


OFFERS = """
agents = {"helper": {"capabilities": ["read"]}}
@route("GET", "/hello")
async def hello(self):
    return "hello"
@mcp_tool("daily-search")
async def search(self, query: str):
    "Search."
    return [query]
@event("file.modified")
async def changed(self): ...
@schedule(every="15m")
async def tidy(self): ...
@schedule(at="03:00")
async def reflect(self): ...
async def on_enable(self):
    self.spawn(asyncio.sleep, 600, name="leak")
"""


def leaks() -> list[str]:
    return [task.get_name() for task in asyncio.all_tasks() if task.get_name() == "leak"]


async def test_what_is_approved_runs_and_what_it_offers_is_known_while_it_does(rig):
    rig.add("daily", OFFERS)
    rig.write("stranger", HELLO)

    async with rig.open() as modules:
        assert await rig.get("/api/daily/hello") == "hello"
        assert modules.routes.find("GET", "/api/stranger/hello") is None
        status = rig.status("daily")
        assert (status.status, rig.status("stranger").status) == ("running", "unapproved")
        assert rig.reported("module.enabled")[0]["name"] == "daily"
        assert (status.routes, status.tools) == (("GET /api/daily/hello",), ("daily-search",))
        assert status.events == ("file.modified",)
        assert status.schedules == ("tidy: every 900 s", "reflect: each day at 03:00")
        assert (status.where, status.problem) == ("in process", None)
        assert modules.approved("daily").name == "daily"
        assert modules.agents_of("daily")["helper"].capabilities == ("read",)
        assert (modules.approved("nobody"), modules.agents_of("nobody")) == (None, {})

        [(module, tool)] = modules.tools()
        assert (module, tool.name, tool.description) == ("daily", "daily-search", "Search.")
        asked = ("daily-search", {"query": "kevin"}, Caller())
        assert await modules.call_tool("daily", *asked) == ["kevin"]
        for wrong in (("brain", "daily-search"), ("daily", "other")):
            with pytest.raises(NotFoundError):
                await modules.call_tool(*wrong, {}, Caller())

        (_nightly, tick) = modules.scheduler.schedules()
        assert tick.due - tick.last == timedelta(minutes=15)
        assert leaks()
    assert leaks() == []
    assert modules.scheduler.schedules() == []
    assert modules.routes.find("GET", "/api/daily/hello") is None


async def test_one_that_fails_is_reported_until_removed_and_the_others_go_on(rig):
    rig.add("at-import", "raise ValueError('import')")
    rig.add("at-enable", "async def on_enable(self):\n    raise ValueError('enable')")
    for name in ("a-first", "b-second"):
        rig.add(name, HELLO, "routes: {prefix: /api/journal}\n")

    async with rig.open() as modules:
        assert await rig.get("/api/journal/hello") == "hello"
        serving = modules.routes.find("GET", "/api/journal/hello").host.name
        (other,) = {"a-first", "b-second"} - {serving}
        assert "serves /api/journal already" in rig.status(other).problem
        for name, word in (("at-import", "import"), ("at-enable", "enable")):
            assert rig.status(name).status == "failed"
            assert rig.status(name).problem.endswith(f"ValueError: {word}")
            assert rig.problems.open.get(f"module:{name}") == f"ValueError: {word}"
        failed = {data["name"]: data["error"] for data in rig.reported("module.failed")}
        assert failed.keys() == {"at-import", "at-enable", other}
        assert failed["at-import"] == "ValueError: import"
        assert rig.problems.open.get(f"module:{serving}") is None
        rig.trust.remove("at-import")
        shutil.rmtree(rig.vault / "Modules/at-import")
        await modules.sync()
        await until(lambda: rig.problems.open.get("module:at-import") is None)


async def test_a_crash_in_a_handler_is_shown_until_it_goes_well_again(rig):
    rig.add(
        "daily",
        '@route("GET", "/")\nasync def odd(self, well: bool = False):\n    return well or 1 / 0',
    )

    async with rig.open():
        with pytest.raises(ModuleFailedError):
            await rig.get("/api/daily")
        await until(lambda: rig.problems.open.get("module:daily"))
        assert (rig.status("daily").status, rig.status("daily").where) == ("failed", "in process")

        assert await rig.get("/api/daily", well="true") is True
        assert rig.status("daily").status == "running"
        await until(lambda: rig.problems.open.get("module:daily") is None)


async def test_a_hook_may_object_to_a_module(rig):
    rig.add("daily", HELLO)
    rig.add("brain", HELLO)
    rig.asker.objects_to = {"daily"}

    async with rig.open():
        said = "a hook objects to the module daily: not this one"
        assert said in rig.status("daily").problem
        assert await rig.get("/api/brain/hello") == "hello"
    assert {one.event for one in rig.asker.asked} == {"module.load.before"}
    assert rig.asker.asked[0].data.keys() >= {"name", "version", "hash"}


async def test_an_approval_and_a_switch_are_followed_without_a_restart(rig):
    rig.write("daily", HELLO)
    async with rig.open() as modules:
        rig.approve("daily")
        await modules.sync()
        assert await rig.get("/api/daily/hello") == "hello"

        rig.trust.disable("daily")
        await until(lambda: modules.routes.find("GET", "/api/daily/hello") is None)
        assert rig.status("daily").status == "disabled"
        await until(lambda: rig.reported("module.disabled"))
        assert rig.reported("module.disabled") == [{"name": "daily", "version": "1.0.0"}]

        rig.trust.enable("daily")
        await until(lambda: modules.routes.find("GET", "/api/daily/hello"))


async def test_an_edited_folder_is_reported_and_the_approved_version_goes_on(rig):
    rig.add("daily", HELLO)
    async with rig.open() as modules:
        rig.write(
            "daily",
            HELLO.replace('"hello"', '"changed"').replace('changed")\nasync', 'hello")\nasync'),
        )
        await modules.refresh()
        await until(lambda: rig.reported("module.changed"))

        found = modules.routes.find("GET", "/api/daily/hello")
        assert await found.host.call(HandlerCall(found.spec.handler)) == "hello"
        assert rig.status("daily").state == "changed"
        await until(
            lambda: "parachute modules diff daily" in (rig.problems.open.get("module:daily") or "")
        )

        rig.approve("daily")
        await until(lambda: len(rig.reported("module.enabled")) == 2)
        await until(lambda: rig.problems.open.get("module:daily") is None)
        assert len(rig.reported("module.changed")) == 1


async def test_one_module_is_restarted_without_the_others(rig):
    counted = "await self.state.put('times', await self.state.get('times', 0) + 1)"
    for name in ("daily", "brain"):
        rig.add(name, f"{HELLO}\nasync def on_enable(self):\n    {counted}\n")

    async with rig.open() as modules:
        await modules.restart("daily")
        assert await rig.get("/api/daily/hello") == "hello"
        with pytest.raises(NotFoundError, match="nobody"):
            await modules.restart("nobody")

    times = {name: memory.kept["times"] for name, memory in rig.memory.items()}
    assert times == {"daily": 2, "brain": 1}


USER = """
async def on_enable(self):
    self.brain = self.get_interface("BrainInterface")
    await self.state.put("found", [await self.brain.who()])
async def on_disable(self):
    await self.state.put("found", [*await self.state.get("found"), await self.brain.who()])
@route("GET", "/who")
async def who(self):
    brain = self.get_interface("BrainInterface")
    return await brain.who() if brain else "nobody"
"""


async def test_who_uses_an_interface_has_it_from_its_beginning_to_its_end(rig):
    rig.add("aa-thief", f"provides = ('BrainInterface',)\n{WHO}")  # no one was shown it
    rig.add("brain", WHO, BRAIN)
    for user in ("aa-user", "zz-user"):
        rig.add(user, USER, "optional_requires: [BrainInterface]\n")

    async with rig.open() as modules:
        assert await rig.find("BrainInterface").who() == "brain"
        assert await rig.get("/api/aa-user/who") == "brain"
        rig.trust.disable("brain")
        await modules.sync()
        assert await rig.get("/api/aa-user/who") == "nobody"
        assert rig.find("BrainInterface") is None

        rig.trust.enable("brain")
        await modules.sync()
        assert await rig.get("/api/aa-user/who") == "brain"
    for user in ("aa-user", "zz-user"):
        assert rig.memory[user].kept["found"] == ["brain", "brain"]


async def test_an_event_reaches_who_hears_it_though_other_handlers_hang_or_fail(rig):
    rig.add("hangs", HANGS, READS)
    rig.add("fails", '@event("file.deleted")\nasync def gone(self):\n    raise ValueError', READS)
    body = '@event("file.deleted")\nasync def gone(self, path):\n    await self.state.put(path, 1)'
    rig.add("fine", body, "permissions: {read: ['Daily/**']}\n")

    async with rig.open():
        rig.delete("Private/a.md", "Daily/a.md", "Daily/b.md")
        await until(lambda: len(rig.memory["fine"].kept) == 2)
        await until(lambda: rig.status("fails").problem)
    assert rig.memory["fine"].kept == {"Daily/a.md": 1, "Daily/b.md": 1}


TICKS = """
@schedule(every="15m")
async def tick(self):
    await self.state.put("ticked", True)
"""


async def test_a_schedule_that_is_due_runs(rig, monkeypatch):
    now = SimpleNamespace(now=lambda _zone: rig.clock())
    monkeypatch.setattr("apscheduler.schedulers.base.datetime", now)
    rig.add("daily", TICKS)

    async with rig.open():
        rig.ahead = timedelta(hours=1)
        await until(lambda: rig.memory["daily"].kept)


async def test_a_disk_that_refuses_leaves_what_runs_running_and_is_tried_again(rig):
    rig.add("daily", HELLO)

    async with rig.open() as modules:
        for what, name in (("look", "brain"), ("ready", "chat")):
            rig.trust.fails = frozenset({what})
            rig.add(name, HELLO)
            await until(lambda: "could not be read" in (rig.problems.open.get("modules") or ""))
            assert await rig.get("/api/daily/hello") == "hello"
            rig.trust.fails = frozenset()
            await until(lambda name=name: modules.routes.find("GET", f"/api/{name}/hello"))
            await until(lambda: rig.problems.open.get("modules") is None)


async def test_a_disk_that_refuses_at_the_start_keeps_no_daemon_from_starting(rig):
    rig.add("daily", HELLO)
    ledger = rig.home / "modules.yaml"
    trusted = ledger.read_text()
    ledger.write_text("modules: [")
    rig.trust.fails = frozenset({"ready"})

    async with rig.open() as modules:
        await until(lambda: "could not be read" in (rig.problems.open.get("modules") or ""))
        assert not await modules.wait_started(0)
        rig.trust.fails = frozenset()
        assert await modules.wait_started(30)
        assert modules.routes.find("GET", "/api/daily/hello") is None, "nothing can be trusted"
        assert rig.problems.open.get("modules")
        ledger.write_text(trusted)
        await until(lambda: modules.routes.find("GET", "/api/daily/hello"))


async def test_who_waits_for_the_modules_learns_at_once_that_the_manager_ends(rig):
    rig.trust.fails = frozenset({"ready"})

    async with asyncio.timeout(30), rig.open() as modules:
        waiting = asyncio.get_running_loop().create_task(modules.wait_started(600))
        await until(lambda: rig.problems.open.get("modules"))
    async with asyncio.timeout(30):
        assert not await waiting


async def test_a_module_that_is_too_slow_for_its_events_is_reported(rig):
    rig.add("daily", HANGS, READS)

    async with rig.open():
        rig.delete(*(f"{number}.md" for number in range(1200)))
        await until(lambda: "some were dropped" in (rig.problems.open.get("module:daily") or ""))
        assert rig.status("daily").where
