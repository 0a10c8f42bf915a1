"""Undo: a run and what followed from it are taken back, what people wrote since is not."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from functools import partial
from pathlib import Path

import pytest

from parachuted.agents.job import Job
from parachuted.errors import EditRefusedError, NotFoundError
from parachuted.history.run_account import save
from parachuted.history.undo import UndoResult, runs_of_session
from parachuted.testing import Block, ScriptedBackend, use
from parachuted.vault import AppendToSection, Author, VaultPath
from parachuted.vault.trail import run_document
from tests.bubbling.reconciler_rig import watching
from tests.tools.curator_rig import CuratorRig

A = "# A\n\n## Facts\n\n- one\n"
B = A.replace("one", "two")
BODY = "# {}\n\n## Facts\n\n- old\n\n## Current Focus\n\n- dig\n"


async def edits(job: Job) -> list[Block]:
    """Each note says who woke it."""
    content = f"- {len(job.changes)} changed: {', '.join(change.path for change in job.changes)}"
    return [use("update_context", file_path=job.watcher, section="Facts", content=content)]


WAS = {
    name: watching(f"{above}.md", text=BODY.format(name.upper()))
    for above, name in ("aw", "wv", "vu")
}


@pytest.fixture
async def rig(tmp_path: Path) -> CuratorRig:
    """a changed; w watches it, v watches w, u watches v; all have run."""
    rig = CuratorRig(folder=tmp_path, backend=ScriptedBackend(edits))
    rig.begin_with(a=A, **WAS)
    await rig.save("a", B)
    for name in "wvu":
        rig.wait(1)
        await rig.run(name)
    return rig


def run_of(rig: CuratorRig, watcher: str) -> str:
    return next(
        str(run["id"])
        for run in rig.history.runs()
        if run["watcher"] == f"{watcher}.md" and run["agent"] == "curator"
    )


async def undo_of(rig: CuratorRig, watcher: str) -> UndoResult:
    return await rig.undo.undo(run_of(rig, watcher))


def is_now(rig: CuratorRig, watcher: str, outcome: str) -> None:
    save(rig.history, {**rig.history.run(run_of(rig, watcher)), "outcome": outcome})


def test_a_conversation_is_another_one_than_that_which_had_its_name(tmp_path: Path):
    rig, talk = CuratorRig(folder=tmp_path, backend=ScriptedBackend(edits)), VaultPath("talk.md")
    rig.begin_with(a=A)
    for turn in "12":
        run = partial(run_document, started=rig.clock(), causes=[{"id": f"c{turn}"}])
        for name, agent, path in (
            (f"r{turn}", "module:chat", talk),
            (f"r{turn}f", "module:brain", VaultPath(f"fact{turn}.md")),
        ):
            save(rig.history, run(name, watcher=path, agent=agent))
            author = Author(by=agent, run=name, causes=(f"c{turn}",))
            rig.store.create(path, b"# X\n", author)
        if turn == "1":
            rig.store.delete(talk, Author(by="module:chat", run="r1", causes=("c1",)))

    assert [run["id"] for run in runs_of_session(rig.history, talk)] == ["r2f"]


async def test_a_run_is_taken_back_with_all_that_followed(rig: CuratorRig):
    undone = await undo_of(rig, "w")

    assert undone.runs == tuple(run_of(rig, name) for name in "uvw")
    assert (undone.paths, undone.kept) == (("u.md", "v.md", "w.md"), {})
    assert {name: rig.text(name) for name in "wvu"} == WAS
    assert rig.text("a") == B


async def test_it_is_reported_marked_wakes_no_one_and_happens_once(rig: CuratorRig):
    run, counted = run_of(rig, "v"), rig.history.count_runs()
    rig.wait(1)
    undone = await rig.undo.undo(run)

    (reported,) = rig.reported("run.undone")
    assert (reported["run"], reported["runs"]) == (run, [run_of(rig, "u"), run])
    assert (reported["paths"], reported["kept"]) == (["u.md", "v.md"], {})
    assert rig.queue.all() == rig.reviews.watchers() == []
    assert "a.md" in rig.text("w")
    assert rig.history.run(run_of(rig, "u"))["undone"] == {
        "at": rig.now.isoformat(),
        "with": run,
        "run": undone.undo,
    }
    document = rig.history.run(undone.undo)  # a run of its own, which no budget counts
    assert (document["agent"], document["outcome"]) == ("undo", "changed")
    assert (document["watcher"], document["takes_back"]) == ("v.md", list(undone.runs))
    assert [wrote["path"] for wrote in document["wrote"]] == ["u.md", "v.md"]
    assert "-- 1 changed: w.md" in document["wrote"][1]["diff"]
    assert rig.history.runs()[0] == document
    assert (rig.history.count_runs(), rig.history.spent(rig.now).runs) == (counted, 0)

    await rig.save("v", rig.text("v").replace("- old", "- 1 changed: w.md"))
    with pytest.raises(EditRefusedError, match="undone already"):
        await rig.undo.undo(run)
    assert "- 1 changed: w.md" in rig.text("v")
    rest = await undo_of(rig, "w")
    assert rest.runs == (run_of(rig, "w"),)
    assert rig.text("w") == WAS["w"]


async def test_only_what_followed_is_taken_back_not_what_merely_shares_the_cause(tmp_path: Path):
    rig = CuratorRig(folder=tmp_path, backend=ScriptedBackend(edits))
    rig.begin_with(a=A, w=WAS["w"], v=watching("a.md", text=BODY.format("V")))
    await rig.save("a", B)
    for name in "wv":
        await rig.run(name)
    undone = await undo_of(rig, "w")

    assert undone.paths == ("w.md",)
    assert "- 1 changed" in rig.text("v")


async def test_what_followed_is_found_whatever_the_clock_said(rig: CuratorRig):
    """Runs sort by their names, and their names by the clock, which may have been set back."""
    for number, name in enumerate("wvu"):
        document = rig.history.run(run_of(rig, name))
        rig.history.save_run(
            str(document["id"]),
            started=rig.now - timedelta(days=number),
            watcher=f"{name}.md",
            outcome="changed",
            causes=["c5"],
            document=document,
        )

    assert len((await undo_of(rig, "w")).runs) == 3


async def test_a_persons_later_edit_of_what_the_run_wrote_stays_and_is_reported(rig: CuratorRig):
    await rig.save("w", rig.text("w").replace("1 changed", "one, namely"))
    undone = await undo_of(rig, "w")

    assert "one, namely" in rig.text("w")
    assert list(undone.kept) == ["w.md"]
    assert "one, namely" in undone.kept["w.md"][0]
    assert rig.text("u") == WAS["u"]


async def test_several_writes_of_one_run_are_taken_back_from_the_last(tmp_path: Path):
    rig = CuratorRig(
        folder=tmp_path,
        backend=ScriptedBackend(
            [
                use("update_context", file_path="w.md", section="Facts", content=text)
                for text in ("- x", "- y", "- y\n- z")
            ]
        ),
    )
    rig.begin_with(a=A, w=WAS["w"])
    await rig.save("a", B)
    await rig.run("w")
    undone = await undo_of(rig, "w")

    assert rig.text("w") == WAS["w"]
    assert undone.paths == ("w.md",)


async def test_a_run_that_no_one_knows_cannot_be_undone(tmp_path: Path):
    with pytest.raises(NotFoundError, match="there is no run r-0"):
        await CuratorRig(folder=tmp_path).undo.undo("r-0")


@pytest.mark.parametrize(
    ("name", "outcome"), [("w", "running"), ("w", "waiting"), ("u", "running")]
)
async def test_a_cascade_that_is_still_going_on_is_not_undone(
    rig: CuratorRig, name: str, outcome: str
):
    is_now(rig, name, outcome)

    with pytest.raises(EditRefusedError, match="still at work"):
        await undo_of(rig, "w")
    assert "1 changed" in rig.text("w")


async def test_a_run_further_on_that_could_not_begin_yet_is_no_hindrance(rig: CuratorRig):
    is_now(rig, "u", "waiting")

    assert len((await undo_of(rig, "w")).runs) == 2


async def test_what_cannot_be_taken_back_is_reported_and_the_rest_is(rig: CuratorRig):
    write = rig.history.writes_by(run_of(rig, "v"))[0]
    (rig.folder / "objects" / write.before[:2] / write.before[2:]).unlink()
    rig.objects.forget_seen([])
    undone = await undo_of(rig, "w")

    assert "no longer kept" in undone.kept["v.md"][0]
    assert undone.paths == ("u.md", "w.md")


async def test_an_undo_of_an_undo_brings_back_what_it_took_to_any_depth(rig: CuratorRig):
    first = {name: rig.text(name) for name in "awvu"}
    latest = (await undo_of(rig, "w")).undo
    second = {name: rig.text(name) for name in "awvu"}
    for turn in range(4):
        undone = await rig.undo.undo(latest)
        assert undone.runs == (latest,)
        texts = {name: rig.text(name) for name in "awvu"}
        assert texts == (second if turn % 2 else first), turn
        marks = [bool(rig.history.run(run_of(rig, name))["undone"]) for name in "wvu"]
        assert marks == [bool(turn % 2)] * 3, turn
        latest = undone.undo
    assert rig.queue.all() == []


async def test_what_is_in_force_again_can_be_undone_itself(rig: CuratorRig):
    undo = await undo_of(rig, "w")
    await rig.undo.undo(undo.undo)

    says = f"{undo.undo} has been undone already; `parachute undo r-"
    with pytest.raises(EditRefusedError, match=says):
        await rig.undo.undo(undo.undo)
    assert (await undo_of(rig, "w")).paths == ("u.md", "v.md", "w.md")


async def test_two_undos_at_once_are_one(rig: CuratorRig):
    run = run_of(rig, "w")
    both = await asyncio.gather(rig.undo.undo(run), rig.undo.undo(run), return_exceptions=True)

    assert sorted(type(one).__name__ for one in both) == ["EditRefusedError", "UndoResult"]
    assert sum(one["agent"] == "undo" for one in rig.history.runs()) == 1


async def test_what_a_run_moved_goes_back_with_what_was_written_there_since(tmp_path: Path):
    rig = CuratorRig(folder=tmp_path)
    rig.begin_with(a=A)
    by = Author(by="maintenance", run="r-1")
    rig.store.replace(VaultPath("a.md"), B.encode(), by)
    rig.store.move(VaultPath("a.md"), VaultPath("New/b.md"), by)
    rig.store.edit(
        VaultPath("New/b.md"),
        AppendToSection(section="Plan", content="- mine", create=True),
        Author(by="key:phone"),
    )
    save(rig.history, document_of("r-1", rig))
    undone = await rig.undo.undo("r-1")

    assert rig.text("a") == A + "\n## Plan\n\n- mine\n"
    assert not (rig.vault / "New/b.md").exists()
    again = await rig.undo.undo(undone.undo)
    assert "- mine" in (rig.vault / "New/b.md").read_text()
    assert "- two" in (rig.vault / "New/b.md").read_text()
    assert not (rig.vault / "a.md").exists()
    assert again.kept == {}


async def test_a_move_whose_old_place_is_taken_stays_and_is_reported(tmp_path: Path):
    rig = CuratorRig(folder=tmp_path)
    rig.begin_with(a=A)
    rig.store.move(VaultPath("a.md"), VaultPath("b.md"), Author(by="maintenance", run="r-1"))
    (rig.vault / "a.md").write_text("another")
    save(rig.history, document_of("r-1", rig))
    undone = await rig.undo.undo("r-1")

    assert undone.kept == {"b.md": ("it cannot go back to a.md, where there is a newer file",)}
    assert (rig.text("a"), rig.text("b")) == ("another", A)


@pytest.mark.parametrize(
    "moves",
    [
        ["person w x", "person x y"],
        ["daemon w x", "person x y", "daemon y New/z"],
        ["daemon w x", "daemon x w"],
    ],
)
async def test_a_note_that_was_moved_since_is_found_where_it_is(rig: CuratorRig, moves: list[str]):
    for move in moves:
        who, source, target = move.split()
        if who == "daemon":
            paths = VaultPath(f"{source}.md"), VaultPath(f"{target}.md")
            rig.store.move(*paths, Author(by="person"))
        else:
            rig.wait(1)
            (rig.vault / f"{source}.md").rename(rig.vault / f"{target}.md")
            seen = (f"{target}.md", "moved", f"{source}.md", None)
            rig.history.saw(rig.now, [seen])
    undone = await undo_of(rig, "w")

    assert rig.text(target) == WAS["w"]
    assert undone.paths == ("u.md", "v.md", f"{target}.md")
    assert undone.kept == {}


async def test_another_note_with_the_name_of_one_that_moved_is_left_alone(rig: CuratorRig):
    written = rig.text("w")
    rig.store.move(VaultPath("w.md"), VaultPath("x.md"), Author(by="person"))
    rig.begin_with(w=written)
    await undo_of(rig, "w")

    assert rig.text("w") == written
    assert rig.text("x") == WAS["w"]


async def test_notes_that_took_each_others_names_are_both_found(rig: CuratorRig):
    for name, now in (("w", "x"), ("v", "w"), ("x", "v")):
        (rig.vault / f"{name}.md").rename(rig.vault / f"{now}.md")
    rig.history.saw(rig.now, [("v.md", "moved", "w.md", None), ("w.md", "moved", "v.md", None)])
    await undo_of(rig, "w")

    assert rig.text("v") == WAS["w"]
    assert rig.text("w") == WAS["v"]


@pytest.mark.parametrize("is_written", [False, True])
@pytest.mark.parametrize("number", [1, 2, 3])
async def test_an_undo_that_was_cut_short_goes_on_at_the_next_start(
    rig: CuratorRig, monkeypatch: pytest.MonkeyPatch, number: int, *, is_written: bool
):
    whole, calls = rig.store.edit, []

    def dies(path: VaultPath, *given: object, **named: object) -> object:
        calls.append(path)
        if len(calls) == number and not is_written:
            raise KeyboardInterrupt
        done = whole(path, *given, **named)
        if len(calls) == number:
            raise KeyboardInterrupt
        return done

    run = run_of(rig, "w")
    find = partial(rig.undo.followed, run)
    with monkeypatch.context() as patch:
        patch.setattr(rig.store, "edit", dies)
        with pytest.raises(KeyboardInterrupt):
            rig.undo._take_back(find, run, None)
    mine = f"{rig.text('w')}Mine.\n"
    rig.begin_with(w=mine)
    rig.reopen()
    rig.aftermath.end_lost_runs()
    await rig.undo.finish_all()

    assert [rig.text(name) for name in "wvu"] == [
        watching("a.md", text=f"{BODY.format('W')}Mine.\n"),
        WAS["v"],
        WAS["u"],
    ]
    undo = rig.history.runs()[0]
    assert (undo["outcome"], len(undo["wrote"])) == ("changed", 3)
    assert [one["undone"]["run"] for one in rig.history.runs()[1:4]] == [undo["id"]] * 3
    assert rig.history.acts() == []
    with pytest.raises(EditRefusedError, match="undone already"):
        await rig.undo.undo(run)


def document_of(run: str, rig: CuratorRig) -> dict[str, object]:
    return run_document(
        run, watcher="a.md", agent="maintenance", started=rig.now, causes=[], outcome="changed"
    )
