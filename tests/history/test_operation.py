"""An act: what a person has done to files in one go is a run of its own."""

from __future__ import annotations

from pathlib import Path

from parachuted.history.run_account import in_force, net_of, new_act
from parachuted.vault import UNDO, Author, VaultPath
from tests.tools.conftest import ToolsRig

NOTE = VaultPath("note.md")


def test_an_act_is_started_before_it_is_done_and_tells_what_came_of_it(tmp_path: Path):
    tools_rig = ToolsRig(folder=tmp_path)
    tools_rig.save("note.md", "a\n")
    act = new_act(
        UNDO, tools_rig.now, watcher="note.md", reason="took back r-1", takes_back=["r-1"]
    )
    act.begin(tools_rig.history)
    assert [one["id"] for one in tools_rig.history.unended()] == [act.run]
    tools_rig.store.replace(NOTE, b"b\n", act.author)
    document = act.end(tools_rig.history, tools_rig.objects, tools_rig.now, "took back r-1")

    assert tools_rig.history.unended() == []
    assert tools_rig.history.run(act.run) == document
    assert (document["outcome"], document["causes"], document["takes_back"]) == (
        "changed",
        [],
        ["r-1"],
    )
    assert [(one["path"], "-a\n+b\n" in one["diff"]) for one in document["wrote"]] == [
        ("note.md", True)
    ]
    tools_rig.close()


def test_an_act_that_changed_nothing_says_so_and_one_that_carries_is_a_cause(tmp_path: Path):
    tools_rig = ToolsRig(folder=tmp_path)
    act = new_act(UNDO, tools_rig.now, watcher="note.md", reason="nothing", carries=True)
    assert (
        act.end(tools_rig.history, tools_rig.objects, tools_rig.now, "nothing")["outcome"]
        == "unchanged"
    )
    assert act.author == Author(by=UNDO, run=act.run, causes=act.causes)
    assert (
        [cause["id"] for cause in tools_rig.history.run(act.run)["causes"]]
        == list(act.causes)
        != []
    )
    tools_rig.close()


def test_what_writes_come_to_leaves_out_what_came_back(tmp_path: Path):
    tools_rig = ToolsRig(folder=tmp_path)
    tools_rig.save("note.md", "a\n")
    tools_rig.save("other.md", "a\n")
    by = Author(by="curator", run="r1")
    for path, texts in (("note.md", "bcd"), ("other.md", "ba")):
        for text in texts:
            tools_rig.store.replace(VaultPath(path), f"{text}\n".encode(), by)
    (wrote,) = net_of(tools_rig.history.writes_by("r1"), tools_rig.objects)

    assert wrote["path"] == "note.md"
    assert "-a\n+d\n" in wrote["diff"]
    tools_rig.close()


def test_what_an_undo_took_back_is_in_force_again_when_it_is_undone_however_deep(tmp_path: Path):
    tools_rig = ToolsRig(folder=tmp_path)
    run = new_act("curator", tools_rig.now, watcher="a.md", reason="")
    undo = new_act(UNDO, tools_rig.now, watcher="a.md", reason="", takes_back=[run.run])
    redo = new_act(UNDO, tools_rig.now, watcher="a.md", reason="", takes_back=[undo.run])
    for act in (run, undo, redo):
        act.end(tools_rig.history, tools_rig.objects, tools_rig.now, "")

    def undone() -> list[bool]:
        return [bool(tools_rig.history.run(act.run)["undone"]) for act in (run, undo, redo)]

    def mark(act, mark):
        in_force(tools_rig.history, tools_rig.history.run(act.run), mark)
        return undone()

    by = {"at": "now", "with": "x", "run": "x"}
    assert mark(run, by) == [True, False, False]
    assert mark(undo, by) == [False, True, False]
    assert mark(redo, by) == [True, False, True]
    assert mark(redo, None) == [False, True, False]
    tools_rig.close()
