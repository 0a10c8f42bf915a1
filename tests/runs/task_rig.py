"""A task of a run, its job and its hooks, as tests need them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace

from parachuted.access.strangers import Taint
from parachuted.agents.job import Job, RunLimits
from parachuted.audit.chain import AuditRecorder
from parachuted.errors import NotFoundError
from parachuted.hooks import HookDecision, HookEvent, Hooks
from parachuted.runs.agent_hooks import AgentHooks, RunHooks
from parachuted.runs.run import RunAudit
from parachuted.suggestions import Proposal
from parachuted.tasks import Task

NOON = datetime(2026, 1, 5, 12, 0, tzinfo=UTC)
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


class FakeSuggestions:
    """Suggestions that are remembered; each is called `s-1`."""

    id = "s-1"

    def __init__(self) -> None:
        self.proposals: list[Proposal] = []

    async def propose(self, proposal: Proposal) -> FakeSuggestions:
        self.proposals.append(proposal)
        return self


class ScriptedHooks:
    def __init__(self, answers: Mapping[str, HookDecision] | None = None) -> None:
        self.answers = dict(answers or {})
        self.asked: list[HookEvent] = []

    def wants(self, event: str) -> bool:
        return event in self.answers

    async def ask(self, hook_event: HookEvent) -> HookDecision:
        self.asked.append(hook_event)
        return self.answers[hook_event.event]


def make_task(watcher: str = "w.md") -> Task:
    return Task(
        id="t-1",
        watcher=watcher,
        state="running",
        causes=("c1",),
        parents=(),
        first_at=NOON,
        last_at=NOON,
        due_at=NOON,
        run="r-1",
    )


def make_audit(recorder: AuditRecorder, watcher: str = "w.md", agent: str = "helper") -> RunAudit:
    return RunAudit(
        recorder=recorder,
        clock=lambda: NOON,
        backend="agents.scripted",
        task=make_task(watcher),
        agent=agent,
    )


def make_hooks(
    asker: Hooks | None = None,
    folder: Path = Path("/v"),
    publish: Callable[..., object] = lambda _event, /, **_data: None,
    *,
    agent: str = "helper",
    taint: Taint | None = None,
) -> AgentHooks:
    def read(path: str) -> None:
        raise NotFoundError(f"{path} is not in the vault")

    store = SimpleNamespace(folder=folder, clock=lambda: NOON, read=read)
    shared = RunHooks(store, SimpleNamespace(publish=publish), asker)
    return AgentHooks(shared, "r-1", agent, Taint() if taint is None else taint)
