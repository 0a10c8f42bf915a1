"""An agent's run, followed step by step: started, read, stopped, and what it read is passed on."""

from __future__ import annotations

import asyncio

import pytest

from parachuted.access.caller import Caller, WorkRequest, acting
from parachuted.errors import (
    ActRefusedError,
    AgentFailedError,
    AgentStoppedError,
    AgentUnavailableError,
    NotFoundError,
)
from parachuted.modules import AgentText, AgentToolCall
from parachuted.testing import ScriptedBackend, say, use
from tests.modules.module_rig import ModuleRig

BOT = """
permissions:
  read: ["Brain/**"]
  write: ["Brain/**"]
agents:
  admin:
    paths: ["Brain/**"]
    capabilities: [read, write]
"""


@pytest.fixture
def module_rig(module_rig: ModuleRig) -> ModuleRig:
    module_rig.save("Brain/a.md", "# A\n\nblue\n")
    return module_rig


def runs_of(rig: ModuleRig, backend: ScriptedBackend, **more: object):
    return rig.given(rig.approve(BOT), rig.agents(backend, **more)).runs


async def test_its_steps_arrive_in_order_and_then_what_it_came_to(module_rig):
    script = [say("I look."), use("read_note", path="Brain/a.md"), say("Blue.")]
    backend = ScriptedBackend(script, cost_usd=0.25)
    runs = runs_of(module_rig, backend)

    run = await runs.start("admin", "Which colour?", {})
    steps = []
    while (step := await runs.next(run)) is not None:
        steps.append(step)
    result = await runs.result(run)

    assert [type(step) for step in steps] == [AgentText, AgentToolCall, AgentText]
    assert (steps[0].text, steps[1].tool, steps[1].is_error) == ("I look.", "read_note", False)
    assert "blue" in steps[1].answer
    assert (result.text, result.run_id) == ("Blue.", run)
    assert (result.outcome, result.cost_usd) == ("unchanged", 0.25)
    assert result.session_id is not None
    assert await runs.next(run) is None
    assert (await runs.result(run)) == result
    assert module_rig.history.runs()[0]["id"] == run

    again = await runs.start("admin", "Go on.", {"session_id": result.session_id})
    assert (await runs.result(again)).text == "Blue.", "without a reader"
    assert backend.jobs[1].session_id == result.session_id


async def test_a_run_that_is_stopped_ends_and_so_do_all_of_a_module_that_is_gone(module_rig):
    began = asyncio.Event()

    async def script(_job):
        began.set()
        await asyncio.Event().wait()

    agents = module_rig.agents(ScriptedBackend(script))
    runs = module_rig.given(module_rig.approve(BOT), agents).runs
    run = await runs.start("admin", "Wait.", {})
    await began.wait()

    assert await runs.stop(run) is True
    with pytest.raises(AgentStoppedError):
        await runs.result(run)
    assert await runs.next(run) is None
    assert await runs.stop(run) is False
    assert module_rig.history.runs()[0]["outcome"] == "failed"

    left = await runs.start("admin", "Wait.", {})
    runs.close()
    with pytest.raises(AgentStoppedError):
        await runs.result(left)
    assert agents.at_work.all() == []


async def test_what_could_not_begin_is_reported_at_the_start(module_rig):
    runs = runs_of(module_rig, ScriptedBackend([say("x")]), runs=1)
    with pytest.raises(NotFoundError):
        await runs.start("nobody", "x", {})
    with pytest.raises(ActRefusedError):
        await runs.start("admin", "x", {"colour": "red"})
    await runs.result(await runs.start("admin", "x", {}))
    with pytest.raises(AgentUnavailableError, match="does not begin"):
        await runs.start("admin", "x", {})
    with pytest.raises(NotFoundError):
        await runs.next("r-of-another")


async def test_a_run_marks_who_reads_its_steps_and_an_ended_authority_reads_none(module_rig):
    starter, reader = Caller(), Caller()
    starter.taint.read("Inbox/a.md")
    runs = runs_of(module_rig, ScriptedBackend([say("x")]))
    with acting(starter):
        run = await runs.start("admin", "x", {})
    with acting(reader):
        await runs.next(run)
    assert reader.taint

    await runs.result(run)
    with acting(Caller(request=WorkRequest(is_valid=lambda: False))):
        for work in (runs.next(run), runs.result(run), runs.stop(run), runs.start("admin", "", {})):
            with pytest.raises(ActRefusedError):
                await work


async def test_a_question_is_a_run_without_tools_within_its_limits(module_rig):
    backend = ScriptedBackend([say("Forty-two.")], cost_usd=0.2)
    runs = runs_of(module_rig, backend)

    assert await runs.ask("What?", None, None) == "Forty-two."
    (job,) = backend.jobs
    assert (job.tools, job.limits.max_turns, job.agent) == ((), 1, "telegram-bot/question")
    assert "Answer the question" in job.system_prompt
    assert module_rig.history.runs()[0]["agent"] == "telegram-bot/question"
    await runs.ask("What?", "You are brief.", 0.3)
    assert backend.jobs[1].limits.max_cost_usd == 0.3
    assert backend.jobs[1].system_prompt.startswith("You are brief.")
    with pytest.raises(AgentFailedError, match="used up"):
        await runs.ask("What?", None, 0.1)
    with pytest.raises(ActRefusedError, match="greater than 0"):
        await runs.ask("What?", None, 0)


async def test_what_serves_a_conversation_takes_none_of_the_others_runs(module_rig):
    backend = ScriptedBackend([say("x")])
    runs = runs_of(module_rig, backend, runs=1)

    with acting(Caller(request=WorkRequest(by="person"))):
        for _ in range(3):
            await runs.ask("What?", None, None, conversation=True)
            await runs.result(await runs.start("admin", "Go.", {"budget": "conversation"}))
        assert {job.pool for job in backend.jobs} == {"conversation"}
        assert await runs.ask("What?", None, None) == "x"
        assert backend.jobs[-1].pool == "work"
        with pytest.raises(ActRefusedError, match="start: budget"):
            await runs.start("admin", "Go.", {"budget": "mine"})

    with acting(Caller(request=WorkRequest(by="event"))):  # the budget of all other work pays
        with pytest.raises(AgentUnavailableError, match="does not begin"):
            await runs.ask("What?", None, None, conversation=True)
        with pytest.raises(AgentUnavailableError, match="does not begin"):
            await runs.start("admin", "Go.", {"budget": "conversation"})
