"""The request for an agent's run, by whichever way it comes, and the run's report."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal, Protocol

from parachuted.access.agent_config import AgentConfig
from parachuted.access.authority import Authority, Entry
from parachuted.access.narrowing import WIDEST, AgentNarrowing
from parachuted.access.origin import Origin, Taint
from parachuted.agents import ConversationInput, RunLimits, RunResult, Step, Tool
from parachuted.runs.bounds import ModuleBounds
from parachuted.tasks import RunOutcome


class RunFollower(Protocol):
    """Who follows a run while it goes on."""

    def began(self, run: str) -> None:
        """Its account is open, and it works."""

    def stepped(self, step: Step) -> None:
        """It has said or done that; what it has read by then is passed on already."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentDefinition:
    """An agent as it may be at most.

    `name` is `module/agent`, or one word for the core's own; `watcher` what its runs are listed
    under.

    `who` is how messages speak of it. `bounds` is what its module may touch, within which all of it
    lies; `calls` the tools of modules that it may call, `tools` more of its own, whose reading
    marks the run; `does_without_shell` whether it is of use where there is no container for its
    shell; without `has_tools` it answers and does nothing else.
    """

    name: str
    who: str
    config: AgentConfig
    bounds: ModuleBounds
    system_prompt: str
    watcher: str
    module: str | None = None
    calls: tuple[str, ...] = ()
    tools: Callable[[Taint], tuple[Tool, ...]] | None = None
    does_without_shell: bool = False
    has_tools: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRequest:
    """One run to be.

    `origin` is whose words the prompt is, `folder` where it works, `session` an earlier one to go
    on with.

    `narrowing` is what a person's overrides come to, `limit` what its caller takes from it;
    `authority` on whose behalf it is asked for; `follower` hears of its steps.

    `conversation`: it is a conversation's, and that is what the person says meanwhile. Only such
    runs have `attachments`, files of the vault that go with the prompt, and `history`, what was
    said before, should the session not be there any more. `is_beside_conversation`: it serves a
    conversation in which a person waits, whose budget pays for it.
    """

    definition: AgentDefinition
    prompt: str
    entry: Entry
    limits: RunLimits
    origin: Origin = "you"
    folder: str | None = None
    session: str | None = None
    narrowing: tuple[AgentConfig, ...] = ()
    authority: Authority = field(default_factory=Authority)
    follower: RunFollower | None = None
    limit: AgentNarrowing = WIDEST
    conversation: ConversationInput | None = None
    is_beside_conversation: bool = False
    attachments: tuple[str, ...] = ()
    context_folders: tuple[str, ...] = ()
    history: str = ""

    @property
    def pool(self) -> Literal["work", "conversation"]:
        """The budget and the room that it takes: a conversation's where a person waits for it."""
        is_asked = self.conversation is not None and self.entry == "chat"
        return "conversation" if is_asked or self.is_beside_conversation else "work"


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
