"""Module agents: lets an agent of a module work, with our own tools alone, within its paths, its module's permissions and all budgets."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

from parachuted.agents import Backend, Called, Job, Limits, Said, Tool
from parachuted.errors import ActRefusedError, AgentFailedError, AgentUnavailableError, NotFoundError, StorageFailedError
from parachuted.events import Bus
from parachuted.events.audit import Caller, Recorder, Unrecorded
from parachuted.grants.agent_config import AgentConfig
from parachuted.modules.access import BoundedVault, VaultParts, limit
from parachuted.modules.agent_plan import Plan, make_plan
from parachuted.modules.agent_tools import CallTool, NoteTools, ToolSpec, module_tools
from parachuted.modules.approved import Approved
from parachuted.modules.bounds import Bounds
from parachuted.modules.cause import carrying, causes_at, runs_before
from parachuted.modules.skills import Place, Skill, find_skills_of, listed, skill_tool
from parachuted.tasks import Budget, Causes, Outcome, Task
from parachuted.tools import finished
from parachuted.tools.account import Account, Accounts
from parachuted.tools.audited import RunAudit
from parachuted.tools.hooked import AgentHooks, Asker, Unasked
from parachuted.vault import Author, History, Objects, VaultRoot, Written, new_id, printable

log = logging.getLogger(__name__)

_DEEPEST = 3
_GRACE_S = 30.0
_LONGEST_PROMPT = 1 << 20
_OFFLINE = "offline"
_PAUSED = "runs are paused; `parachute resume` lets them go on"
_DEPTH: ContextVar[int] = ContextVar("parachuted_agent_depth", default=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentParts:
    """What the agents of all modules work with.

    `tools` are those of all modules, by module, and `call_tool` calls one; `declared` answers the agents that a module's class declares
    beside its manifest, `said` what a person has a module's agents told besides their own instructions (it may read the disk); `is_paused`
    whether a person has stopped new runs; `room` is how many may be at work at once.
    """

    backend: Backend
    model: str | None
    limits: Limits
    budget: Budget
    history: History
    objects: Objects
    causes: Causes
    bus: Bus
    clock: Callable[[], datetime]
    user_home: Path
    audit: Recorder = field(default_factory=Unrecorded)
    asker: Asker = field(default_factory=Unasked)
    is_paused: Callable[[], bool] = lambda: False
    tools: Callable[[], Iterable[tuple[str, ToolSpec]]] = tuple
    call_tool: CallTool | None = None
    declared: Callable[[str], Mapping[str, AgentConfig]] = lambda _module: {}
    said: Callable[[str], str | None] = lambda _module: None
    room: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(2))
    gate: asyncio.Lock = field(default_factory=asyncio.Lock)


class ModuleAgents:
    """The agents of one module."""

    def __init__(self, parts: AgentParts, vault: VaultParts, approved: Approved, bounds: Bounds) -> None:
        self._parts, self._vault, self._approved, self._bounds = parts, vault, approved, bounds
        self._accounts = Accounts(parts.history, parts.objects, parts.causes)

    async def run(self, agent: str, prompt: str, options: Mapping[str, object]) -> str:
        """Let the agent answer the prompt, and return its last words.

        Raises NotFoundError where there is no such agent, ActRefusedError for what may not be, AgentUnavailableError when it could not
        begin and cost nothing, AgentFailedError when it did not end well.
        """
        plan = await asyncio.to_thread(self._plan, agent, options)
        self._check(plan, prompt)
        async with self._place():
            return await self._run(plan, prompt)

    def _plan(self, agent: str, options: Mapping[str, object]) -> Plan:
        said = self._parts.said(self._approved.name)
        return make_plan(self._approved, self._config(agent), agent, options, self._parts.limits, said=said)

    def _config(self, agent: str) -> AgentConfig:
        declared = {**self._parts.declared(self._approved.name), **self._approved.manifest.agents}
        if agent not in declared:
            raise NotFoundError(f"the module {self._approved.name} has no agent {agent[:80]!r}; it has {', '.join(declared) or 'none'}")
        return declared[agent]

    def _check(self, plan: Plan, prompt: str) -> None:
        if len(prompt) > _LONGEST_PROMPT:
            raise ActRefusedError(f"the prompt is longer than {_LONGEST_PROMPT} characters")
        if self._parts.backend.name == _OFFLINE:
            raise AgentUnavailableError(f"{plan.who} needs a model, and there is none; see `parachute auth status`")
        if _DEPTH.get() >= _DEEPEST:
            raise ActRefusedError(f"{plan.who} does not begin: agents have called agents {_DEEPEST} deep already")
        if plan.config.model not in {None, self._parts.model}:
            log.warning("an agent asks for a model that is not the daemon's", extra={"agent": plan.name, "model": plan.config.model})

    @contextlib.asynccontextmanager
    async def _place(self) -> AsyncIterator[None]:
        """Room to work; an agent that another one waits for has that one's."""
        depth = _DEPTH.get()
        async with self._parts.room if depth == 0 else contextlib.nullcontext():
            token = _DEPTH.set(depth + 1)
            try:
                yield
            finally:
                _DEPTH.reset(token)

    async def _run(self, plan: Plan, prompt: str) -> str:
        run = _Run(self._parts, self._vault, self._approved, self._bounds.limited(limit()), plan)
        await run.prepare(prompt)
        await self._begin(run)
        run.audit.began()
        try:
            with carrying(run.task.causes, [str(run.task.run)]):
                outcome, words = Outcome(result="failed", reason="it broke"), ""
                words = await run.follow()
                outcome = run.outcome()
        except AgentFailedError as error:
            outcome = Outcome(result="failed", reason=error.message)
            raise
        except asyncio.CancelledError:
            outcome = Outcome(result="failed", reason="it was ended: whoever asked waits no longer")
            raise
        finally:
            await self._end(run, outcome)
        return words

    async def _begin(self, run: _Run) -> None:
        """Budgets are asked and the run is recorded in one turn, so that no two take the same place."""
        async with self._parts.gate:
            over = _PAUSED if self._parts.is_paused() else await asyncio.to_thread(self._exceeded, run.task)
            if over is not None:
                raise AgentUnavailableError(f"{run.plan.who} does not begin: {over}")
            await finished(self._accounts.open, run.account)

    def _exceeded(self, task: Task) -> str | None:
        over = self._parts.budget.exceeded(self._parts.clock())
        if over is None and not self._parts.budget.causes_left(task):
            over = self._parts.budget.cause_exceeded()
        return None if over is None else str(over)

    async def _end(self, run: _Run, outcome: Outcome) -> None:
        run.audit.ended(outcome)
        try:
            await finished(self._accounts.close, run.account, outcome, self._parts.clock())
        except StorageFailedError as error:  # it counts as begun, and the next start ends it
            log.warning("the end of a module's run could not be recorded", extra={"run": run.task.run, "error": error.message})
        cost = run.account.cost.cost_usd if run.account.cost else 0.0
        log.info("a module's run ended", extra={"run": run.task.run, "agent": run.plan.name, "outcome": outcome.result})
        self._parts.bus.publish(
            "run.finished", run=run.task.run, watcher=run.task.watcher, outcome=outcome.result, reason=outcome.reason,
            paths=[printable(path) for path in run.account.net], cost_usd=cost,
        )  # fmt: skip


class _Run:
    """One run of one agent."""

    account: Account
    audit: RunAudit
    job: Job

    def __init__(self, parts: AgentParts, vault: VaultParts, approved: Approved, bounds: Bounds, plan: Plan) -> None:
        self.plan = plan
        self._parts, self._approved = parts, approved
        now, name = parts.clock(), approved.name
        self.task = Task(
            id=new_id("t", now), watcher=f"Modules/{name}", state="running", causes=causes_at(now), parents=runs_before(), first_at=now,
            last_at=now, due_at=now, run=new_id("r", now),
        )  # fmt: skip
        self._written: list[Written] = []
        author = Author(by=f"module:{plan.name}", run=self.task.run, causes=self.task.causes)
        self._bounds = bounds.narrowed(plan.who, plan.config, *plan.narrowing)
        self._vault = BoundedVault(vault, self._bounds, lambda: author, Caller("agent", plan.name, ""), wrote=self._written.append)
        self._root = vault.root
        cause = {"id": self.task.causes[0], "root": None, "depth": 1 + len(self.task.parents), "actor": plan.name, "run": self.task.run}
        self._hooks = AgentHooks(
            asker=parts.asker, clock=parts.clock, vault=vault.root.folder, session_id=str(self.task.run), agent=plan.name, module=name,
            cwd=vault.root.folder / plan.folder if plan.folder else None, cause={**cause, "chain": list(self.task.causes)},
            publish=parts.bus.publish,
        )  # fmt: skip

    async def prepare(self, prompt: str) -> None:
        """What the agent is told, and its tools. Raises ActRefusedError when a hook objects to that."""
        parts, plan, now = self._parts, self.plan, self._parts.clock()
        prompt = await self._hooks.prompt(prompt)
        skills = await find_skills_of(self._skill_places())
        self.audit = RunAudit(
            parts.audit, parts.clock, self.task, agent=plan.name, backend=parts.backend.name, module=self._approved.name
        )  # fmt: skip
        system = plan.system_prompt + (f"\n{listed(skills)}\n" if skills else "")
        self.account = Account(
            task=self.task, backend=parts.backend.name, model=parts.model, started=now, changes=(), prompt=prompt, written=self._written,
            agent=plan.name, system_prompt=system, beyond=1,
        )  # fmt: skip
        self.job = Job(
            id=str(self.task.run), watcher=self.task.watcher, system_prompt=system, prompt=prompt,
            tools=self._hooks.tools(self.audit.tools(self._tools(skills))), limits=plan.limits, changes=(), at=now,
        )  # fmt: skip

    async def follow(self) -> str:
        """Do the job; the agent's last words. The backend keeps the limits, and one that does not is ended some time later."""
        words: list[str] = []
        last = ""
        try:
            async with (
                asyncio.timeout(self.plan.limits.timeout_s + _GRACE_S),
                contextlib.aclosing(self._parts.backend.run(self.job)) as steps,  # type: ignore[type-var]
            ):
                async for step in steps:
                    self.account.note(step)
                    self.audit.note(step)
                    if isinstance(step, Said):
                        words.append(step.text)
                        last = step.text
                    elif isinstance(step, Called):
                        words.clear()
        except (AgentFailedError, asyncio.CancelledError):
            raise
        except Exception as error:  # a backend is another's code
            log.exception("the agent's backend broke", extra={"run": self.task.run})
            raise AgentFailedError(f"the backend {self._parts.backend.name} broke: {type(error).__name__}") from error
        await self._hooks.stopping(last)
        return "\n\n".join(words) or last

    def outcome(self) -> Outcome:
        """How it ended, when it ended well."""
        if self.account.net:
            return Outcome(result="changed", reason=f"updated {', '.join(printable(path) for path in self.account.net)}")
        return Outcome(result="unchanged", reason="it answered, and changed nothing")  # its words are for whoever asked

    def _tools(self, skills: Sequence[Skill]) -> Sequence[Tool]:
        config, own = self.plan.config, self._approved.name
        notes = NoteTools(vault=self._vault, may_write=config.may_write and all(one.may_write for one in self.plan.narrowing))
        made = [*notes.tools(), *([skill_tool(skills)] if skills else [])]
        if self._parts.call_tool is not None:
            taken = [tool.name for tool in made]
            made += module_tools(self._parts.tools(), self._approved.manifest.permissions.mcp, own, taken, self._parts.call_tool)
        return made

    def _skill_places(self) -> list[Place]:
        """Where this agent's skills are, the nearest first."""
        config, folder = self.plan.config, self.plan.folder
        places = []
        if config.allow_workspace_skills:
            if folder and self._bounds.may_enter(folder):
                places.append(Place(root=self._root, folder=folder))
            places.append(Place(root=self._root))
        if config.allow_user_skills:
            places.append(Place(root=VaultRoot(self._parts.user_home)))
        return places
