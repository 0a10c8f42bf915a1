from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from parachuted.access.agent_config import AgentConfig
from parachuted.access.grant import build_grant
from parachuted.errors import HookRefusedError
from parachuted.keys import EVERYWHERE
from parachuted.runs.agent_run import PreparedAgentRun
from parachuted.runs.bounds import ModuleBounds
from parachuted.runs.run_request import AgentDefinition, RunRequest
from parachuted.testing import ScriptedBackend, say, use
from tests.modules.hosting.test_module_agents import ObjectingHooks
from tests.modules.module_rig import LIMITS, ModuleRig
from tests.runs.test_run_guard import FakeSuggestions


@pytest.fixture
def module_rig(tmp_path: Path) -> Iterator[ModuleRig]:
    module_rig = ModuleRig(tmp_path)
    module_rig.save("Brain/a.md", "# A\n")
    yield module_rig
    module_rig.close()


def run_of(
    module_rig: ModuleRig, backend: ScriptedBackend, *, module: str | None = None, **more: object
) -> PreparedAgentRun:
    config = AgentConfig(paths=["Brain/**"], capabilities=["read", "write"])
    grant = build_grant(
        config, agent="helper", bounds_read=EVERYWHERE, bounds_write=EVERYWHERE, entry="schedule"
    )
    definition = AgentDefinition(
        name="helper",
        who="the agent helper",
        config=config,
        bounds=ModuleBounds(who="x", reads=EVERYWHERE, writes=EVERYWHERE),
        system_prompt="You help.",
        watcher="helper",
        module=module,
    )
    order = RunRequest(definition=definition, prompt="Help.", entry="schedule", limits=LIMITS)
    parts = module_rig.agents(backend, **more)
    return PreparedAgentRun(order, grant, **parts.parts)


async def test_what_came_of_it_is_reported_by_what_it_wrote_then_by_what_it_suggested(
    module_rig: ModuleRig,
):
    proposes = use(
        "suggest_change",
        action="create",
        path="Brain/n.md",
        payload={"text": "x"},
        reasoning="It is missing.",
    )
    writes = use("edit_section", path="Brain/a.md", section="Facts", text="- one")
    for blocks, expected in (
        ([say("ok")], "unchanged"),
        ([proposes, say("ok")], "suggested"),
        ([proposes, writes], "changed"),
    ):
        run = run_of(module_rig, ScriptedBackend(blocks), suggestions=FakeSuggestions())
        await run.prepare()
        outcome = await run.work()
        assert outcome.result == expected
        assert run.ran(outcome).suggested == (() if expected == "unchanged" else ("s-1",))


@pytest.mark.parametrize("tool", ["write_note", "edit_section"])
async def test_a_run_whose_writes_a_hook_refuses_has_failed_with_the_hooks_words(
    module_rig: ModuleRig, monkeypatch: pytest.MonkeyPatch, tool: str
):
    def refuse(*_given: object, **_named: object) -> None:
        raise HookRefusedError(
            "a hook refused the write to Brain/n.md, so nothing was written: it is Sunday"
        )

    given = {"path": "Brain/a.md", "section": "Facts", "text": "x"}
    given = given if tool != "write_note" else {"path": "Brain/n.md", "text": "x"}
    for name in ("write", "edit", "create"):
        monkeypatch.setattr(module_rig.vaults.store, name, refuse, raising=False)
    run = run_of(module_rig, ScriptedBackend([use(tool, **given), say("I could not write.")]))
    await run.prepare()
    outcome = await run.work()
    assert (outcome.result, "it is Sunday" in outcome.reason, run.ran(outcome).words) == (
        "failed",
        True,
        "I could not write.",
    )


@pytest.mark.parametrize(
    ("tool", "result"), [("write_note", "failed"), ("list_notes", "unchanged")]
)
async def test_a_call_that_a_hook_refuses_fails_the_run_where_it_would_have_written(
    module_rig: ModuleRig, tool: str, result: str
):
    arguments = {"path": "Brain/n.md", "text": "x"} if tool == "write_note" else {}
    run = run_of(
        module_rig,
        ScriptedBackend([use(tool, **arguments), say("Well.")]),
        asker=ObjectingHooks(tool),
    )
    await run.prepare()
    assert (await run.work()).result == result


async def test_the_words_after_the_last_call_are_the_answer(module_rig: ModuleRig):
    run = run_of(
        module_rig,
        ScriptedBackend([say("Let me see."), use("list_notes"), say("One."), say("Two.")]),
    )
    await run.prepare()
    assert run.ran(await run.work()).words == "One.\n\nTwo."


@pytest.mark.parametrize(("module", "by"), [("bot", "module:helper"), (None, "agent:helper")])
async def test_what_it_writes_is_of_its_module_or_of_the_daemons_own_agent(
    module_rig: ModuleRig, module: str | None, by: str
):
    run = run_of(
        module_rig, ScriptedBackend([use("write_note", path="Brain/n.md", text="x")]), module=module
    )
    await run.prepare()
    await run.work()
    (write,) = module_rig.history.writes_by(run.id)
    assert (write.author.by, run.job.agent, run.job.causes) == (by, "helper", run.task.causes)
