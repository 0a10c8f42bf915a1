"""An agent's run as a stream of steps, and a question to a model: `self.agent`, `self.ask`."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from typing import Protocol, TypeAlias

from parachuted.errors import AgentFailedError
from parachuted.heavy import load_heavy

_FENCED = re.compile(r"\A```[a-z]*\n(.*)\n```\Z", re.DOTALL)
_MOST_SHOWN = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentText:
    """The agent says something."""

    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentToolCall:
    """The agent called a tool, and has its answer."""

    tool: str
    arguments: Mapping[str, object] = field(default_factory=dict)
    answer: str = ""
    is_error: bool = False


AgentStep: TypeAlias = AgentText | AgentToolCall


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentResult:
    """What a run came to: the agent's last words, what it changed (`changed`, `unchanged`,
    `suggested`), the session to go on with, its cost in US dollars, and its suggestions' ids.

    `warning` is what it had to do without.
    """

    text: str
    run_id: str
    outcome: str
    session_id: str | None = None
    cost_usd: float = 0.0
    suggestions: tuple[str, ...] = ()
    warning: str | None = None


class RunAccess(Protocol):
    """The runs of a module's agents, wherever its code runs."""

    async def start(self, agent: str, prompt: str, options: Mapping[str, object]) -> str:
        """Start one, and return its id."""
        ...

    async def next(self, run: str) -> AgentStep | None:
        """The next step, or None when there is no other."""
        ...

    async def result(self, run: str) -> AgentResult:
        """What it came to, once it has ended. Raises what `Module.run_agent` raises."""
        ...

    async def stop(self, run: str) -> bool:
        """End it; whether it was at work."""
        ...

    async def ask(self, prompt: str, system: str | None, max_usd: float | None) -> str:
        """A model's answer."""
        ...


class AgentRun:
    """A run that goes on: iterate over its steps, as often or as seldom as you like.

    It goes on without a reader, and ends with the module.
    """

    def __init__(self, run: str, access: RunAccess) -> None:
        self.id, self._access = run, access

    def __aiter__(self) -> AsyncIterator[AgentStep]:
        return self

    async def __anext__(self) -> AgentStep:
        step = await self._access.next(self.id)
        if step is None:
            raise StopAsyncIteration
        return step

    async def result(self) -> AgentResult:
        """Wait for the end, and return what it came to.

        Raises AgentStoppedError when it was stopped, AgentFailedError when it did not end well.
        """
        return await self._access.result(self.id)

    async def stop(self) -> bool:
        """End it now; whether it was at work."""
        return await self._access.stop(self.id)


class ModuleAgent:
    """One of the module's agents."""

    def __init__(self, name: str, access: RunAccess) -> None:
        self.name, self._access = name, access

    async def start(self, prompt: str, /, **options: object) -> AgentRun:
        """Let it answer the prompt, and return once it has begun.

        Options: those of `Module.run_agent`, and `session_id`, an earlier run's to go on with.
        Raises what `Module.run_agent` raises before anything is spent.
        """
        return AgentRun(await self._access.start(self.name, prompt, options), self._access)


def with_schema(prompt: str, schema: Mapping[str, object]) -> str:
    """The question, with what its answer has to look like."""
    return (
        f"{prompt}\n\nAnswer with one JSON value alone, without any other words, that fits this "
        f"JSON schema:\n{json.dumps(schema, ensure_ascii=False)}"
    )


async def read_answer(answer: str, schema: Mapping[str, object]) -> object:
    """The JSON value of that answer. Raises AgentFailedError where it is none that fits."""
    text = answer.strip()
    fenced = _FENCED.fullmatch(text)
    try:
        value = json.loads(fenced[1] if fenced else text)
    except (ValueError, RecursionError) as error:
        raise AgentFailedError(f"the model's answer is not JSON: {text[:_MOST_SHOWN]!r}") from error
    validators = await load_heavy("jsonschema")
    problem = next(validators.Draft202012Validator(dict(schema)).iter_errors(value), None)
    if problem is not None:
        raise AgentFailedError(
            f"the model's answer does not fit the schema: {str(problem.message)[:_MOST_SHOWN]}"
        )
    return value
