"""An agent between agents and a person: it makes what they suggest less, never more."""

from __future__ import annotations

import pytest

from parachuted.access.grant import Grant, grant_of
from parachuted.access.strangers import Taint
from parachuted.agents.calling import call_tool
from parachuted.errors import EditRefusedError, NotFoundError
from parachuted.suggestions.orchestrating import Orchestrator
from tests.suggestions.suggestion_rig import SuggestionRig


def chief(
    rig: SuggestionRig,
    *,
    reads: str = "**",
    lane: str = "-",
    of: tuple[str, ...] = ("reflector",),
    taint=None,
):
    return Orchestrator(
        rig.suggestions,
        grant=Grant(
            agent="chief",
            reads=grant_of([reads]),
            writes=grant_of(["Brain/**"]),
            tainted_writes=grant_of([lane]),
        ),
        of=of,
        run="r-9",
        causes=("c-9",),
        taint=taint if taint is not None else Taint(),
    )


async def three(rig: SuggestionRig):
    for path in ("Brain/a.md", "Brain/b.md", "Daily/c.md"):
        rig.write(path, "one\n")
    return [
        await rig.propose(path, {"text": "two\n"})
        for path in ("Brain/a.md", "Brain/b.md", "Daily/c.md")
    ]


async def test_it_approves_what_it_could_have_written_itself(rig):
    a, b, c = await three(rig)
    done, failed = await chief(rig).orchestrate([a.id, c.id], "approve")
    assert [(one.id, one.status, one.resolved_by) for one in done] == [
        (a.id, "approved", "orchestrator:chief")
    ]
    assert "chief may not write Daily/c.md" in failed[c.id]
    assert [rig.text(f"{name}.md") for name in ("Brain/a", "Brain/b", "Daily/c")] == [
        "two\n",
        "one\n",
        "one\n",
    ]
    assert rig.now(b).is_pending


async def test_it_rejects_with_a_reason_and_only_what_it_could_have_written(rig):
    a, _b, c = await three(rig)
    done, failed = await chief(rig).orchestrate([a.id, c.id], "reject", reasoning="twice the same")
    assert [(one.status, one.outcome) for one in done] == [("rejected", "twice the same")]
    assert list(failed) == [c.id]


async def test_what_it_cannot_see_and_what_is_not_its_does_not_exist_for_it(rig):
    a, b, _c = await three(rig)
    own = await rig.propose("Brain/a.md", {"text": "mine\n"}, source_agent="chief")
    foreign = await rig.propose("Brain/a.md", {"text": "theirs\n"}, source_agent="stranger")
    made = chief(rig, reads="Brain/a*")
    assert [one.id for one in made.waiting()] == [a.id]
    _, failed = await made.orchestrate([b.id, own.id, foreign.id, "s0000000000"], "approve")
    assert {why.replace(name, "") for name, why in failed.items()} == {
        next(iter(failed.values())).replace(b.id, "")
    }
    with pytest.raises(NotFoundError):
        await made.orchestrate([a.id, b.id], "batch")


async def test_after_strangers_text_it_decides_in_its_lane_alone(rig):
    rig.write("Brain/a.md", "one\n")
    rig.write("Brain/lane.md", "one\n")
    strange = await rig.propose("Brain/a.md", {"text": "two\n"}, is_strangers=True)
    in_lane = await rig.propose("Brain/lane.md", {"text": "two\n"}, is_strangers=True)
    taint = Taint()
    taint.read("Inbox/mail.md")
    plain = await rig.propose("Brain/a.md", {"text": "three\n"})
    done, failed = await chief(rig, lane="Brain/lane*").orchestrate(
        [strange.id, in_lane.id], "approve"
    )
    assert ([one.id for one in done], list(failed)) == ([in_lane.id], [strange.id])
    _, failed = await chief(rig, taint=taint).orchestrate([plain.id], "approve")
    assert "after what strangers wrote was read" in failed[plain.id]
    assert rig.text("Brain/a.md") == "one\n"


async def test_it_never_decides_what_is_watched(rig):
    rig.write("Brain/a.md", "# A\n")
    made = await rig.propose("Brain/a.md", {"key": "watch", "value": ["Daily/**"]})
    _, failed = await chief(rig).orchestrate([made.id], "approve")
    assert "which a person decides on" in failed[made.id]


async def test_a_batch_is_put_before_the_person_as_one(rig):
    a, b, _c = await three(rig)
    (batch,), _ = await chief(rig).orchestrate(
        [a.id, b.id], "batch", reasoning="2 updates from today's journal"
    )
    assert (batch.source_agent, batch.target_module, batch.causes) == ("chief", "brain", ("c-9",))
    assert chief(rig, of=("*",)).waiting()[-1].id == a.id
    _, failed = await chief(rig, of=("*",)).orchestrate([batch.id], "approve")
    assert list(failed) == [batch.id]


async def test_as_tools_an_agent_reads_decides_and_is_marked_by_what_it_read(rig):
    a, _b, _c = await three(rig)
    strange = await rig.propose("Brain/b.md", {"text": "web\n"}, is_strangers=True)
    taint = Taint()
    listing, resolving = chief(rig, taint=taint).tools()
    reported = (await listing.call({})).text
    assert f"{a.id}: update Brain/a.md, by reflector: it follows" in reported
    assert "+two" in reported
    assert strange.id in taint.why()
    answer = await resolving.call({"ids": [a.id], "action": "approve", "reasoning": "right"})
    assert answer.is_error  # it has read a stranger's text by now
    for arguments in (
        {},
        {"ids": [], "action": "approve", "reasoning": ""},
        {"ids": ["x"], "action": "destroy", "reasoning": ""},
    ):
        assert (await call_tool((resolving,), resolving.name, arguments)).is_error
    with pytest.raises(EditRefusedError):
        await chief(rig).orchestrate([a.id], "batch")


async def test_a_difference_quotes_the_file_that_it_would_change_and_its_name(rig):
    said = "---\norigin: web\n---\n## A stranger's line\n## New\n"
    rig.write("Brain/a.md", said)
    await rig.propose("Brain/a.md", {"section": "New", "content": "mine"})
    taint = Taint()
    listing, _ = chief(rig, taint=taint).tools()
    assert "A stranger's line" in (await listing.call({})).text
    assert taint
