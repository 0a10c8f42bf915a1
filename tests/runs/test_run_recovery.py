"""Aftermath: what the next daemon makes of runs that the last one did not bring to their end."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from parachuted.agents import Job
from parachuted.history.run_account import save
from parachuted.runs import Curator
from parachuted.testing import Block, ScriptedBackend, use
from tests.bubbling.desk import watching
from tests.tools.study import LIMITS, Study

A = "# A\n\n## Facts\n\n- one\n"
B = A.replace("one", "two")
W = watching("a.md", text="# W\n\n## Facts\n\n- old\n")
NEW = use("update_context", file_path="w.md", section="Facts", content="- new")


async def cut_short(folder: Path) -> Study:
    """A run whose agent wrote something, and whose daemon was gone before the agent had ended."""
    written = asyncio.Event()
    study = Study(folder=folder)
    study.begin_with(a=A, w=W, v=watching("w.md"))
    await study.save("a", B)

    async def script(job: Job) -> list[Block]:
        await job.tools[2].call({"file_path": "w.md", "section": "Facts", "content": "- half"})
        written.set()
        await asyncio.Event().wait()
        return []

    study.backend = ScriptedBackend(script)
    study.curator = Curator(study.parts, study.backend, model=None, limits=LIMITS)
    running = asyncio.get_running_loop().create_task(study.run("w"), name="run")
    await written.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    study.backend = ScriptedBackend([NEW])
    return study


async def test_a_run_that_was_cut_short_is_taken_back_and_done_again_as_the_same_run(
    tmp_path: Path,
):
    study = await cut_short(tmp_path)
    assert "- half" in study.text("w")
    study.reopen()
    assert study.aftermath.settle_runs() == []

    assert study.text("w") == W
    assert study.waiting() == ["w"]
    assert [(review.path, review.reviewing) for review in study.reviews.of("w.md")] == [
        ("a.md", None)
    ]
    await study.run("w")
    assert "- new" in study.text("w")
    assert [document["outcome"] for document in study.history.runs()] == ["changed"]


async def test_those_woken_by_what_is_taken_back_are_not_woken(tmp_path: Path):
    study = await cut_short(tmp_path)
    await study.notice(["w.md"])
    assert study.waiting() == ["v"]
    study.reopen()
    study.aftermath.settle_runs()
    await study.notice(["w.md"])

    assert study.waiting() == ["w"]
    await study.run("w")
    assert study.waiting() == ["v"]


async def test_what_a_person_wrote_since_stays_and_is_said(tmp_path: Path):
    study = await cut_short(tmp_path)
    (study.vault / "w.md").write_text(W.replace("- old", "- half, says a person"))
    study.reopen()
    (said,) = study.aftermath.settle_runs()

    assert said.startswith("a run on w.md was cut short, and this of it in w.md stays")
    assert "- half, says a person" in study.text("w")
    assert study.waiting() == ["w"]


async def test_a_run_whose_edit_a_person_has_taken_back_in_the_meantime_is_not_done_for_nothing(
    tmp_path: Path,
):
    study = await cut_short(tmp_path)
    study.reopen()
    study.aftermath.settle_runs()
    await study.save("a", A)

    assert not study.reviews.has("w.md")
    assert (await study.run("w")).reason == "nothing was left to review"
    assert study.backend.jobs == []


@pytest.mark.parametrize("outcome", ["changed", "failed"])
async def test_a_run_whose_end_is_known_is_not_done_again(tmp_path: Path, outcome: str):
    study = await cut_short(tmp_path)
    (document,) = study.history.runs()
    save(study.history, {**document, "outcome": outcome})
    study.reopen()
    study.aftermath.settle_runs()

    assert "- half" in study.text("w")
    assert study.queue.all() == []
    assert study.reviews.has("w.md") == (outcome == "failed")
    assert study.reviews.looking("w.md") == []


async def test_a_run_that_never_got_to_be_recorded_is_done_again(tmp_path: Path):
    study = Study(folder=tmp_path, backend=ScriptedBackend([NEW]))
    study.begin_with(a=A, w=W)
    await study.save("a", B)
    study.begin("w")
    study.reopen()
    study.aftermath.settle_runs()

    assert study.waiting() == ["w"]
    assert (await study.run("w")).result == "changed"


async def test_a_run_that_nothing_will_take_up_again_has_failed(tmp_path: Path):
    study = await cut_short(tmp_path)
    study.queue.finish(study.queue.running()[0])
    study.reopen()
    study.aftermath.settle_runs()
    study.aftermath.end_lost_runs()

    (document,) = study.history.runs()
    assert (document["outcome"], document["reason"]) == (
        "failed",
        "the daemon ended before the run did",
    )
    assert document["ended"] == study.now.isoformat()


async def test_a_run_that_will_be_done_again_has_not_failed(tmp_path: Path):
    study = await cut_short(tmp_path)
    study.reopen()
    study.aftermath.settle_runs()
    study.aftermath.end_lost_runs()

    assert [document["outcome"] for document in study.history.runs()] == ["running"]
