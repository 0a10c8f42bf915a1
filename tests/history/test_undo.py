"""Undo: a run and what followed from it are taken back, what people wrote since is not."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from pathlib import Path

import pytest

from parachuted.agents import Job
from parachuted.errors import EditRefusedError, NotFoundError
from parachuted.history.run_account import save
from parachuted.testing import Block, ScriptedBackend, use
from parachuted.vault import AppendToSection, Author, VaultPath
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
        a=A,
        w=watching("a.md", text=BODY.format("W")),
        v=watching("w.md", text=BODY.format("V")),
        u=watching("v.md", text=BODY.format("U")),
    )
    await study.save("a", B)
    for name in "wvu":
        study.wait(1)
        await study.run(name)
    return study


def run_of(study: Study, watcher: str) -> str:
    return next(
        str(run["id"])
        for run in study.history.runs()
        if run["watcher"] == f"{watcher}.md" and run["agent"] == "curator"
    )


async def test_a_run_is_taken_back_with_all_that_followed(tmp_path: Path):
    study = await cascade(tmp_path)
    undone = await study.undo.undo(run_of(study, "w"))

    assert undone.runs == tuple(run_of(study, name) for name in "uvw")
    assert undone.paths == ("u.md", "v.md", "w.md")
    assert undone.kept == {}
    assert [study.text(name) for name in "wvu"] == [
        watching(f"{above}.md", text=BODY.format(name.upper()))
        for above, name in ("aw", "wv", "vu")
    ]
    assert study.text("a") == B


async def test_it_is_told_and_wakes_nobody(tmp_path: Path):
    study = await cascade(tmp_path)
    run = run_of(study, "v")
    await study.undo.undo(run)

    (told,) = study.told("run.undone")
    assert (told["run"], told["runs"], told["paths"], told["kept"]) == (
        run,
        [run_of(study, "u"), run],
        ["u.md", "v.md"],
        {},
    )
    assert study.queue.all() == []
    assert study.reviews.watchers() == []
    assert "a.md" in study.text("w")


async def test_only_what_followed_is_taken_back_not_what_merely_shares_the_cause(tmp_path: Path):
    study = Study(folder=tmp_path, backend=ScriptedBackend(edits))
    study.begin_with(
        a=A, w=watching("a.md", text=BODY.format("W")), v=watching("a.md", text=BODY.format("V"))
    )
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
            str(document["id"]),
            started=study.now - timedelta(days=number),
            watcher=f"{name}.md",
            outcome="changed",
            causes=["c5"],
            document=document,
        )

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
            [
                use("update_context", file_path="w.md", section="Facts", content=text)
                for text in ("- x", "- y", "- y\n- z")
            ]
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
    undone = await study.undo.undo(run)
    await study.save("v", study.text("v").replace("- old", "- 1 changed: w.md"))

    assert study.history.run(run_of(study, "u"))["undone"] == {
        "at": study.now.isoformat(),
        "with": run,
        "run": undone.undo,
    }
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


@pytest.mark.parametrize(
    ("name", "outcome"), [("w", "running"), ("w", "waiting"), ("u", "running")]
)
async def test_a_cascade_that_is_still_going_on_is_not_undone(
    tmp_path: Path, name: str, outcome: str
):
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


async def test_an_undo_is_a_run_of_its_own_that_no_budget_counts(tmp_path: Path):
    study = await cascade(tmp_path)
    counted = study.history.count_runs()
    study.wait(1)
    undone = await study.undo.undo(run_of(study, "v"))

    document = study.history.run(undone.undo)
    assert (document["agent"], document["outcome"], document["watcher"]) == (
        "undo",
        "changed",
        "v.md",
    )
    assert [wrote["path"] for wrote in document["wrote"]] == ["u.md", "v.md"]
    assert "-- 1 changed: w.md" in document["wrote"][1]["diff"]
    assert document["takes_back"] == list(undone.runs)
    assert study.history.runs()[0] == document
    assert study.history.count_runs() == counted
    assert study.history.spent(study.now)["runs"] == 0


async def test_an_undo_of_an_undo_brings_back_what_it_took_to_any_depth(tmp_path: Path):
    study = await cascade(tmp_path)
    first = {name: study.text(name) for name in "awvu"}
    latest = (await study.undo.undo(run_of(study, "w"))).undo
    second = {name: study.text(name) for name in "awvu"}
    for turn in range(4):
        undone = await study.undo.undo(latest)
        assert undone.runs == (latest,)
        assert {name: study.text(name) for name in "awvu"} == (second if turn % 2 else first), turn
        assert [bool(study.history.run(run_of(study, name))["undone"]) for name in "wvu"] == [
            bool(turn % 2)
        ] * 3, turn
        latest = undone.undo
    assert study.queue.all() == []


async def test_what_is_in_force_again_can_be_undone_itself_and_the_undo_before_it_cannot(
    tmp_path: Path,
):
    study = await cascade(tmp_path)
    undo = await study.undo.undo(run_of(study, "w"))
    await study.undo.undo(undo.undo)

    with pytest.raises(
        EditRefusedError, match=f"{undo.undo} has been undone already; `parachute undo r-"
    ):
        await study.undo.undo(undo.undo)
    assert (await study.undo.undo(run_of(study, "w"))).paths == ("u.md", "v.md", "w.md")


async def test_an_undo_of_an_undo_keeps_what_a_person_wrote_in_between(tmp_path: Path):
    study = await cascade(tmp_path)
    written = study.text("w")
    undo = await study.undo.undo(run_of(study, "w"))
    await study.save("w", study.text("w").replace("- dig", "- dig\n- water"))
    await study.undo.undo(undo.undo)

    assert study.text("w") == written.replace("- dig", "- dig\n- water")


async def test_two_undos_at_once_are_one(tmp_path: Path):
    study = await cascade(tmp_path)
    run = run_of(study, "w")
    both = await asyncio.gather(study.undo.undo(run), study.undo.undo(run), return_exceptions=True)

    assert sorted(type(one).__name__ for one in both) == ["EditRefusedError", "UndoResult"]
    assert sum(one["agent"] == "undo" for one in study.history.runs()) == 1


async def test_what_a_run_moved_goes_back_with_what_was_written_there_since(tmp_path: Path):
    study = Study(folder=tmp_path)
    study.begin_with(a=A)
    by = Author(by="maintenance", run="r-1")
    study.store.replace(VaultPath("a.md"), B.encode(), by)
    study.store.move(VaultPath("a.md"), VaultPath("New/b.md"), by)
    study.store.edit(
        VaultPath("New/b.md"),
        AppendToSection(section="Plan", content="- mine", create=True),
        Author(by="key:phone"),
    )
    save(study.history, document_of("r-1", study))
    undone = await study.undo.undo("r-1")

    assert study.text("a") == A + "\n## Plan\n\n- mine\n"
    assert not (study.vault / "New/b.md").exists()
    again = await study.undo.undo(undone.undo)
    assert "- mine" in (study.vault / "New/b.md").read_text()
    assert "- two" in (study.vault / "New/b.md").read_text()
    assert not (study.vault / "a.md").exists()
    assert again.kept == {}


async def test_a_move_whose_old_place_is_taken_stays_and_is_told(tmp_path: Path):
    study = Study(folder=tmp_path)
    study.begin_with(a=A)
    study.store.move(VaultPath("a.md"), VaultPath("b.md"), Author(by="maintenance", run="r-1"))
    (study.vault / "a.md").write_text("another")
    save(study.history, document_of("r-1", study))
    undone = await study.undo.undo("r-1")

    assert undone.kept == {"b.md": ("it cannot go back to a.md, where there is a newer file",)}
    assert (study.text("a"), study.text("b")) == ("another", A)


async def test_a_note_that_a_person_has_moved_since_is_found_where_it_is(tmp_path: Path):
    study = await cascade(tmp_path)
    (study.vault / "w.md").rename(study.vault / "x.md")
    study.history.saw(study.now, [("x.md", "moved", "w.md", None)])
    study.wait(1)
    (study.vault / "x.md").rename(study.vault / "y.md")
    study.history.saw(study.now, [("y.md", "moved", "x.md", None)])
    undone = await study.undo.undo(run_of(study, "w"))

    assert study.text("y") == watching("a.md", text=BODY.format("W"))
    assert "y.md" in undone.paths


async def test_a_note_that_was_moved_through_the_daemon_is_found_where_it_is(tmp_path: Path):
    study = await cascade(tmp_path)
    study.store.move(VaultPath("w.md"), VaultPath("x.md"), Author(by="person"))
    (study.vault / "x.md").rename(study.vault / "y.md")
    study.history.saw(study.now, [("y.md", "moved", "x.md", None)])
    study.store.move(VaultPath("y.md"), VaultPath("New/z.md"), Author(by="key:phone"))
    undone = await study.undo.undo(run_of(study, "w"))

    assert study.text("New/z") == watching("a.md", text=BODY.format("W"))
    assert "New/z.md" in undone.paths
    assert undone.kept == {}


async def test_a_note_that_was_moved_away_and_back_is_where_it_was(tmp_path: Path):
    study = await cascade(tmp_path)
    study.store.move(VaultPath("w.md"), VaultPath("x.md"), Author(by="person"))
    study.store.move(VaultPath("x.md"), VaultPath("w.md"), Author(by="person"))
    undone = await study.undo.undo(run_of(study, "w"))

    assert study.text("w") == watching("a.md", text=BODY.format("W"))
    assert undone.paths == ("u.md", "v.md", "w.md")


async def test_another_note_with_the_name_of_one_that_moved_is_left_alone(tmp_path: Path):
    study = await cascade(tmp_path)
    written = study.text("w")
    study.store.move(VaultPath("w.md"), VaultPath("x.md"), Author(by="person"))
    study.begin_with(w=written)
    await study.undo.undo(run_of(study, "w"))

    assert study.text("w") == written
    assert study.text("x") == watching("a.md", text=BODY.format("W"))


async def test_notes_that_took_each_others_names_are_both_found(tmp_path: Path):
    study = await cascade(tmp_path)
    for name, now in (("w", "x"), ("v", "w"), ("x", "v")):
        (study.vault / f"{name}.md").rename(study.vault / f"{now}.md")
    study.history.saw(study.now, [("v.md", "moved", "w.md", None), ("w.md", "moved", "v.md", None)])
    await study.undo.undo(run_of(study, "w"))

    assert study.text("v") == watching("a.md", text=BODY.format("W"))
    assert study.text("w") == watching("w.md", text=BODY.format("V"))


async def test_an_undo_that_was_cut_short_can_be_gone_through_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    study = await cascade(tmp_path)
    whole, calls = study.store.edit, []

    def dies(path: VaultPath, *given: object, **named: object) -> object:
        calls.append(path)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return whole(path, *given, **named)

    with monkeypatch.context() as patch:
        patch.setattr(study.store, "edit", dies)
        with pytest.raises(KeyboardInterrupt):
            study.undo._take_back(run_of(study, "w"))
    study.reopen()
    study.aftermath.end_lost_runs()
    assert study.history.runs()[0]["outcome"] == "failed"
    await study.undo.undo(run_of(study, "w"))

    assert [study.text(name) for name in "wvu"] == [
        watching(f"{above}.md", text=BODY.format(name.upper()))
        for above, name in ("aw", "wv", "vu")
    ]


def document_of(run: str, study: Study) -> dict[str, object]:
    """A run that has ended, of an agent that woke nobody."""
    return {
        "id": run,
        "watcher": "a.md",
        "agent": "maintenance",
        "causes": [],
        "parents": [],
        "started": study.now.isoformat(),
        "outcome": "changed",
        "undone": None,
    }
