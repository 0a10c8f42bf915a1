"""A run's suggestions from end to end: what a stranger's text led to is proposed, filtered by
another agent, and done by a person.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from parachuted.access.origins import Origins
from parachuted.suggestions import Proposal, Suggestions
from parachuted.testing import ScriptedBackend, say, use
from tests.modules.module_rig import ModuleRig
from tests.runs.test_agent_runner import order


@pytest.fixture
def module_rig(tmp_path: Path) -> Iterator[ModuleRig]:
    module_rig = ModuleRig(tmp_path)
    module_rig.save("Brain/a.md", "# A\n")
    module_rig.save("Private/b.md", "# B\n")
    module_rig.save("Brain/clip.md", "---\norigin: web\n---\n# Clip\n")
    yield module_rig
    module_rig.close()


@pytest.fixture
def suggestions(module_rig: ModuleRig, tmp_path: Path) -> Suggestions:
    home = tmp_path / "home"
    home.mkdir(mode=0o700)
    return Suggestions(
        module_rig.store,
        state=module_rig.state,
        home=home,
        bus=module_rig.bus,
        audit=module_rig.audit,
        origins=Origins(module_rig.state),
    )


async def run(module_rig: ModuleRig, suggestions: Suggestions, *script: object, **config: object):
    backend = ScriptedBackend([*script, say("ok")])
    parts = module_rig.agents(backend, suggestions=suggestions, origins=Origins(module_rig.state))
    return await parts.runner.run(order(**config))


async def test_what_a_tainted_run_would_write_waits_and_is_done_when_a_person_says_so(
    module_rig: ModuleRig, suggestions: Suggestions
):
    ran = await run(
        module_rig,
        suggestions,
        use("read_note", path="Brain/clip.md"),
        use("edit_section", path="Brain/a.md", section="S", text="x"),
    )
    (made,) = suggestions.all()
    assert (ran.outcome.result, ran.suggested, module_rig.text("Brain/a.md")) == (
        "suggested",
        (made.id,),
        "# A\n",
    )
    assert (made.source_agent, made.run, made.origin) == ("helper", ran.run, "web")
    done = await suggestions.approve(made.id)
    assert (done.status, module_rig.text("Brain/a.md")) == ("approved", "# A\n\n## S\n\nx\n")
    assert {one["id"] for one in module_rig.history.runs_of_causes(made.causes)} == {
        ran.run,
        done.applied_run,
    }


async def test_an_agent_suggests_by_its_own_will_what_it_may_not_write(
    module_rig: ModuleRig, suggestions: Suggestions
):
    change = {
        "action": "update",
        "path": "Brain/a.md",
        "payload": {"text": "# B\n"},
        "reasoning": "better",
    }
    ran = await run(module_rig, suggestions, use("suggest_change", **change), capabilities=["read"])
    assert ran.suggested == (suggestions.all()[0].id,)
    beyond = await run(
        module_rig, suggestions, use("suggest_change", **{**change, "path": "Private/b.md"})
    )
    assert beyond.suggested == ()


async def test_an_orchestrator_has_the_tools_for_it_and_acts_within_its_own_grant(
    module_rig: ModuleRig, suggestions: Suggestions
):
    made = [
        await suggestions.propose(
            Proposal(
                source_agent="child",
                action="update",
                path=path,
                payload={"text": "new\n"},
                reasoning="x",
            )
        )
        for path in ("Brain/a.md", "Private/b.md")
    ]
    decide = use(
        "resolve_suggestions", ids=[one.id for one in made], action="approve", reasoning="right"
    )
    await run(module_rig, suggestions, decide)
    assert all(
        one.is_pending for one in suggestions.all()
    )  # an agent that orchestrates no one has no such tool
    await run(module_rig, suggestions, decide, orchestrates=["child"])
    assert [(one.path, one.status, one.resolved_by) for one in suggestions.all()] == [
        ("Private/b.md", "pending", None),
        ("Brain/a.md", "approved", "orchestrator:helper"),
    ]
