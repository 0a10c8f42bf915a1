"""Running, the contract: the same module does the same in the daemon's process and in one of its
own.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from pathlib import Path

import pytest
import pytest_asyncio

from parachuted.access.caller import Caller
from parachuted.access.grant import CallerGrant
from parachuted.errors import (
    ActRefusedError,
    ModuleFailedError,
    NotFoundError,
    PathRefusedError,
)
from parachuted.keys import AccessGrant, PathGlob
from parachuted.modules import CurrentCall
from parachuted.modules.hosting.host import HandlerCall, ModuleHost
from parachuted.modules.hosting.in_process import InProcessHost
from parachuted.modules.hosting.module_containers import ContainerHost
from parachuted.modules.outside_folders import FolderAccess
from parachuted.modules.registry.approved import ApprovedModule
from parachuted.modules.registry.arguments import RequestParts
from parachuted.modules.results import Finding, Response
from parachuted.modules.services import Services
from parachuted.testing import ScriptedBackend, say, use
from tests.modules.container_rig import ContainerRig
from tests.modules.module_rig import ModuleRig, outside
from tests.modules.small_modules import StubServices, approve, until, write_module

Begin = Callable[..., "asyncio.Future[ModuleHost]"]
Way = Callable[[ApprovedModule, Services], ModuleHost]
CALL = CurrentCall(run="r-1", is_strangers=True, key="k_phone")

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest.fixture(scope="module", params=["in process", "container"])
def way(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Way:
    """Make a module run in that way; Docker's walls change nothing here."""
    if request.param == "in process":
        return InProcessHost
    containers = ContainerRig(tmp_path_factory.mktemp("containers") / "rig").containers
    return lambda approved, services: ContainerHost(
        approved, services, None, lambda: None, containers
    )


@pytest.fixture(scope="module")
def services(way: Way) -> StubServices:
    """Of one way, so that nothing of the other is left in them."""
    del way
    return StubServices(name="brain", current_call=CALL)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def running(
    way: Way, services: StubServices, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[ModuleHost]:
    """The module that most tests share."""
    folder = write_module(
        tmp_path_factory.mktemp("shared") / "m", SHARED, name="brain", manifest=SHARED_MANIFEST
    )
    host = way(approve(folder), services)
    await host.start()
    yield host
    await host.stop()


@pytest_asyncio.fixture(loop_scope="module")
async def begin(way: Way, tmp_path: Path) -> AsyncIterator[Begin]:
    """Begin a module: one with that body, or one that is approved already."""
    started: list[ModuleHost] = []

    async def one(body: str | ApprovedModule, services: Services) -> ModuleHost:
        is_approved = isinstance(body, ApprovedModule)
        approved = body if is_approved else approve(write_module(tmp_path / "m", body))
        started.append(way(approved, services))
        await started[-1].start()
        return started[-1]

    yield one
    for host in started:
        await host.stop()


async def refused(work) -> str:
    with pytest.raises(ModuleFailedError) as failed:
        await work
    return str(failed.value)


SHARED_MANIFEST = "provides: [BrainInterface]\n"
SHARED = """
@route("POST", "/made")
async def make(self):
    from datetime import date
    return Response(status=201, body=(1, date(2026, 1, 5)), headers={"X-It": "y"})

@route("GET", "/odd")
async def odd(self, well: bool = False):
    if not well:
        raise KeyError("secret")  # here

@route("GET", "/named")
async def named(self):
    from parachuted.errors import NotFoundError
    raise NotFoundError("no such day")

@route("GET", "/endless")
async def endless(self, well: bool = False):
    while not well:
        await asyncio.sleep(0)
    return "fine"

@event("brain.said")
async def said(self, word: str, none: str = "none"):
    await self.state.put("got", [word, none])

@event("brain.gone")
async def gone(self, well: bool = False):
    from parachuted.errors import NotFoundError
    if not well:
        raise NotFoundError("gone")

@interface("BrainInterface")
async def search(self, words, *, limit=2):
    return [{"name": words, "limit": limit}]
@interface("BrainInterface")
def plain(self):
    return "not awaited inside"
@interface("BrainInterface")
async def fail(self, *, well=False):
    return well or 1 / 0
async def undeclared(self): ...
@route("DELETE", "/all", capability="admin")
async def delete_all(self): ...

answers = iter([{"problem": 1}, "bad"])
is_well = True
async def doctor(self):
    from parachuted.modules import Finding
    if self.is_well:
        self.is_well = False
        return [Finding(problem="two have one id", path="Brain/a.md", advice="change one")]
    for answer in self.answers:
        return [answer]
    raise OSError("broken")

@mcp_tool("who")
async def who(self):
    call = self.current_call
    return [call.run, call.is_strangers, call.key]
"""


LIFE = """
from dataclasses import dataclass
@dataclass
class Settings:
    layout: str = "journals"
    days: int = 3
async def on_enable(self):
    import sqlite3
    self.publish("daily.up", at=1)
    self.base = sqlite3.connect(self.data_folder / "index.db")
    self.base.execute("PRAGMA journal_mode=WAL")
    self.base.execute("CREATE TABLE IF NOT EXISTS t (a)")
async def on_disable(self):
    self.base.close()
    self.publish("daily.down")
@route("GET", "/days/{day}")
async def day(self, day: str, limit: int = 5):
    "One day."
    with self.base:
        self.base.execute("INSERT INTO t VALUES (1)")
    count = self.base.execute("SELECT count(*) FROM t").fetchone()[0]
    return [day, limit, count, self.has_model, self.data_folder.name, self.settings.days]
async def work(self, word):
    self.publish("daily.opened", word=word)
    try:
        await asyncio.Event().wait()
    finally:
        self.log.info("the work was ended")
async def lose(self):
    raise LookupError("what was sought is gone")
@route("POST", "/work")
async def begin(self):
    return self.spawn(self.work, "hello", name="counting").get_name()
@route("POST", "/lost")
async def begin_losing(self):
    self.kept = self.spawn(self.lose)
"""


async def test_it_declares_enables_serves_and_disables(begin, tmp_path):
    services = StubServices(has_model=False, config={"days": 7})
    approved = approve(write_module(tmp_path / "m", LIFE), config={"days": 7})
    host = await begin(approved, services)
    route = next(one for one in host.declared.routes if one.handler == "day")
    asked = HandlerCall("day", request=RequestParts(path={"day": "monday"}, query={"limit": "7"}))

    assert (route.method, route.path) == ("GET", "/days/{day}")
    assert (route.capability, route.summary) == ("read", "One day.")
    assert host.declared.has_doctor is False
    assert [(one.key, one.kind, one.default) for one in host.declared.settings] == [
        ("layout", "text", '"journals"'),
        ("days", "whole number", "3"),
    ]
    assert await host.call(asked) == ["monday", 7, 1, False, "daily", 7]

    assert await host.call(HandlerCall("begin", caller=Caller())) == "counting"
    await until(lambda: len(services.published) == 2)
    assert host.problem is None, "spawned work outlives its call"
    await host.call(HandlerCall("begin_losing"))
    await until(lambda: host.problem)
    assert "what was sought is gone" in host.problem
    await host.stop()
    await host.stop()
    assert "not running" in await refused(host.call(asked))
    said = [("daily.up", {"at": 1}), ("daily.opened", {"word": "hello"}), ("daily.down", {})]
    assert services.published == said
    await host.start()
    assert await host.call(asked) == ["monday", 7, 2, False, "daily", 7]


async def test_an_answer_arrives_with_its_status_and_a_named_error_as_itself(running):
    assert await running.call(HandlerCall("make")) == Response(
        status=201, body=[1, "2026-01-05"], headers={"X-It": "y"}
    )
    with pytest.raises(NotFoundError, match="no such day"):
        await running.call(HandlerCall("named"))
    assert await running.call(HandlerCall("who")) == ["r-1", True, "k_phone"]


async def goes_well(running: ModuleHost, handler: str) -> None:
    """What it does next ends its problem."""
    await running.call(HandlerCall(handler, request=RequestParts(query={"well": "yes"})))
    await until(lambda: running.problem is None)


async def test_a_failure_is_kept_as_the_traceback_until_it_goes_well(running):
    """A loop without an end is one, at its limit."""
    said = await refused(running.call(HandlerCall("odd")))
    assert "secret" not in said
    assert 'raise KeyError("secret")  # here' in running.problem
    await goes_well(running, "odd")

    await refused(running.call(HandlerCall("endless", timeout_s=0.1)))
    assert "not done after 0.1 s" in running.problem
    await goes_well(running, "endless")


async def test_an_event_is_reported_and_what_its_handler_raises_is_a_problem(running, services):
    await running.call(HandlerCall("said", {"word": "hi", "more": [1]}, is_event=True))
    assert services.state.kept["got"] == ["hi", "none"]

    await refused(running.call(HandlerCall("gone", is_event=True)))
    await until(lambda: running.problem)
    assert "gone" in running.problem
    await running.call(HandlerCall("gone", {"well": True}, is_event=True))
    await until(lambda: running.problem is None)


async def test_an_interface_has_the_methods_that_are_declared_and_no_others(running):
    brain = running.interface("BrainInterface")

    assert await brain.search("kevin", limit=3) == [{"name": "kevin", "limit": 3}]
    assert await brain.plain() == "not awaited inside"
    assert running.interface("Other") is None
    with pytest.raises(TypeError):
        await brain.search(to="nobody")
    assert running.problem is None
    await refused(brain.fail())
    assert await brain.fail(well=True) is True
    with pytest.raises(AttributeError):
        getattr(brain, "_services")  # noqa: B009  as any other name
    for name in ("nothing", "undeclared", "delete_all", "publish", "run_agent", "on_disable"):
        with pytest.raises(ActRefusedError):
            await getattr(brain, name)()


async def test_its_doctor_is_asked_as_any_handler_is_and_one_that_fails_says_how(running):
    assert running.declared.has_doctor is True
    found = Finding(problem="two have one id", advice="change one", path="Brain/a.md")
    assert await running.doctor(Caller()) == [found]
    for says in ("something else than a list", "something else than a list", "failed in doctor"):
        assert says in await refused(running.doctor(Caller()))


NOT_STARTED = {
    "ValueError: no": "async def on_enable(self):\n    raise ValueError('no')",
    "SystemExit": "async def on_enable(self):\n    raise SystemExit(3)",
    "nothing_of_that_name": "import nothing_of_that_name",
    "modules.yaml: config.days: Input should be a valid integer": LIFE,
    "provides: add HiddenInterface": "provides = ['HiddenInterface']",
}


async def test_what_cannot_begin_says_why(way, tmp_path):
    async def said(body: str) -> str:
        config = {"days": "x"} if body is LIFE else {}
        folder = write_module(tmp_path / str(len(body)), body)
        host = way(approve(folder, config=config), StubServices(config=config))
        said = await refused(host.start())
        await host.stop()
        return f"{said} {host.problem}"

    found = await asyncio.gather(*map(said, NOT_STARTED.values()))
    assert [says for says, told in zip(NOT_STARTED, found, strict=True) if says not in told] == []


RUNTIME = """
async def later(self, word: str = "none"):
    await self.state.put("later", word)
@route("POST", "/")
async def all(self):
    await self.schedules.set("nightly", "later", cron="0 3 * * *", args={"word": "beans"})
    await self.activity.log("talked", session_id="s1")
    run = await self.agent("helper").start("Go.")
    steps = [step.text async for step in run]
    result = await run.result()
    (self.data_folder / "index").write_text("kept")
    return {
        "told": await self.run_agent("helper", "Go."),
        "absent": await self.state.get("x", self) is self,
        "answer": await self.ask("Why?", max_usd=0.5, conversation=True),
        "steps": steps,
        "outcome": result.outcome,
        "schedules": [one.name for one in await self.schedules.list()],
        "removed": await self.schedules.remove("nightly"),
    }
@route("POST", "/talk")
async def talk(self):
    from parachuted.modules import AgentNarrowing, AgentQuestion
    run = await self.agent("helper").start(
        "Ask.", conversation=True, narrowing=AgentNarrowing(write=[]), model="claude-opus-5"
    )
    steps = []
    async for step in run:
        steps.append(type(step).__name__)
        if isinstance(step, AgentQuestion):
            steps.append(await run.answer(step.id, {"Which?": "South"}))
            steps.append(await run.answer("q-none", "x"))
    return {"steps": steps, "text": (await run.result()).text, "late": await run.inject("x")}
"""


async def test_schedules_activity_runs_and_conversations_work_in_both(begin, module_rig, tmp_path):
    async def script(job):
        asks = [use("AskUserQuestion", questions=[{"question": "Which?"}])]
        return [*(asks if job.prompt == "Ask." else ()), say("Done.")]

    manifest = "agents: {helper: {capabilities: [read]}}\n"
    approved = approve(write_module(tmp_path / "copy", RUNTIME, manifest=manifest))
    backend = ScriptedBackend(script)
    services = module_rig.given(approved, module_rig.agents(backend))
    host = await begin(approved, services)

    assert await host.call(HandlerCall("all", caller=Caller())) == {
        "told": "Done.",
        "absent": True,
        "answer": "Done.",
        "steps": ["Done."],
        "outcome": "unchanged",
        "schedules": ["nightly"],
        "removed": True,
    }
    assert (services.data_folder / "index").read_text() == "kept"
    [log] = (module_rig.vault / ".parachute/activity").iterdir()
    assert '"summary": "talked"' in log.read_text()
    assert await host.call(HandlerCall("talk", caller=Caller())) == {
        "steps": ["QuestionStep", True, False, "AgentToolCall", "TextStep"],
        "text": "Done.",
        "late": False,
    }
    assert backend.jobs[-1].model == "claude-opus-5"


NOTES = """
@route("POST", "/work")
async def work(self):
    from parachuted.modules import AppendSection, ReplaceSpan, SetKey
    async def pieces():
        for _ in range(3):
            yield b"x" * 700_000
    made = await self.vault.upload("Daily/sound.wav", pieces())
    note = await self.vault.note("Daily/a.md")
    at = note.text.index("old")
    await self.vault.edit(
        note.path,
        [SetKey("n", 2), AppendSection("Log", "- two"), ReplaceSpan(at, at + 3, "new")],
        base=note.digest,
    )
    await self.vault.move("Daily/b.md", "Daily/c.md")
    page = await self.vault.notes("Daily", where={"n": 2})
    return {
        "size": made.size,
        "before": note.frontmatter,
        "links": [link.path for link in note.links],
        "found": [row.path for row in page.notes],
        "read": [one.path async for one in self.vault.read_notes("Daily/")],
        "back": [row.path for row in await self.vault.backlinks("Daily/c.md")],
    }

@route("POST", "/reach")
async def reach(self, call: str, path: str):
    if call == "read_notes":
        return [one.text async for one in self.vault.read_notes([path])]
    if call == "folders":
        return await self.folders.read(path)
    if call == "move":
        return await self.vault.move(path, "Daily/mine.md")
    if call == "notes":
        return [row.title for row in (await self.vault.notes(path)).notes]
    return [repr(await getattr(self.vault, call)(path))]
"""


@pytest.fixture
def notes_rig(module_rig: ModuleRig) -> ModuleRig:
    module_rig.save("Daily/a.md", "---\nn: 1\n---\n# A\n\nold [[b]]\n\n## Log\n\n- one\n")
    module_rig.save("Daily/b.md", "# B\n")
    module_rig.save("Private/secret.md", "# Secret\n\n[[a]]\n")
    module_rig.library.settled()
    return module_rig


def reader(module_rig: ModuleRig) -> StubServices:
    vault = module_rig.bounded(read=["Daily/**"], write=["Daily/**"])
    home = module_rig.folder
    return StubServices(vault=vault, folders=FolderAccess("daily", [], outside(home), Caller))


async def test_notes_are_read_edited_moved_and_uploaded_wherever_it_runs(begin, notes_rig):
    host = await begin(NOTES, reader(notes_rig))

    assert await host.call(HandlerCall("work", caller=Caller())) == {
        "size": 2_100_000,
        "before": {"n": 1},
        "links": ["Daily/b.md"],
        "found": ["Daily/a.md"],
        "read": ["Daily/a.md", "Daily/c.md"],
        "back": ["Daily/a.md"],
    }
    assert notes_rig.text("Daily/a.md") == (
        "---\nn: 2\n---\n# A\n\nnew [[Daily/c]]\n\n## Log\n\n- one\n- two\n"
    )


REACHING = ("read", "note", "backlinks", "read_notes", "move", "delete", "folders")
UNREADABLE = ("Private/secret.md", "../secret.md", "/etc/passwd", "Daily/out.md", "Daily/none.md")


async def test_no_call_reaches_what_it_or_its_caller_may_not_read(begin, notes_rig):
    notes_rig.link("Daily/out.md", "../Private/secret.md")
    host = await begin(NOTES, reader(notes_rig))

    async def reach(call: str, path: str, caller: Caller) -> object:
        return await host.call(HandlerCall("reach", {"call": call, "path": path}, caller=caller))

    reached = {}
    for call, path in itertools.product(REACHING, UNREADABLE):
        with suppress(ActRefusedError, NotFoundError, PathRefusedError):
            reached[call, path] = await reach(call, path, Caller())
    assert reached == {("read_notes", "Daily/out.md"): [], ("read_notes", "Daily/none.md"): []}
    assert notes_rig.text("Private/secret.md") == "# Secret\n\n[[a]]\n"

    grant = AccessGrant(alternatives=(((PathGlob("Daily/b.md"),),),))
    limited = Caller(grant=CallerGrant(reads=grant, writes=grant))
    assert await reach("notes", "Daily", limited) == ["B"]
    for call in ("note", "backlinks", "read_notes"):
        with pytest.raises(ActRefusedError):
            await reach(call, "Daily/a.md", limited)
