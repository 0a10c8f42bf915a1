"""Manager: what runs is what may run, and nothing that one module does ends another."""

from __future__ import annotations

import asyncio
import shutil
from datetime import timedelta
from pathlib import Path

import pytest

from parachuted.access.caller import Caller
from parachuted.errors import ModuleFailedError, NotFoundError, OutdatedError
from parachuted.modules.hosting import in_process
from parachuted.modules.hosting.host import HandlerCall
from parachuted.modules.hosting.status import ModuleFinding
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


@pytest.fixture
def manager_rig(tmp_path: Path) -> ManagerRig:
    return ManagerRig(tmp_path)


async def test_what_is_approved_runs_and_what_is_not_does_not(manager_rig):
    manager_rig.add("daily", HELLO)
    manager_rig.write("stranger", HELLO)

    async with manager_rig.open():
        assert await manager_rig.get("/api/daily/hello") == "hello"
        assert manager_rig.modules.routes.find("GET", "/api/stranger/hello") is None
        assert (manager_rig.status("daily").status, manager_rig.status("stranger").status) == (
            "running",
            "unapproved",
        )
        assert manager_rig.reported("module.enabled")[0]["name"] == "daily"


async def test_the_status_tells_what_a_module_offers(manager_rig):
    body = """
    @route("GET", "/")
    async def root(self): ...
    @mcp_tool("daily-search")
    async def search(self, query: str):
        "Search."
    @event("file.modified")
    async def changed(self): ...
    @schedule(every="15m")
    async def tidy(self): ...
    @schedule(at="03:00")
    async def reflect(self): ...
    """
    manager_rig.add("daily", body)

    async with manager_rig.open():
        status = manager_rig.status("daily")
        (_nightly, (tick, due)) = manager_rig.modules.scheduler.schedules()
        assert due - tick.last == timedelta(minutes=15)
        manager_rig.trust.disable("daily")
        await manager_rig.modules.sync()
        assert manager_rig.modules.scheduler.schedules() == []

    assert (status.routes, status.tools, status.events) == (
        ("GET /api/daily",),
        ("daily-search",),
        ("file.modified",),
    )
    assert status.schedules == ("tidy: every 900 s", "reflect: each day at 03:00")
    assert (status.where, status.serving, status.problem) == ("in process", True, None)


async def test_one_that_fails_is_reported_and_the_others_go_on(manager_rig):
    manager_rig.add("at-import", "raise ValueError('import')")
    manager_rig.add("at-enable", "async def on_enable(self):\n    raise ValueError('enable')")
    manager_rig.add("fine", HELLO)

    async with manager_rig.open():
        assert await manager_rig.get("/api/fine/hello") == "hello"
        for name, word in (("at-import", "import"), ("at-enable", "enable")):
            assert manager_rig.status(name).status == "failed"
            assert manager_rig.status(name).problem.endswith(f"ValueError: {word}")
            assert manager_rig.problems[f"module:{name}"] == f"ValueError: {word}"
        assert {data["name"]: data["error"] for data in manager_rig.reported("module.failed")} == {
            "at-import": "ValueError: import",
            "at-enable": "ValueError: enable",
        }
        assert manager_rig.problems["module:fine"] is None


async def test_a_crash_in_a_handler_is_shown_until_it_goes_well_again(manager_rig):
    manager_rig.add(
        "daily",
        '@route("GET", "/")\nasync def odd(self, well: bool = False):\n    return 1 if well else '
        "1 / 0",
    )

    async with manager_rig.open():
        with pytest.raises(ModuleFailedError):
            await manager_rig.get("/api/daily")
        await until(lambda: manager_rig.problems.get("module:daily"))
        assert (manager_rig.status("daily").status, manager_rig.status("daily").serving) == (
            "failed",
            True,
        )

        assert await manager_rig.get("/api/daily", well="true") == 1
        assert manager_rig.status("daily").status == "running"
        await until(lambda: manager_rig.problems["module:daily"] is None)


async def test_a_second_module_cannot_take_the_first_ones_routes(manager_rig):
    manager_rig.add("a-first", HELLO, "routes: {prefix: /api/journal}\n")
    manager_rig.add("b-second", HELLO, "routes: {prefix: /api/journal}\n")

    async with manager_rig.open() as modules:
        serving = modules.routes.find("GET", "/api/journal/hello")
        other = "b-second" if serving.module == "a-first" else "a-first"

        assert "serves /api/journal already" in manager_rig.status(other).problem


async def test_a_hook_may_object_to_a_module(manager_rig):
    manager_rig.add("daily", HELLO)
    manager_rig.add("brain", HELLO)
    manager_rig.asker.objects_to = {"daily"}

    async with manager_rig.open():
        assert (
            "a hook objects to the module daily: not this one"
            in manager_rig.status("daily").problem
        )
        assert await manager_rig.get("/api/brain/hello") == "hello"
    assert {one.event for one in manager_rig.asker.asked} == {"module.load.before"}
    assert manager_rig.asker.asked[0].data.keys() >= {"name", "version", "hash"}


async def test_an_approval_an_edit_of_modules_yaml_and_a_switch_are_followed_without_a_restart(
    manager_rig,
):
    manager_rig.write("daily", HELLO)
    async with manager_rig.open() as modules:
        manager_rig.approve("daily")
        await modules.sync()
        assert await manager_rig.get("/api/daily/hello") == "hello"

        manager_rig.trust.disable("daily")
        await until(lambda: modules.routes.find("GET", "/api/daily/hello") is None)
        assert manager_rig.status("daily").status == "disabled"
        await until(
            lambda: (
                manager_rig.reported("module.disabled") == [{"name": "daily", "version": "1.0.0"}]
            )
        )

        manager_rig.trust.enable("daily")
        await until(lambda: modules.routes.find("GET", "/api/daily/hello"))


async def test_an_edited_folder_is_reported_at_once_and_the_approved_version_goes_on(manager_rig):
    manager_rig.add("daily", HELLO)
    async with manager_rig.open() as modules:
        manager_rig.write(
            "daily",
            HELLO.replace('"hello"', '"changed"').replace('changed")\nasync', 'hello")\nasync'),
        )
        await until(lambda: manager_rig.reported("module.changed"))

        found = modules.routes.find("GET", "/api/daily/hello")
        assert await found.host.call(HandlerCall(found.spec.handler)) == "hello"
        assert manager_rig.status("daily").state == "changed"
        await until(
            lambda: "parachute modules diff daily" in (manager_rig.problems["module:daily"] or "")
        )

        manager_rig.approve("daily")
        await until(lambda: len(manager_rig.reported("module.enabled")) == 2)
        await until(lambda: manager_rig.problems["module:daily"] is None)
        assert len(manager_rig.reported("module.changed")) == 1


async def test_one_module_is_restarted_without_the_others(manager_rig):
    body = (
        HELLO + "\nasync def on_enable(self):\n    await self.state.put('times', await "
        "self.state.get('times', 0) + 1)\n"
    )
    manager_rig.add("daily", body)
    manager_rig.add("brain", body)

    async with manager_rig.open() as modules:
        await modules.restart("daily")
        assert await manager_rig.get("/api/daily/hello") == "hello"
        with pytest.raises(NotFoundError, match="nobody"):
            await modules.restart("nobody")

    assert (
        manager_rig.memory["daily"].kept["times"],
        manager_rig.memory["brain"].kept["times"],
    ) == (2, 1)


@pytest.mark.parametrize(
    ("hook", "user", "provider"),
    [("on_enable", "aa-daily", "zz-brain"), ("on_disable", "zz-daily", "aa-brain")],
)
async def test_who_uses_an_interface_has_it_from_its_beginning_to_its_end(
    manager_rig, hook, user, provider
):
    manager_rig.add(provider, WHO, BRAIN)
    manager_rig.add(
        user,
        f"""
        async def {hook}(self):
            brain = self.get_interface("BrainInterface")
            await self.state.put("found", await brain.who() if brain else None)
        """,
        "optional_requires: [BrainInterface]\n",
    )

    async with manager_rig.open():
        pass
    assert manager_rig.memory[user].kept["found"] == provider


async def test_an_interface_that_no_one_was_shown_stands_in_for_none_that_was(manager_rig):
    manager_rig.add("aa-thief", f"provides = ('BrainInterface',)\n{WHO}")
    manager_rig.add("zz-brain", WHO, BRAIN)

    async with manager_rig.open():
        assert await manager_rig.find("BrainInterface").who() == "zz-brain"


async def test_a_module_that_goes_leaves_the_others_with_an_error_and_comes_back(manager_rig):
    manager_rig.add("brain", WHO, BRAIN)
    manager_rig.add(
        "daily",
        """
        async def on_enable(self):
            self.brain = self.get_interface("BrainInterface")

        @route("GET", "/who")
        async def who(self):
            return await self.brain.who() if self.brain else "nobody"
        """,
        "optional_requires: [BrainInterface]\n",
    )

    async with manager_rig.open() as modules:
        assert await manager_rig.get("/api/daily/who") == "brain"
        manager_rig.trust.disable("brain")
        await modules.sync()
        assert await manager_rig.get("/api/daily/who") == "nobody"
        assert manager_rig.find("BrainInterface") is None

        manager_rig.trust.enable("brain")
        await modules.sync()
        assert await manager_rig.get("/api/daily/who") == "brain"


async def test_an_event_reaches_the_modules_that_hear_it(manager_rig):
    manager_rig.add(
        "daily",
        '@event("file.modified")\nasync def changed(self, path: str):\n    await '
        "self.state.put(path, 1)",
        "permissions: {read: ['Daily/**']}\n",
    )

    async with manager_rig.open():
        for path in ("Private/a.md", "Daily/a.md"):
            manager_rig.bus.publish(
                "file.modified", path=path, by="person", run=None, causes=["c1"], digest="d"
            )
        await until(lambda: manager_rig.memory["daily"].kept)

    assert manager_rig.memory["daily"].kept == {"Daily/a.md": 1}


async def test_a_handler_that_hangs_or_fails_does_not_keep_events_from_others(manager_rig):
    readable = "permissions: {read: ['**']}\n"
    manager_rig.add("hangs", HANGS, readable)
    manager_rig.add(
        "fails",
        '@event("file.deleted")\nasync def gone(self):\n    raise ValueError("no")',
        readable,
    )
    body = '@event("file.deleted")\nasync def gone(self, path):\n    await self.state.put(path, 1)'
    manager_rig.add("fine", body, readable)

    async with manager_rig.open():
        manager_rig.delete("a.md", "b.md")
        await until(lambda: len(manager_rig.memory["fine"].kept) == 2)
        await until(lambda: manager_rig.status("fails").problem)


async def test_tools_are_called_by_the_name_of_their_module(manager_rig):
    manager_rig.add(
        "daily",
        '@mcp_tool("daily-search")\nasync def search(self, query: str):\n    "Search."\n    '
        "return [query]",
    )

    async with manager_rig.open() as modules:
        [(module, tool)] = modules.tools()
        assert (module, tool.name, tool.description) == ("daily", "daily-search", "Search.")
        assert await modules.call_tool("daily", "daily-search", {"query": "kevin"}, Caller()) == [
            "kevin"
        ]
        for wrong in (("brain", "daily-search"), ("daily", "other")):
            with pytest.raises(NotFoundError):
                await modules.call_tool(*wrong, {}, Caller())


async def test_a_schedule_that_is_due_runs(manager_rig):
    manager_rig.add(
        "daily",
        '@schedule(every="1s")\nasync def tick(self):\n    await self.state.put("ticked", True)',
    )

    async with manager_rig.open():
        await until(lambda: manager_rig.memory["daily"].kept)


async def test_when_the_manager_stops_nothing_of_any_module_goes_on(manager_rig):
    manager_rig.add(
        "daily", "async def on_enable(self):\n    self.spawn(asyncio.sleep, 600, name='leak')"
    )

    async with manager_rig.open():
        assert [task for task in asyncio.all_tasks() if task.get_name() == "leak"]

    assert [task for task in asyncio.all_tasks() if task.get_name() == "leak"] == []
    assert manager_rig.modules.routes.find("GET", "/api/daily/hello") is None


async def test_modules_yaml_that_cannot_be_trusted_lets_nothing_run_and_says_so(manager_rig):
    manager_rig.add("daily", HELLO)
    (manager_rig.home / "modules.yaml").write_text("modules: [")

    async with manager_rig.open() as modules:
        assert modules.routes.find("GET", "/api/daily/hello") is None
        assert manager_rig.problems["modules"]


@pytest.mark.parametrize("what", ["look", "ready"])
async def test_a_disk_that_refuses_leaves_what_runs_running_and_all_is_compared_after(
    manager_rig, what
):
    manager_rig.add("daily", HELLO)

    async with manager_rig.open():
        manager_rig.trust.fails = frozenset({what})
        manager_rig.add("brain", HELLO)
        await until(lambda: "could not be read" in (manager_rig.problems.get("modules") or ""))
        assert await manager_rig.get("/api/daily/hello") == "hello"
        manager_rig.trust.fails = frozenset()
        await until(lambda: manager_rig.modules.routes.find("GET", "/api/brain/hello"))
        await until(lambda: manager_rig.problems["modules"] is None)


async def test_a_disk_that_refuses_at_the_start_does_not_keep_the_daemon_from_starting(manager_rig):
    manager_rig.add("daily", HELLO)
    manager_rig.trust.fails = frozenset({"ready"})

    async with manager_rig.open() as modules:
        await until(lambda: "could not be read" in (manager_rig.problems.get("modules") or ""))
        assert not await modules.wait_started(0)
        manager_rig.trust.fails = frozenset()
        assert await modules.wait_started(30)
        assert modules.routes.find("GET", "/api/daily/hello")


async def test_who_waits_for_the_modules_learns_at_once_that_the_manager_ends(manager_rig):
    manager_rig.trust.fails = frozenset({"ready"})

    async with asyncio.timeout(30), manager_rig.open() as modules:
        waiting = asyncio.get_running_loop().create_task(modules.wait_started(600))
        await until(lambda: manager_rig.problems.get("modules"))
    async with asyncio.timeout(30):
        assert not await waiting


async def test_a_module_that_is_too_slow_for_its_events_is_reported(manager_rig):
    manager_rig.add("daily", HANGS, "permissions: {read: ['**']}\n")

    async with manager_rig.open():
        manager_rig.delete(*(f"{number}.md" for number in range(1200)))
        await until(lambda: "some were dropped" in (manager_rig.problems.get("module:daily") or ""))
        assert manager_rig.status("daily").serving


async def test_what_was_approved_of_a_module_and_its_agents_are_known_while_it_may_run(manager_rig):
    manager_rig.add("daily", 'agents = {"helper": {"capabilities": ["read"]}}')

    async with manager_rig.open() as modules:
        assert modules.approved("daily").name == "daily"
        assert modules.agents_of("daily")["helper"].capabilities == ("read",)
        assert (modules.approved("nobody"), modules.agents_of("nobody")) == (None, {})


async def test_what_is_wrong_with_a_module_is_not_a_problem_any_more_once_it_is_removed(
    manager_rig,
):
    manager_rig.add("daily", "x = 1 / 0")

    async with manager_rig.open():
        assert "ZeroDivisionError" in str(manager_rig.problems["module:daily"])
        manager_rig.trust.remove("daily")
        shutil.rmtree(manager_rig.vault / "Modules/daily")
        await manager_rig.modules.sync()
        await until(lambda: manager_rig.problems["module:daily"] is None)


async def test_a_module_takes_part_in_hooks_while_it_runs(manager_rig):
    """It says so in its manifest alone, and may not read any note, so it has to be trusted."""
    said = """
    permissions: {hooks: [prompt.before]}
    hooks: [{event: prompt.before, handler: before_prompt}]
    """
    manager_rig.write("garden", "async def before_prompt(self): ...", said)
    with pytest.raises(OutdatedError, match="may quote any note"):
        manager_rig.approve("garden", "untrusted")
    manager_rig.approve("garden", "trusted")

    async with manager_rig.open() as modules:
        assert [participant.id for participant in manager_rig.asker.participants] == [
            "module:garden:prompt.before"
        ]
        assert manager_rig.status("garden").events == ("prompt.before",)
        manager_rig.trust.disable("garden")
        await modules.sync()
        assert manager_rig.asker.participants == []


async def test_a_module_that_is_trusted_no_longer_takes_no_part_in_hooks(manager_rig):
    body = """
    @hook("prompt.before")
    async def before_prompt(self): ...
    """
    manager_rig.add("garden", body, "permissions: {hooks: [prompt.before]}\n")
    registry = manager_rig.home / "modules.yaml"
    registry.write_text(registry.read_text().replace("trust: trusted", "trust: untrusted"))

    async with manager_rig.open():
        assert manager_rig.asker.participants == []
        assert "may quote any note" in str(manager_rig.status("garden").problem)


async def test_a_module_that_hangs_as_it_is_disabled_keeps_nothing_from_stopping(
    manager_rig, monkeypatch, caplog
):
    monkeypatch.setattr(in_process, "_DISABLE_LIMIT_S", 0.1)
    manager_rig.add("hangs", "async def on_disable(self):\n    await asyncio.Event().wait()")
    manager_rig.add("fine", "async def on_disable(self):\n    await self.state.put('ended', 1)")

    async with asyncio.timeout(30), manager_rig.open():
        pass

    assert manager_rig.memory["fine"].kept == {"ended": 1}
    assert "on_disable was not done after 0.1 s" in [
        record.problem.partition(",")[0] for record in caplog.records if hasattr(record, "problem")
    ]


MANY = """
async def doctor(self):
    return [{"problem": "x\\u202ey", "advice": "", "path": "a.md"}] * 3_000
"""


async def test_each_doctor_reports_and_one_that_fails_keeps_no_other_from_it(manager_rig):
    manager_rig.add("brain", "async def doctor(self):\n    raise ValueError('no')")
    manager_rig.add(
        "daily", "async def doctor(self):\n    return [{'problem': 'a', 'advice': 'b'}]"
    )
    manager_rig.add("many", MANY)
    manager_rig.add("quiet")
    manager_rig.write("stranger", "pass")

    async with manager_rig.open() as modules:
        found = await modules.findings(Caller())

    by_module: dict[str, list[ModuleFinding]] = {}
    for finding in found:
        by_module.setdefault(finding.module, []).append(finding)
    assert list(by_module) == ["stranger", "brain", "daily", "many"]
    assert "waits for your approval" in by_module["stranger"][0].problem
    assert "failed in doctor" in by_module["brain"][0].problem
    assert "`parachute modules status brain`" in by_module["brain"][0].advice
    assert by_module["daily"] == [ModuleFinding(module="daily", problem="a", advice="b")]
    assert len(by_module["many"]) == 201
    assert by_module["many"][-1].problem == "and 2,800 more"
    assert "\u202e" not in by_module["many"][0].problem
