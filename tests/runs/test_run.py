"""Run: it ends once, with its reason, in the audit, the history and on the bus."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest

from parachuted.access.caller import Caller
from parachuted.access.grant import Grant
from parachuted.access.run_guard import RunGuard
from parachuted.access.strangers import SessionTaints, Taint
from parachuted.agents.active_runs import ActiveRuns
from parachuted.agents.calling import call_tool
from parachuted.agents.job import Backend, Tool, ToolResult
from parachuted.agents.permission import PermissionRequests
from parachuted.errors import AgentFailedError, AgentStoppedError
from parachuted.history.run_account import RunAccount, RunAccounts
from parachuted.keys import NOWHERE
from parachuted.runs.agent_hooks import RunHooks
from parachuted.runs.bounds import ModuleBounds
from parachuted.runs.run import Run, RunParts
from parachuted.tasks import Causes, RunOutcome
from parachuted.testing import ScriptedBackend, say, use
from parachuted.vault import Author
from tests.modules.module_rig import MemoryAudit, ModuleRig
from tests.runs.task_rig import JOB, NOON, FakeSuggestions, make_audit, make_task

TASK = make_task()
DONE = RunOutcome(result="unchanged", reason="done")


async def nothing() -> RunOutcome:
    return DONE


class SmallRun(Run):
    cancelled = "nobody waits for it"
    is_final = True

    def __init__(self, parts: RunParts) -> None:
        grant = Grant(agent="helper", reads=NOWHERE, writes=NOWHERE, tainted_writes=NOWHERE)
        super().__init__(
            parts,
            TASK,
            Author(by="agent:helper"),
            RunGuard(grant=grant, taint=Taint()),
            ModuleBounds.of_agent("the helper agent", grant),
        )
        self.act: Callable[[], Awaitable[RunOutcome]] = nothing
        self.closed: list[tuple[RunOutcome, BaseException | None]] = []
        self.account = RunAccount(
            task=TASK,
            backend="scripted",
            model=None,
            started=NOON,
            changes=(),
            prompt="",
            system_prompt="",
            written=(),
        )

    async def work(self) -> RunOutcome:
        return await self.act()

    async def settle(self, outcome: RunOutcome, error: BaseException | None) -> bool:
        self.closed.append((outcome, error))
        return self.is_final

    def caller(self) -> Caller:
        return Caller()


class RunRig:
    def __init__(self, module_rig: ModuleRig) -> None:
        self.module_rig, self.active_runs = module_rig, ActiveRuns()
        self.events = module_rig.events
        self.run = self.run_with(ScriptedBackend())

    def run_with(self, backend: Backend) -> SmallRun:
        rig = self.module_rig
        parts = RunParts(
            backend=backend,
            accounts=RunAccounts(rig.history, rig.objects, Causes(rig.state)),
            active_runs=self.active_runs,
            vaults=rig.vaults,
            hooks=RunHooks(rig.store, rig.bus),
            taints=SessionTaints(rig.state, rig.clock),
            suggestions=FakeSuggestions(),
            permissions=PermissionRequests(rig.bus, rig.clock),
        )
        return SmallRun(parts)

    async def perform(self) -> RunOutcome:
        return await self.run.perform(since=self.active_runs.moment)

    def ends(self) -> list[tuple[str, str | None]]:
        return [
            (event.target_endpoint, event.error)
            for event in self.module_rig.audit.events
            if event.event_type == "agent_end"
        ]


@pytest.fixture
def rig(module_rig: ModuleRig) -> RunRig:
    return RunRig(module_rig)


async def test_a_run_that_ends_is_closed_audited_and_published_once(rig: RunRig):
    assert await rig.perform() == DONE
    assert rig.run.closed == [(DONE, None)]
    assert rig.ends() == [("agents.scripted: unchanged", None)]
    (event,) = rig.events
    assert (event.event, event.data["outcome"]) == ("run.finished", "unchanged")

    rig.run = rig.run_with(ScriptedBackend())
    rig.run.is_final = False  # it will be tried again, so it has not finished
    await rig.perform()
    assert (len(rig.run.closed), rig.events) == (1, [event])


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (AgentFailedError("no credit"), "no credit"),
        (AgentStoppedError("you stopped it"), "you stopped it"),
        (RuntimeError("bug"), "it broke"),
    ],
)
async def test_a_run_that_fails_is_closed_with_its_reason_and_raises_its_error(
    rig: RunRig, error: Exception, reason: str
):
    async def fail() -> RunOutcome:
        raise error

    rig.run.act = fail
    with pytest.raises(type(error)):
        await rig.perform()

    ((outcome, _error),) = rig.run.closed
    assert (outcome.result, outcome.reason) == ("failed", reason)
    assert rig.ends() == [("agents.scripted: failed", "the run failed; its record says why")]
    assert [event.data["reason"] for event in rig.events] == [reason]


async def test_the_words_after_the_last_call_are_the_answer(rig: RunRig):
    blocks = [say("Let me see."), use("nothing"), say("One."), say("Two.")]

    run = rig.run_with(ScriptedBackend(blocks))
    await run.follow(JOB)
    assert run.answer == "One.\n\nTwo."


def reported(kept: MemoryAudit) -> list[tuple[object, ...]]:
    return [(event.event_type, event.target_endpoint, event.success) for event in kept.events]


async def answer(arguments: dict[str, object]) -> ToolResult:
    path = arguments.get("file_path")
    if path == "break":
        raise RuntimeError
    return ToolResult(text="no" if path == "bad" else "yes", is_error=path == "bad")


TOOL = Tool(
    name="read", description="", schema={"type": "object", "required": ["file_path"]}, call=answer
)


@pytest.fixture
def kept():
    return MemoryAudit()


@pytest.fixture
def audit(kept):
    return make_audit(kept, "a\udcff.md", "curator")


def test_the_begin_and_the_end_are_reported_with_run_and_causes(kept, audit):
    audit.record_start()
    audit.record_end(RunOutcome(result="changed", reason="updated a.md"), 1.0)
    audit.record_end(RunOutcome(result="failed", reason="it ran out of time"), 1.0)

    assert reported(kept) == [
        ("agent_start", "agents.scripted", True),
        ("agent_end", "agents.scripted: changed", True),
        ("agent_end", "agents.scripted: failed", False),
    ]
    assert {(event.run, tuple(event.causes), tuple(event.paths)) for event in kept.events} == {
        ("r-1", ("c1",), ("a\\xff.md",))
    }
    assert kept.events[2].error == "the run failed; its record says why"


async def test_each_call_of_a_tool_is_recorded_also_one_that_breaks(kept, audit):
    (tool,) = audit.tools([TOOL])
    for path in ("a.md", "bad"):
        await tool.call({"file_path": path})
    with pytest.raises(RuntimeError):
        await tool.call({"file_path": "break"})

    assert reported(kept) == [
        ("mcp_call", "curator.read", True),
        ("mcp_call", "curator.read", False),
        ("mcp_call", "curator.read", False),
    ]
    assert [event.paths for event in kept.events] == [["a.md"], ["bad"], ["break"]]
    assert kept.events[-1].error == "the call was cut short"


@pytest.mark.parametrize("name", ["read", "the diagnosis, all of it"])
async def test_neither_the_words_of_an_error_nor_a_made_up_name_is_recorded(kept, audit, name):
    audit.record_call(name, {}, ToolResult(text="no; it has Diagnosis", is_error=True), 1.0)

    (event,) = kept.events
    assert event.error == "it answered an error"
    assert "iagnosis" not in repr(event)


async def test_what_an_agent_names_may_be_anything(kept, audit):
    for path in ("\ud800", "x" * 10_000_000, 7, None):
        audit.record_call("y" * 1_000_000, {"file_path": path}, ToolResult(text=""), 1.0)

    assert all(len(repr(event)) < 5_000 for event in kept.events)
    assert kept.events[0].paths == ["\\ud800"]


async def test_a_call_whose_answer_leaves_out_what_is_private_says_so(kept, audit):
    async def shortened(_arguments: dict[str, object]) -> ToolResult:
        return ToolResult(text="# Day\n\n(private part 1: left out)\n")

    (tool,) = audit.tools([Tool(name="read", description="", schema={}, call=shortened)])
    await call_tool([tool], "read", {"file_path": "a.md"})

    assert [event.target_endpoint for event in kept.events] == [
        "curator.read: private parts left out"
    ]
