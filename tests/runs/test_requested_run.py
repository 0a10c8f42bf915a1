"""Requested run: what it came to, in its outcome, its words, its author and its suggestions."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from parachuted.access.agent_config import AgentConfig
from parachuted.agents.job import AgentResult, Job
from parachuted.errors import HookRefusedError
from parachuted.hooks import HookDecision
from parachuted.keys import EVERYWHERE
from parachuted.runs.bounds import ModuleBounds
from parachuted.runs.run_request import AgentDefinition, RunRequest
from parachuted.suggestions import Proposal, Suggestions
from parachuted.testing import Block, ScriptedBackend, say, use
from tests.modules.module_rig import LIMITS, ModuleRig
from tests.runs.task_rig import FakeSuggestions, ScriptedHooks
from tests.runs.test_agent_runner import order

PROPOSES = use(
    "suggest_change",
    action="create",
    path="Brain/n.md",
    payload={"text": "x"},
    reasoning="It is missing.",
)
APPENDS = use("edit_section", path="Brain/a.md", section="Facts", text="- one")
WRITES = use("write_note", path="Brain/n.md", text="x")


@pytest.fixture
def module_rig(module_rig: ModuleRig) -> ModuleRig:
    module_rig.save("Brain/a.md", "# A\n")
    module_rig.save("Private/b.md", "# B\n")
    module_rig.save("Brain/clip.md", "---\norigin: web\n---\n# Clip\n")
    return module_rig


async def run(
    module_rig: ModuleRig,
    *blocks: Block,
    script: Callable[[Job], Awaitable[list[Block]]] | None = None,
    name: str = "helper",
    **more: object,
) -> AgentResult:
    definition = AgentDefinition(
        name=name,
        config=AgentConfig(paths=["Brain/**"], capabilities=["read", "write"]),
        bounds=ModuleBounds(who="x", reads=EVERYWHERE, writes=EVERYWHERE),
        system_prompt="You help.",
    )
    request = RunRequest(definition=definition, prompt="Help.", entry="schedule", limits=LIMITS)
    return await module_rig.agents(ScriptedBackend(script or blocks), **more).runner.run(request)


@pytest.mark.parametrize(
    ("blocks", "expected"),
    [
        ([say("ok")], ("unchanged", ())),
        ([PROPOSES, say("ok")], ("suggested", ("s-1",))),
        ([PROPOSES, APPENDS], ("changed", ("s-1",))),
    ],
)
async def test_a_run_is_reported_by_what_it_wrote_then_by_what_it_suggested(
    module_rig: ModuleRig, blocks: list[Block], expected: tuple[str, tuple[str, ...]]
):
    report = await run(module_rig, *blocks, suggestions=FakeSuggestions())
    assert (report.outcome, report.suggestions) == expected


async def test_a_run_whose_writes_a_hook_refuses_has_failed_with_the_hooks_words(
    module_rig: ModuleRig, monkeypatch: pytest.MonkeyPatch
):
    def refuse(*_given: object, **_named: object) -> None:
        raise HookRefusedError("a hook refused the write, so nothing was written: it is Sunday")

    for name in ("write", "edit", "create"):
        monkeypatch.setattr(module_rig.store, name, refuse, raising=False)
    report = await run(module_rig, WRITES, say("I could not write."))
    assert (report.outcome, report.text) == ("failed", "I could not write.")
    assert "it is Sunday" in module_rig.history.run(report.run_id)["reason"]


@pytest.mark.parametrize(
    ("block", "result"), [(WRITES, "failed"), (use("list_notes"), "unchanged")]
)
async def test_a_call_that_a_hook_refuses_fails_the_run_if_it_would_have_written(
    module_rig: ModuleRig, block: Block, result: str
):
    asker = ScriptedHooks({"tool.before": HookDecision(allowed=False, reason="hands off")})
    report = await run(module_rig, block, say("Well."), asker=asker)
    assert report.outcome == result


@pytest.mark.parametrize(
    ("name", "by"), [("bot/helper", "module:bot/helper"), ("helper", "agent:helper")]
)
async def test_what_it_writes_is_of_its_module_or_of_the_daemons_own_agent(
    module_rig: ModuleRig, name: str, by: str
):
    report = await run(module_rig, WRITES, name=name)
    (write,) = module_rig.history.writes_by(report.run_id)
    (document,) = module_rig.history.runs()
    assert (write.author.by, document["agent"]) == (by, name)
    assert [cause["id"] for cause in document["causes"]] == list(write.author.causes)


async def test_a_caller_that_goes_away_ends_the_run_and_the_end_is_recorded(module_rig: ModuleRig):
    working = asyncio.Event()

    async def endless(_job: Job) -> list[Block]:
        working.set()
        await asyncio.Event().wait()
        return []

    async with asyncio.TaskGroup() as group:
        task = group.create_task(run(module_rig, script=endless))
        await working.wait()
        task.cancel()

    (document,) = module_rig.history.runs()
    assert (document["outcome"], document["reason"]) == (
        "failed",
        "it was ended, because its caller no longer waits",
    )
    assert module_rig.history.unended() == []


# Suggestions from end to end: what a stranger's text led to is proposed, and done by a person.


@pytest.fixture
def suggestions(module_rig: ModuleRig, tmp_path: Path) -> Suggestions:
    home = tmp_path / "home"
    home.mkdir(mode=0o700)
    return Suggestions(
        module_rig.store,
        state=module_rig.state,
        bus=module_rig.bus,
        audit=module_rig.audit,
    )


async def propose(
    module_rig: ModuleRig, suggestions: Suggestions, *script: object, **config: object
):
    backend = ScriptedBackend([*script, say("ok")])
    parts = module_rig.agents(backend, suggestions=suggestions)
    return await parts.runner.run(order(**config))


async def test_what_a_tainted_run_would_write_waits_until_a_person_says_yes(
    module_rig: ModuleRig, suggestions: Suggestions
):
    reads = use("read_note", path="Brain/clip.md")
    edits = use("edit_section", path="Brain/a.md", section="S", text="x")
    ran = await propose(module_rig, suggestions, reads, edits)
    (made,) = suggestions.all()
    assert (ran.outcome, ran.suggestions) == ("suggested", (made.id,))
    assert module_rig.text("Brain/a.md") == "# A\n"
    assert (made.source_agent, made.run, made.origin) == ("helper", ran.run_id, "stranger")
    done = await suggestions.approve(made.id)
    assert done.status == "approved"
    text = "---\norigin: stranger\n---\n# A\n\n## S\n\nx\n"
    assert module_rig.text("Brain/a.md") == text
    runs = {cause["id"] for cause in module_rig.history.runs_of_causes(made.causes)}
    assert runs == {ran.run_id, done.applied_run}


async def test_an_agent_suggests_by_its_own_will_what_it_may_not_write(
    module_rig: ModuleRig, suggestions: Suggestions
):
    change = {"action": "update", "payload": {"text": "# B\n"}, "reasoning": "better"}
    within = use("suggest_change", path="Brain/a.md", **change)
    beyond = use("suggest_change", path="Private/b.md", **change)

    ran = await propose(module_rig, suggestions, within, capabilities=["read"])
    assert ran.suggestions == (suggestions.all()[0].id,)
    assert (await propose(module_rig, suggestions, beyond)).suggestions == ()


async def test_an_orchestrator_has_tools_for_it_and_acts_within_its_grant(
    module_rig: ModuleRig, suggestions: Suggestions
):
    change = {"source_agent": "child", "action": "update", "payload": {"text": "new\n"}}
    made = [
        (await suggestions.propose(Proposal(**change, path=path, reasoning="x"))).id
        for path in ("Brain/a.md", "Private/b.md")
    ]
    decide = use("resolve_suggestions", ids=made, action="approve", reasoning="right")
    await propose(module_rig, suggestions, decide)  # it orchestrates no one: it has no such tool
    assert all(one.is_pending for one in suggestions.all())
    await propose(module_rig, suggestions, decide, orchestrates=["child"])
    assert [(one.path, one.status, one.resolved_by) for one in suggestions.all()] == [
        ("Private/b.md", "pending", None),
        ("Brain/a.md", "approved", "orchestrator:helper"),
    ]
