"""Run: it ends once, with its reason, in the audit, the history and on the bus."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path

import pytest

from parachuted.agents import Backend, Job, RunLimits, Step
from parachuted.agents.active_runs import ActiveRuns, Reach
from parachuted.audit.chain import AuditEvent
from parachuted.errors import AgentFailedError, AgentStoppedError
from parachuted.events import Bus, Event
from parachuted.history.run_account import RunAccount, RunAccounts
from parachuted.keys import NOWHERE
from parachuted.runs import AgentHooks
from parachuted.runs.run import Run, RunServices
from parachuted.state import open_state
from parachuted.tasks import Causes, RunOutcome
from parachuted.testing import ScriptedBackend, say, use
from parachuted.vault import History, ObjectStore
from tests.runs.task_rig import NOON, make_hooks, make_task

TASK = make_task()
JOB = Job(
    id="r-1",
    watcher="w.md",
    system_prompt="",
    prompt="",
    tools=(),
    limits=RunLimits(timeout_s=60, max_turns=5, max_cost_usd=1),
    changes=(),
    at=NOON,
)
DONE = RunOutcome(result="unchanged", reason="done")


async def nothing() -> RunOutcome:
    return DONE


class SmallRun(Run):
    """A run whose work each test replaces."""

    cancelled = "nobody waits for it"
    is_final = True

    def __init__(self, services: RunServices, hooks: AgentHooks) -> None:
        super().__init__(services, hooks, TASK, agent="helper")
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

    def reach(self) -> Reach:
        return NOWHERE, NOWHERE


class RunRig:
    """With what a run works, and what it left."""

    refusal: str | None = None

    def __init__(self, folder: Path) -> None:
        self.events: list[Event] = []
        self.audited: list[AuditEvent] = []
        self.history, self.objects = History(folder / "history.db"), ObjectStore(folder / "objects")
        self.state = open_state(folder / "state.journal")
        self.bus, self.active_runs = Bus(lambda: NOON), ActiveRuns()
        self.bus.subscribe(self.events.append)
        self.hooks = make_hooks()
        self.run = self.run_with(ScriptedBackend())

    def record(self, event: AuditEvent) -> None:
        self.audited.append(event)

    def run_with(self, backend: Backend) -> SmallRun:
        services = RunServices(
            backend=backend,
            accounts=RunAccounts(self.history, self.objects, Causes(self.state)),
            active_runs=self.active_runs,
            bus=self.bus,
            clock=lambda: NOON,
            audit=self,
        )
        return SmallRun(services, self.hooks)

    async def perform(self) -> RunOutcome:
        return await self.run.perform(since=self.active_runs.moment)

    def ends(self) -> list[tuple[str, str | None]]:
        """How the audit says that it ended."""
        return [
            (event.target_endpoint, event.error)
            for event in self.audited
            if event.event_type == "agent_end"
        ]


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[RunRig]:
    rig = RunRig(tmp_path)
    yield rig
    rig.history.close()
    rig.objects.close()
    rig.state.close()


async def test_a_run_that_ends_is_closed_audited_and_published_once(rig: RunRig):
    assert await rig.perform() == DONE
    assert rig.run.closed == [(DONE, None)]
    assert rig.ends() == [("agents.scripted: unchanged", None)]
    assert [(event.event, event.data["outcome"]) for event in rig.events] == [
        ("run.finished", "unchanged")
    ]


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (AgentFailedError("no credit"), "no credit"),
        (AgentStoppedError("you stopped it"), "you stopped it"),
        (RuntimeError("bug"), "it broke"),
    ],
)
async def test_a_run_that_fails_is_closed_with_its_reason_before_its_error_is_raised(
    rig: RunRig, error: Exception, reason: str
):
    async def fail() -> RunOutcome:
        raise error

    rig.run.act = fail
    with pytest.raises(type(error)):
        await rig.perform()

    assert [(outcome.result, outcome.reason) for outcome, _ in rig.run.closed] == [
        ("failed", reason)
    ]
    assert rig.ends() == [("agents.scripted: failed", reason)]
    assert [event.data["reason"] for event in rig.events] == [reason]


async def test_a_run_that_is_tried_again_has_not_finished(rig: RunRig):
    rig.run.is_final = False
    await rig.perform()

    assert (len(rig.run.closed), rig.events) == (1, [])


async def test_a_cancelled_run_is_closed(rig: RunRig):
    working = asyncio.Event()

    async def work() -> RunOutcome:
        working.set()
        await asyncio.Event().wait()
        return DONE

    rig.run.act = work
    running = asyncio.get_running_loop().create_task(rig.perform(), name="run")
    await working.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running

    assert [outcome.reason for outcome, _ in rig.run.closed] == ["nobody waits for it"]


async def test_the_words_after_the_last_call_are_the_answer(rig: RunRig):
    blocks = [say("Let me see."), use("nothing"), say("One."), say("Two.")]

    assert await rig.run_with(ScriptedBackend(blocks)).follow(JOB) == "One.\n\nTwo."


@pytest.mark.parametrize("error", [asyncio.CancelledError(), TimeoutError(), ValueError("odd")])
async def test_a_backend_that_breaks_has_failed_and_cancels_no_one(
    rig: RunRig, error: BaseException
):
    class Broken:
        name = "odd"

        async def run(self, _job: Job) -> AsyncIterator[Step]:
            yield say("Hm.")
            raise error

    with pytest.raises(AgentFailedError, match="the backend odd broke"):
        await rig.run_with(Broken()).follow(JOB)
