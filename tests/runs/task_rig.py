"""A task, its run and its hooks, as tests need them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from parachuted.access.caller import Caller
from parachuted.access.grant import Grant
from parachuted.access.strangers import RunGuard, SessionTaints, Strangers, Taint
from parachuted.agents.active_runs import ActiveRuns
from parachuted.agents.job import Backend, RunLimits
from parachuted.agents.permission import PermissionRequests
from parachuted.errors import NotFoundError
from parachuted.history.run_account import RunAccounts
from parachuted.hooks import HookDecision, HookEvent, Hooks
from parachuted.keys import NOWHERE
from parachuted.runs.agent_hooks import AgentHooks, RunHooks, SessionEvents
from parachuted.runs.bounds import ModuleBounds
from parachuted.runs.granted_vault import GrantedVaults
from parachuted.runs.run import Run, RunParts
from parachuted.suggestions import Proposal
from parachuted.tasks import Causes, RunOutcome, Task
from parachuted.testing import ScriptedBackend
from parachuted.vault import Author

if TYPE_CHECKING:
    from tests.modules.module_rig import ModuleRig

NOON = datetime(2026, 1, 5, 12, 0, tzinfo=UTC)
LIMITS = RunLimits(timeout_s=60, max_turns=5, max_cost_usd=1)
HELPER = Grant(agent="helper", reads=NOWHERE, writes=NOWHERE, tainted_writes=NOWHERE)
DONE = RunOutcome(result="unchanged", reason="done")


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
    vaults = SimpleNamespace(store=store, strangers=Strangers())
    shared = RunHooks(vaults, SimpleNamespace(publish=publish), asker)
    return AgentHooks(shared, "r-1", agent, Taint() if taint is None else taint)


def make_parts(
    rig: Any,
    vaults: GrantedVaults,
    backend: Backend,
    asker: Hooks | None = None,
    causes: Causes | None = None,
    **more: Any,
) -> RunParts:
    causes = causes or Causes(rig.state)
    parts = {
        "active_runs": ActiveRuns(),
        "taints": SessionTaints(rig.state, rig.clock),
        "suggestions": FakeSuggestions(),
        "permissions": PermissionRequests(rig.bus, rig.clock, 0.01),
    }
    return RunParts(
        backend=backend,
        accounts=RunAccounts(rig.history, rig.objects, causes),
        vaults=vaults,
        hooks=RunHooks(vaults, rig.bus, asker, causes.root_of),
        sessions=SessionEvents(rig.bus, rig.clock),
        **{**parts, **more},
    )


async def nothing() -> RunOutcome:
    return DONE


class SmallRun(Run):
    """A run of that grant whose work is `act`; `ends` remembers how it was settled."""

    cancelled = "nobody waits for it"
    is_final = True

    def __init__(
        self,
        rig: ModuleRig,
        backend: Backend | None = None,
        grant: Grant = HELPER,
        watcher: str = "w.md",
        **guard: object,
    ) -> None:
        super().__init__(
            make_parts(rig, rig.vaults, backend or ScriptedBackend()),
            make_task(watcher),
            Author(by=f"agent:{grant.agent}", run="r-1", causes=("c1",)),
            RunGuard(**{"grant": grant, "taint": Taint(), **guard}),
            ModuleBounds.of_agent(grant.agent, grant),
        )
        self.act: Callable[[], Awaitable[RunOutcome]] = nothing
        self.ends: list[tuple[RunOutcome, BaseException | None]] = []
        self.brief("", "", (), LIMITS)

    async def work(self) -> RunOutcome:
        return await self.act()

    async def settle(self, outcome: RunOutcome, error: BaseException | None) -> bool:
        self.ends.append((outcome, error))
        return self.is_final

    def caller(self) -> Caller:
        return Caller()
