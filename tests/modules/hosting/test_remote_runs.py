"""Runs over the pipe: both ends agree, and the daemon's end trusts nothing."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from parachuted.errors import ModuleFailedError
from parachuted.modules.agent_runs import AgentResult, AgentText, AgentToolCall
from parachuted.modules.hosting.framing import AskFrame
from parachuted.modules.hosting.request_server import RequestServer
from tests.modules.hosting.test_remote_services import remote_of
from tests.modules.small_modules import StubServices


class Runs:
    """One run with two steps."""

    def __init__(self) -> None:
        self.steps = [AgentText(text="a"), AgentToolCall(tool="t", arguments={"x": 1}, answer="b")]

    async def start(self, agent: str, prompt: str, options: Mapping[str, object]) -> str:
        assert (agent, prompt, options) == ("admin", "Do.", {"max_turns": 2})
        return "r1"

    async def next(self, run: str) -> object:
        assert run == "r1"
        return self.steps.pop(0) if self.steps else None

    async def result(self, run: str) -> AgentResult:
        return AgentResult(text="b", run_id=run, outcome="changed", suggestions=("s1",))

    async def stop(self, _run: str) -> bool:
        return True

    async def ask(
        self, prompt: str, system: str | None, max_usd: float | None, *, conversation: bool = False
    ) -> str:
        return f"{prompt} {system} {max_usd} {conversation}"


async def test_both_ends_agree():
    runs = Runs()

    remote = remote_of(StubServices(runs=runs)).runs
    run = await remote.start("admin", "Do.", {"max_turns": 2})

    assert [await remote.next(run) for _ in range(3)] == [
        AgentText(text="a"),
        AgentToolCall(tool="t", arguments={"x": 1}, answer="b"),
        None,
    ]
    assert await remote.result(run) == await runs.result(run)
    assert await remote.stop(run) is True
    assert await remote.ask("Why?", None, 0.5) == "Why? None 0.5 False"
    assert await remote.ask("Why?", None, 0.5, conversation=True) == "Why? None 0.5 True"


@pytest.mark.parametrize(
    ("verb", "body"),
    [("start", {}), ("next", {"run": 1}), ("ask", {"prompt": "x"}), ("close", {}), ("_keep", {})],
)
async def test_what_is_not_a_request_is_refused(verb, body):
    with pytest.raises(ModuleFailedError):
        await RequestServer(StubServices(runs=Runs())).serve(
            AskFrame(id=1, verb=f"runs.{verb}", body=body)
        )
