"""Run request: what one run of an agent is to be, by whichever way it is asked for, and its
report. What narrows it may only take away.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Literal

from parachuted.access.agent_config import AgentConfig
from parachuted.access.authority import Authority
from parachuted.access.grant import Entry, Grant, Network, all_of, in_both, narrower
from parachuted.access.narrowing import WIDEST, AgentNarrowing
from parachuted.access.origin import Origin, Taint
from parachuted.access.run_records import RunWatch
from parachuted.agents import ConversationInput, RunLimits, RunResult, Tool
from parachuted.runs.bounds import ModuleBounds
from parachuted.runs.run import RunFollower
from parachuted.runs.run_options import RunOptions
from parachuted.tasks import RunOutcome, Task
from parachuted.vault import new_id


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentDefinition:
    """An agent as it may be at most.

    `name` is `module/agent`, or one word for the core's own. `bounds` is what its module may touch,
    within which all of it lies; `calls` the tools of modules that it may call, `tools` more of its
    own, whose reading marks the run; `does_without_shell` whether it is of use where there is no
    container for its shell; without `has_tools` it answers and does nothing else.
    """

    name: str
    config: AgentConfig
    bounds: ModuleBounds
    system_prompt: str
    module: str | None = None
    calls: tuple[str, ...] = ()
    tools: Callable[[Taint], tuple[Tool, ...]] | None = None
    does_without_shell: bool = False
    has_tools: bool = True

    @property
    def who(self) -> str:
        """How messages speak of it."""
        if self.module is None:
            return f"the {self.name} agent"
        return f"the agent {self.name.removeprefix(f'{self.module}/')} of the module {self.module}"

    @property
    def watcher(self) -> str:
        """What its runs are listed under."""
        return self.name if self.module is None else f"Modules/{self.module}"


@dataclass(frozen=True, slots=True, kw_only=True)
class RunBudget:
    """What a run may take, and whose budget and room it takes: a conversation's where a person
    waits for it.
    """

    limits: RunLimits
    pool: Literal["work", "conversation"] = "work"


@dataclass(frozen=True, slots=True, kw_only=True)
class RunScope:
    """Where a run works, and what is taken from its agent there: `overrides` are a person's, and
    `narrowing` its caller's.
    """

    folder: str | None = None
    overrides: tuple[AgentConfig, ...] = ()
    narrowing: AgentNarrowing = WIDEST


@dataclass(frozen=True, slots=True, kw_only=True)
class RunConversation:
    """What a run of a conversation has beside its prompt: what the person says meanwhile, and the
    options that it was started with.
    """

    input: ConversationInput
    options: RunOptions = field(default_factory=RunOptions)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRequest:
    """One run to be.

    `origin` is whose words the prompt is, `session` an earlier one to go on with, `authority` on
    whose behalf it is asked for; `follower` hears of its steps.
    """

    definition: AgentDefinition
    prompt: str
    entry: Entry
    budget: RunBudget
    scope: RunScope = field(default_factory=RunScope)
    origin: Origin = "you"
    session: str | None = None
    authority: Authority = field(default_factory=Authority)
    follower: RunFollower | None = None
    conversation: RunConversation | None = None

    @property
    def options(self) -> RunOptions:
        """Those of its conversation; without one, none are set."""
        return self.conversation.options if self.conversation else RunOptions()

    @property
    def may_read(self) -> bool:
        """Whether it has capabilities for notes at all, whichever those are."""
        return all(config.may_read for config in (self.definition.config, *self.scope.overrides))

    @property
    def may_write(self) -> bool:
        """Whether it may write notes, whichever those are."""
        return all(config.may_write for config in (self.definition.config, *self.scope.overrides))

    def task(self, run: str, now: datetime) -> Task:
        """What stands for the run where a curator's has a task."""
        return Task(
            id=new_id("t", now),
            watcher=self.definition.watcher,
            state="running",
            causes=self.authority.causes_at(now),
            parents=self.authority.led_by,
            first_at=now,
            last_at=now,
            due_at=now,
            run=run,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class RunReport:
    """What a run came to: the agent's last words, what it cost, the session to go on with, the
    suggestions that it made.

    `warning` is what it had to do without, and why.
    """

    words: str
    run: str
    outcome: RunOutcome
    cost: RunResult | None
    session: str | None
    suggested: tuple[str, ...] = ()
    warning: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CurrentRun:
    """The run that goes on here: on behalf of the `asker`, of an agent of that `module`.

    While it calls a tool there is a `watch`. Its own module's tools write what the module may.
    Another one's write for it only where it `may_write` notes itself, and where they may for the
    run that called for it.
    """

    grant: Grant
    asker: Authority = field(default_factory=Authority)
    module: str | None = None
    may_write: bool = True
    watch: RunWatch | None = None

    def may_write_by(self, module: str) -> bool:
        outer = self.asker.within
        return self.watch is None or (
            (self.may_write or module == self.module)
            and (outer is None or outer.may_write_by(module))
        )

    def narrowed(self, grant: Grant) -> Grant:
        mine = self.grant
        bash, network = narrower(grant.bash, mine.bash), _network(grant.network, mine.network)
        lost = {"Bash"} if not bash else set()
        lost |= {"WebFetch"} if network == "none" else set()
        return replace(
            grant,
            reads=all_of(grant.reads, mine.reads),
            writes=all_of(grant.writes, mine.writes),
            lane=all_of(grant.lane, mine.lane),
            outside=tuple(path for path in grant.outside if path in mine.outside),
            interfaces=in_both(grant.interfaces, mine.interfaces),
            native=tuple(tool for tool in grant.native if tool not in lost),
            bash=bash,
            network=network,
            asks=grant.asks and mine.asks,
        )


def _network(one: Network, other: Network) -> Network:
    if one == "none" or other == "none":
        return "none"
    if one == "bridge" or other == "bridge":
        return other if one == "bridge" else one
    return tuple(host for host in one if host in other) or "none"
