"""Restore: a file as it was, with what was written since in its history, and no one woken for
nothing.
"""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from parachuted.errors import ConflictError, EditRefusedError, NotFoundError
from parachuted.history.restore import Restore
from parachuted.testing import ScriptedBackend
from parachuted.vault import Author, VaultPath, digest_of
from tests.bubbling.reconciler_rig import watching
from tests.history.test_undo import BODY, WAS, A, B, edits, run_of
from tests.tools.curator_rig import CuratorRig

NOTE = VaultPath("w.md")


def restore_of(rig: CuratorRig) -> Restore:
    return Restore(rig.store, stood_at=rig.reconciler.stood_at)


async def ran(folder: Path, **more: str) -> tuple[CuratorRig, str, Restore]:
    """w watches a, which changed; its run is over."""
    rig = CuratorRig(folder=folder, backend=ScriptedBackend(edits))
    rig.begin_with(a=A, w=WAS["w"], **more)
    await rig.save("a", B)
    await rig.run("w")
    return rig, run_of(rig, "w"), restore_of(rig)


async def test_a_file_is_as_it_was_before_a_run_and_after_it_again(tmp_path: Path):
    rig, run, restore = await ran(tmp_path)
    after, before = rig.text("w"), WAS["w"]
    count = len(rig.history.runs())
    done = await restore.restore(NOTE, run=run, after=True)
    assert (done.run, done.before) == (None, done.after)  # what is so already is left alone
    assert len(rig.history.runs()) == count

    first = await restore.restore(NOTE, run=run)
    assert rig.text("w") == before
    second = await restore.restore(NOTE, run=run, after=True)
    assert rig.text("w") == after
    newest = sorted([str(first.run), str(second.run)], reverse=True)
    assert [one["id"] for one in rig.history.runs()[:2]] == newest
    assert rig.history.run(str(first.run))["agent"] == "restore"
    assert rig.history.run(run)["undone"] is None

    named = await restore.restore(NOTE, version=digest_of(before.encode())[:12])
    assert rig.text("w") == before
    await rig.undo.undo(str(named.run))
    assert rig.text("w") == after


async def test_a_file_that_was_deleted_comes_back(tmp_path: Path):
    rig, run, restore = await ran(tmp_path)
    after = rig.text("w")
    await rig.save("w", None)
    await restore.restore(NOTE, run=run, after=True)
    assert rig.text("w") == after

    rig.store.delete(VaultPath("a.md"), Author(by="maintenance", run="r-9"))
    done = await restore.restore(VaultPath("a.md"), run="r-9")
    assert rig.text("a") == B
    await rig.undo.undo(str(done.run))
    assert not (rig.vault / "a.md").exists()


async def test_what_was_saved_since_the_caller_looked_is_merged_or_refused(tmp_path: Path):
    rig, run, restore = await ran(tmp_path)
    base = digest_of(rig.text("w").encode())
    await rig.save("w", rig.text("w").replace("- dig", "- water"))
    done = await restore.restore(NOTE, run=run, base=base)
    assert done.merged
    assert rig.text("w") == WAS["w"].replace("- dig", "- water")

    rig.wait(1)
    await rig.save("w", rig.text("w").replace("- old", "- mine"))
    with pytest.raises(ConflictError):
        await restore.restore(NOTE, run=run, base=base)
    assert "- mine" in rig.text("w")
    assert "refused" in rig.history.runs()[0]["reason"]


async def test_who_has_seen_both_texts_is_not_woken_and_who_has_not_is(tmp_path: Path):
    rig, run, restore = await ran(tmp_path, v=watching("w.md", text=BODY.format("V")))
    rig.wait(60)
    await rig.run("v")
    rig.wait(3600)
    await rig.save("u", watching("w.md", text=BODY.format("U")))
    await restore.restore(NOTE, run=run)

    assert rig.waiting() == ["u"]
    assert rig.reconciler.stood_at == {}


async def test_what_is_not_to_be_had_is_refused_in_words(tmp_path: Path):
    rig, run, restore = await ran(tmp_path)
    rig.store.create(VaultPath("new.md"), b"x", Author(by="curator", run=run))
    refusals: list[tuple[dict[str, str], type[Exception], str]] = [
        ({"run": "r-x"}, NotFoundError, "no run or version r-x"),
        ({"version": "f" * 12}, NotFoundError, "no version ffff"),
        ({"version": ""}, EditRefusedError, "several versions"),
    ]
    for given, error, says in refusals:
        with pytest.raises(error, match=says):
            await restore.restore(NOTE, **given)
    with pytest.raises(EditRefusedError, match=r"there was no new.md before"):
        await restore.restore(VaultPath("new.md"), run=run)
    with pytest.raises(NotFoundError, match=r"wrote a\.md"):
        await restore.restore(VaultPath("a.md"), run=run)
    write = rig.history.writes_by(run)[0]
    rig.objects.drop(str(write.before))
    rig.objects.forget_seen([])
    with pytest.raises(NotFoundError, match="no longer kept"):
        await restore.restore(NOTE, run=run)


async def test_a_note_that_has_moved_is_as_it_was_where_it_is(tmp_path: Path):
    rig, run, restore = await ran(tmp_path)
    rig.now += timedelta(seconds=1)
    rig.store.move(NOTE, VaultPath("x.md"), Author(by="key:phone"))
    await restore.restore(VaultPath("x.md"), run=run)

    assert rig.text("x") == WAS["w"]
    assert not (rig.vault / "w.md").exists()


async def test_before_a_run_that_moved_and_rewrote_a_note_is_what_it_came_with(tmp_path: Path):
    rig = CuratorRig(folder=tmp_path)
    rig.begin_with(a=A)
    by = Author(by="maintenance", run="r-1")
    rig.store.move(VaultPath("a.md"), VaultPath("b.md"), by)
    rig.store.replace(VaultPath("b.md"), B.encode(), by)
    await restore_of(rig).restore(VaultPath("b.md"), run="r-1")

    assert rig.text("b") == A
