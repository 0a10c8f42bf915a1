"""Undo: a run and what followed from it are taken back, what people wrote since is not."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from parachuted.agents import Job
from parachuted.errors import EditRefusedError, NotFoundError
from parachuted.testing import Block, ScriptedBackend, use
from parachuted.tools.account import save
from tests.bubbling.desk import watching
from tests.tools.study import Study

A = "# A\n\n## Facts\n\n- one\n"
B = A.replace("one", "two")
BODY = "# {}\n\n## Facts\n\n- old\n\n## Current Focus\n\n- dig\n"


async def edits(job: Job) -> list[Block]:
    """Each note says who woke it."""
    content = f"- {len(job.changes)} changed: {', '.join(change.path for change in job.changes)}"
    return [use("update_context", file_path=job.watcher, section="Facts", content=content)]


async def cascade(folder: Path) -> Study:
    """a changed; w watches it, v watches w, u watches v; all have run."""
    study = Study(folder=folder, backend=ScriptedBackend(edits))
    study.begin_with(
        a=A, w=watching("a.md", text=BODY.format("W")), v=watching("w.md", text=BODY.format("V")), u=watching("v.md", text=BODY.format("U"))
    )  # fmt: skip
    await study.save("a", B)
    for name in "wvu":
        study.wait(1)
        await study.run(name)
    return study


def run_of(study: Study, watcher: str) -> str:
    return next(str(run["id"]) for run in study.history.runs() if run["watcher"] == f"{watcher}.md")


async def test_a_run_is_taken_back_with_all_that_followed(tmp_path: Path):
    study = await cascade(tmp_path)
    undone = await study.undo.undo(run_of(study, "w"))

    assert undone.runs == tuple(run_of(study, name) for name in "uvw")
    assert undone.paths == ("u.md", "v.md", "w.md")
    assert undone.kept == {}
    assert [study.text(name) for name in "wvu"] == [
        watching(f"{above}.md", text=BODY.format(name.upper())) for above, name in ("aw", "wv", "vu")
    ]
    assert study.text("a") == B


async def test_it_is_told_and_wakes_nobody(tmp_path: Path):
    study = await cascade(tmp_path)
    run = run_of(study, "v")
    await study.undo.undo(run)

    (told,) = study.told("run.undone")
    assert (told["run"], told["runs"], told["paths"], told["kept"]) == (run, [run_of(study, "u"), run], ["u.md", "v.md"], {})
    assert study.queue.all() == []
    assert study.reviews.watchers() == []
    assert "a.md" in study.text("w")


async def test_only_what_followed_is_taken_back_not_what_merely_shares_the_cause(tmp_path: Path):
    study = Study(folder=tmp_path, backend=ScriptedBackend(edits))
    study.begin_with(a=A, w=watching("a.md", text=BODY.format("W")), v=watching("a.md", text=BODY.format("V")))
    await study.save("a", B)
    for name in "wv":
        await study.run(name)
    undone = await study.undo.undo(run_of(study, "w"))

    assert undone.paths == ("w.md",)
    assert "- 1 changed" in study.text("v")


async def test_what_followed_is_found_whatever_the_clock_said(tmp_path: Path):
    """Runs sort by their names, and their names by the clock, which may have been set back."""
    study = await cascade(tmp_path)
    for number, name in enumerate("wvu"):
        document = study.history.run(run_of(study, name))
        study.history.save_run(
            str(document["id"]), started=study.now - timedelta(days=number), watcher=f"{name}.md", outcome="changed", causes=["c5"],
            document=document,
        )  # fmt: skip

    assert len((await study.undo.undo(run_of(study, "w"))).runs) == 3


async def test_a_persons_later_edit_elsewhere_in_the_note_stays(tmp_path: Path):
    study = await cascade(tmp_path)
    await study.save("w", study.text("w").replace("- dig", "- water"))
    undone = await study.undo.undo(run_of(study, "w"))

    assert study.text("w") == watching("a.md", text=BODY.format("W").replace("- dig", "- water"))
    assert undone.kept == {}


async def test_a_persons_later_edit_of_what_the_run_wrote_stays_and_is_told(tmp_path: Path):
    study = await cascade(tmp_path)
    await study.save("w", study.text("w").replace("1 changed", "one, namely"))
    undone = await study.undo.undo(run_of(study, "w"))

    assert "one, namely" in study.text("w")
    assert list(undone.kept) == ["w.md"]
    assert "one, namely" in undone.kept["w.md"][0]
    assert study.text("u") == watching("v.md", text=BODY.format("U"))


async def test_a_note_that_was_deleted_since_stays_deleted(tmp_path: Path):
    study = await cascade(tmp_path)
    await study.save("v", None)
    undone = await study.undo.undo(run_of(study, "w"))

    assert not (study.vault / "v.md").exists()
    assert undone.paths == ("u.md", "w.md")


async def test_several_writes_of_one_run_are_taken_back_from_the_last_to_the_first(tmp_path: Path):
    study = Study(
        folder=tmp_path,
        backend=ScriptedBackend(
            [use("update_context", file_path="w.md", section="Facts", content=text) for text in ("- x", "- y", "- y\n- z")]
        ),
    )
    study.begin_with(a=A, w=watching("a.md", text=BODY.format("W")))
    await study.save("a", B)
    await study.run("w")
    undone = await study.undo.undo(run_of(study, "w"))

    assert study.text("w") == watching("a.md", text=BODY.format("W"))
    assert undone.paths == ("w.md",)


async def test_an_undo_is_marked_and_happens_once(tmp_path: Path):
    study = await cascade(tmp_path)
    run = run_of(study, "v")
    await study.undo.undo(run)
    await study.save("v", study.text("v").replace("- old", "- 1 changed: w.md"))

    assert study.history.run(run_of(study, "u"))["undone"] == {"at": study.now.isoformat(), "with": run}
    with pytest.raises(EditRefusedError, match="undone already"):
        await study.undo.undo(run)
    assert "- 1 changed: w.md" in study.text("v")


async def test_the_rest_of_a_cascade_can_be_undone_after_a_part_of_it(tmp_path: Path):
    study = await cascade(tmp_path)
    await study.undo.undo(run_of(study, "v"))
    undone = await study.undo.undo(run_of(study, "w"))

    assert undone.runs == (run_of(study, "w"),)
    assert study.text("w") == watching("a.md", text=BODY.format("W"))


async def test_a_run_that_nobody_knows_cannot_be_undone(tmp_path: Path):
    with pytest.raises(NotFoundError, match="there is no run r-0"):
        await Study(folder=tmp_path).undo.undo("r-0")


@pytest.mark.parametrize(("name", "outcome"), [("w", "running"), ("w", "waiting"), ("u", "running")])
async def test_a_cascade_that_is_still_going_on_is_not_undone(tmp_path: Path, name: str, outcome: str):
    study = await cascade(tmp_path)
    save(study.history, {**study.history.run(run_of(study, name)), "outcome": outcome})

    with pytest.raises(EditRefusedError, match="still at work"):
        await study.undo.undo(run_of(study, "w"))
    assert "1 changed" in study.text("w")


async def test_a_run_further_on_that_could_not_begin_yet_is_no_hindrance(tmp_path: Path):
    study = await cascade(tmp_path)
    save(study.history, {**study.history.run(run_of(study, "u")), "outcome": "waiting"})

    assert len((await study.undo.undo(run_of(study, "w"))).runs) == 2


async def test_what_cannot_be_taken_back_is_told_and_the_rest_is(tmp_path: Path):
    study = await cascade(tmp_path)
    write = study.history.writes_by(run_of(study, "v"))[0]
    (tmp_path / "objects" / write.before[:2] / write.before[2:]).unlink()
    study.objects.forget_seen([])
    undone = await study.undo.undo(run_of(study, "w"))

    assert "no longer kept" in undone.kept["v.md"][0]
    assert undone.paths == ("u.md", "w.md")
