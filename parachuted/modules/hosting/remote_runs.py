"""A module's runs over the pipe: both of its ends."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError

from parachuted.errors import ModuleFailedError
from parachuted.modules.agent_runs import AgentResult, AgentStep, RunAccess
from parachuted.modules.hosting.agent_steps import dump_step, load_step
from parachuted.modules.hosting.remote_vault import PipeCaller
from parachuted.modules.results import to_json

_RESULT: TypeAdapter[AgentResult] = TypeAdapter(AgentResult)


class RemoteRuns:
    """`RunAccess` in the module's process."""

    def __init__(self, asker: PipeCaller) -> None:
        self._asker = asker

    async def start(self, agent: str, prompt: str, options: Mapping[str, object]) -> str:
        body = {"agent": agent, "prompt": prompt, "options": to_json(options)}
        return str(await self._asker.ask("runs.start", body))

    async def next(self, run: str) -> AgentStep | None:
        return load_step(await self._asker.ask("runs.next", {"run": run}))

    async def result(self, run: str) -> AgentResult:
        return _RESULT.validate_python(await self._asker.ask("runs.result", {"run": run}))

    async def stop(self, run: str) -> bool:
        return await self._asker.ask("runs.stop", {"run": run}) is True

    async def inject(self, run: str, text: str) -> bool:
        return await self._asker.ask("runs.inject", {"run": run, "text": text}) is True

    async def answer(self, run: str, name: str, value: object) -> bool:
        body = {"run": run, "name": name, "value": to_json(value)}
        return await self._asker.ask("runs.answer", body) is True

    async def ask(
        self, prompt: str, system: str | None, max_usd: float | None, *, conversation: bool = False
    ) -> str:
        body = {
            "prompt": prompt,
            "system": system,
            "max_usd": max_usd,
            "conversation": conversation,
        }
        return str(await self._asker.ask("runs.ask", body))


class _Body(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class _Start(_Body):
    agent: str
    prompt: str
    options: dict[str, Any]


class _Run(_Body):
    run: str


class _Inject(_Run):
    text: str


class _Answer(_Run):
    name: str
    value: Any


class _Ask(_Body):
    prompt: str
    system: str | None
    max_usd: float | None
    conversation: bool = False


async def serve_runs(access: RunAccess, verb: str, body: Mapping[str, object]) -> object:
    """Do what the module's process asks.

    Raises what the access raises, and ModuleFailedError for what is no request.
    """
    try:
        if verb == "start":
            start = _Start.model_validate(body)
            return await access.start(start.agent, start.prompt, start.options)
        if verb == "ask":
            asked = _Ask.model_validate(body)
            return await access.ask(
                asked.prompt, asked.system, asked.max_usd, conversation=asked.conversation
            )
        if verb == "inject":
            said = _Inject.model_validate(body)
            return await access.inject(said.run, said.text)
        if verb == "answer":
            answer = _Answer.model_validate(body)
            return await access.answer(answer.run, answer.name, answer.value)
        if verb == "next":
            return dump_step(await access.next(_Run.model_validate(body).run))
        if verb in {"result", "stop"}:
            return to_json(await getattr(access, verb)(_Run.model_validate(body).run))
    except ValidationError as error:
        raise ModuleFailedError(
            "what the module asks is not as it should be: "
            f"{error.errors(include_url=False)[0]['msg']}"
        ) from error
    raise ModuleFailedError(f"a module cannot ask for runs.{verb[:80]}")
