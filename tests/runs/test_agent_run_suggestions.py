"""A run's suggestions from end to end: what a stranger's text led to is proposed, filtered by
another agent, and done by a person.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from parachuted.access.origins import Origins
from parachuted.runs.agent_runner import AgentRunner
from parachuted.suggestions import Proposal, SuggestionParts, Suggestions
from parachuted.testing import ScriptedBackend, say, use
from tests.modules.yard import Yard
from tests.runs.test_agent_runner import order


@pytest.fixture
def yard(tmp_path: Path) -> Iterator[Yard]:
    yard = Yard(tmp_path)
    yard.save("Brain/a.md", "# A\n")
    yard.save("Private/b.md", "# B\n")
    yard.save("Brain/clip.md", "---\norigin: web\n---\n# Clip\n")
    yield yard
    yard.close()


@pytest.fixture
def suggestions(yard: Yard, tmp_path: Path) -> Suggestions:
    home = tmp_path / "home"
    home.mkdir(mode=0o700)
    return Suggestions(
        SuggestionParts(
            root=yard.root,
            store=yard.store,
            objects=yard.objects,
            history=yard.history,
            state=yard.state,
            home=home,
            bus=yard.bus,
            clock=yard.clock,
            notice=yard.notice,
            audit=yard.audit,
            origins=Origins(yard.state),
        )
    )


async def run(yard: Yard, suggestions: Suggestions, *script: object, **config: object):
    backend = ScriptedBackend([*script, say("ok")])
    parts = yard.agents(backend, suggestions=suggestions, origins=Origins(yard.state))
    return await AgentRunner(parts, yard.parts).run(order(**config))


async def test_what_a_tainted_run_would_write_waits_and_is_done_when_a_person_says_so(
    yard: Yard, suggestions: Suggestions
):
    ran = await run(
        yard,
        suggestions,
        use("read_note", path="Brain/clip.md"),
        use("append_note", path="Brain/a.md", section="S", text="x"),
    )
    (made,) = suggestions.all()
    assert (ran.outcome.result, ran.suggested, yard.text("Brain/a.md")) == (
        "suggested",
        (made.id,),
        "# A\n",
    )
    assert (made.source_agent, made.run, made.origin) == ("helper", ran.run, "web")
    done = await suggestions.approve(made.id)
    assert (done.status, yard.text("Brain/a.md")) == ("approved", "# A\n\n## S\n\nx\n")
    assert {one["id"] for one in yard.history.runs_of_causes(made.causes)} == {
        ran.run,
        done.applied_run,
    }


async def test_an_agent_suggests_by_its_own_will_what_it_may_not_write(
    yard: Yard, suggestions: Suggestions
):
    change = {
        "action": "update",
        "path": "Brain/a.md",
        "payload": {"text": "# B\n"},
        "reasoning": "better",
    }
    ran = await run(yard, suggestions, use("suggest_change", **change), capabilities=["read"])
    assert ran.suggested == (suggestions.all()[0].id,)
    beyond = await run(
        yard, suggestions, use("suggest_change", **{**change, "path": "Private/b.md"})
    )
    assert beyond.suggested == ()


async def test_an_orchestrator_has_the_tools_for_it_and_acts_within_its_own_grant(
    yard: Yard, suggestions: Suggestions
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
    await run(yard, suggestions, decide)
    assert all(
        one.is_pending for one in suggestions.all()
    )  # an agent that orchestrates nobody has no such tool
    await run(yard, suggestions, decide, orchestrates=["child"])
    assert [(one.path, one.status, one.resolved_by) for one in suggestions.all()] == [
        ("Private/b.md", "pending", None),
        ("Brain/a.md", "approved", "orchestrator:helper"),
    ]
