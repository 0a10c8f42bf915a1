"""Aftermath: what the next daemon makes of runs that the last one did not bring to their end."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from parachuted.agents.calling import call_tool
from parachuted.agents.job import Job
from parachuted.history.run_account import save
from parachuted.runs.curator import in_pieces
from parachuted.testing import Block, ScriptedBackend
from tests.bubbling.reconciler_rig import watching
from tests.runs.test_curator import A, W, ask, study_with, update
from tests.tools.curator_rig import CuratorRig


async def cut_short(folder: Path) -> CuratorRig:
    """A run whose agent wrote something, and whose daemon was gone before the agent had ended."""
    written = asyncio.Event()
    curator_rig = await study_with(folder, v=watching("w.md"))

    async def script(job: Job) -> list[Block]:
        await call_tool(job.tools, "update_context", update(content="- half").input)
        written.set()
        await asyncio.Event().wait()
        return []

    ask(curator_rig, ScriptedBackend(script))
    running = asyncio.get_running_loop().create_task(curator_rig.run("w"), name="run")
    await written.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    curator_rig.backend = ScriptedBackend([update()])
    return curator_rig


async def restart(curator_rig: CuratorRig) -> list[str]:
    curator_rig.reopen()
    return await curator_rig.aftermath.settle_runs()


async def test_a_run_that_was_cut_short_is_taken_back_and_done_again(tmp_path: Path):
    curator_rig = await cut_short(tmp_path)
    await curator_rig.notice(["w.md"])
    assert "- half" in curator_rig.text("w")
    assert curator_rig.waiting() == ["v"]
    assert await restart(curator_rig) == []
    curator_rig.aftermath.end_lost_runs()
    assert [document["outcome"] for document in curator_rig.history.runs()] == ["running"]
    await curator_rig.notice(["w.md"])

    assert (curator_rig.text("w"), curator_rig.waiting()) == (W, ["w"])
    (review,) = curator_rig.reviews.of("w.md")
    assert (review.path, review.reviewing) == ("a.md", None)
    await curator_rig.run("w")
    assert "- new" in curator_rig.text("w")
    assert curator_rig.waiting() == ["v"]
    assert [document["outcome"] for document in curator_rig.history.runs()] == ["changed"]


async def test_what_a_person_wrote_since_stays_and_is_said(tmp_path: Path):
    curator_rig = await cut_short(tmp_path)
    (curator_rig.vault / "w.md").write_text(W.replace("- old", "- half, says a person"))
    (said,) = await restart(curator_rig)

    assert said.startswith("a run on w.md was cut short, and this of it in w.md stays")
    assert "- half, says a person" in curator_rig.text("w")
    assert curator_rig.waiting() == ["w"]


async def test_a_run_whose_cause_a_person_has_taken_back_meanwhile_asks_no_agent(tmp_path: Path):
    curator_rig = await cut_short(tmp_path)
    assert "- half" in curator_rig.text("w")
    await restart(curator_rig)
    assert curator_rig.text("w") == W
    await curator_rig.save("a", A)

    assert not curator_rig.reviews.has("w.md")
    outcome = await curator_rig.run("w")
    assert (outcome.result, outcome.reason) == ("unchanged", "nothing was left to review")
    assert curator_rig.backend.jobs == []


@pytest.mark.parametrize("outcome", ["changed", "failed"])
async def test_a_run_whose_end_is_known_is_not_done_again(tmp_path: Path, outcome: str):
    curator_rig = await cut_short(tmp_path)
    (document,) = curator_rig.history.runs()
    save(curator_rig.history, {**document, "outcome": outcome})
    await restart(curator_rig)

    assert "- half" in curator_rig.text("w")
    assert curator_rig.queue.all() == []
    assert curator_rig.reviews.has("w.md") == (outcome == "failed")
    assert curator_rig.reviews.looking("w.md") == []


async def test_a_run_that_never_got_to_be_recorded_is_done_again(tmp_path: Path):
    curator_rig = await study_with(tmp_path, update())
    curator_rig.begin("w")
    await restart(curator_rig)

    assert curator_rig.waiting() == ["w"]
    assert (await curator_rig.run("w")).result == "changed"


async def test_a_run_that_nothing_will_take_up_again_has_failed(tmp_path: Path):
    curator_rig = await cut_short(tmp_path)
    curator_rig.queue.finish(curator_rig.queue.running()[0])
    await restart(curator_rig)
    curator_rig.aftermath.end_lost_runs()

    (document,) = curator_rig.history.runs()
    ended = (document["outcome"], document["reason"], document["ended"])
    reason = "the daemon ended before the run did"
    assert ended == ("failed", reason, curator_rig.now.isoformat())


def test_no_piece_is_larger_than_a_batch_may_be_and_none_is_left_out():
    pieces = [len(piece) for piece in in_pieces([None] * 501)]

    assert pieces == [250, 250, 1]
