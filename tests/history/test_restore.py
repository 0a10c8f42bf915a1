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
from tests.history.test_undo import BODY, A, B, edits, run_of
from tests.tools.curator_rig import CuratorRig

NOTE = VaultPath("w.md")


def restore_of(curator_rig: CuratorRig) -> Restore:
    return Restore(curator_rig.store, stood_at=curator_rig.reconciler.stood_at)


async def ran(folder: Path, **more: str) -> tuple[CuratorRig, str, Restore]:
    """w watches a, which changed; its run is over."""
    curator_rig = CuratorRig(folder=folder, backend=ScriptedBackend(edits))
    curator_rig.begin_with(a=A, w=watching("a.md", text=BODY.format("W")), **more)
    await curator_rig.save("a", B)
    await curator_rig.run("w")
    return curator_rig, run_of(curator_rig, "w"), restore_of(curator_rig)


async def test_a_file_is_as_it_was_before_a_run_and_after_it_again(tmp_path: Path):
    curator_rig, run, restore = await ran(tmp_path)
    after, before = curator_rig.text("w"), watching("a.md", text=BODY.format("W"))
    first = await restore.restore(NOTE, run=run)
    assert curator_rig.text("w") == before
    second = await restore.restore(NOTE, run=run, after=True)
    assert curator_rig.text("w") == after

    assert [one["id"] for one in curator_rig.history.runs()[:2]] == sorted(
        [str(first.run), str(second.run)], reverse=True
    )
    assert curator_rig.history.run(str(first.run))["agent"] == "restore"
    assert curator_rig.history.run(run)["undone"] is None


async def test_a_version_is_named_by_the_beginning_of_its_digest(tmp_path: Path):
    curator_rig, _run, restore = await ran(tmp_path)
    text = watching("a.md", text=BODY.format("W"))
    await restore.restore(NOTE, version=digest_of(text.encode())[:12])

    assert curator_rig.text("w") == text


async def test_a_restore_is_taken_back_by_an_undo(tmp_path: Path):
    curator_rig, run, restore = await ran(tmp_path)
    after = curator_rig.text("w")
    done = await restore.restore(NOTE, run=run)
    await curator_rig.undo.undo(str(done.run))

    assert curator_rig.text("w") == after


async def test_a_file_that_was_deleted_comes_back(tmp_path: Path):
    curator_rig, run, restore = await ran(tmp_path)
    after = curator_rig.text("w")
    await curator_rig.save("w", None)
    await restore.restore(NOTE, run=run, after=True)
    assert curator_rig.text("w") == after

    curator_rig.store.delete(VaultPath("a.md"), Author(by="maintenance", run="r-9"))
    done = await restore.restore(VaultPath("a.md"), run="r-9")
    assert curator_rig.text("a") == B
    await curator_rig.undo.undo(str(done.run))
    assert not (curator_rig.vault / "a.md").exists()


async def test_what_is_so_already_is_left_alone(tmp_path: Path):
    curator_rig, run, restore = await ran(tmp_path)
    count = len(curator_rig.history.runs())
    done = await restore.restore(NOTE, run=run, after=True)

    assert (done.run, done.before) == (None, done.after)
    assert len(curator_rig.history.runs()) == count


async def test_what_was_saved_since_the_caller_looked_is_brought_together_or_refused(
    tmp_path: Path,
):
    curator_rig, run, restore = await ran(tmp_path)
    base = digest_of(curator_rig.text("w").encode())
    await curator_rig.save("w", curator_rig.text("w").replace("- dig", "- water"))
    done = await restore.restore(NOTE, run=run, base=base)
    assert done.merged
    assert curator_rig.text("w") == watching(
        "a.md", text=BODY.format("W").replace("- dig", "- water")
    )

    curator_rig.wait(1)
    await curator_rig.save("w", curator_rig.text("w").replace("- old", "- mine"))
    with pytest.raises(ConflictError):
        await restore.restore(NOTE, run=run, base=base)
    assert "- mine" in curator_rig.text("w")
    assert "refused" in curator_rig.history.runs()[0]["reason"]


async def test_who_has_seen_both_texts_is_not_woken_and_who_has_not_is(tmp_path: Path):
    curator_rig, run, restore = await ran(tmp_path, v=watching("w.md", text=BODY.format("V")))
    curator_rig.wait(60)
    await curator_rig.run("v")
    curator_rig.wait(3600)
    await curator_rig.save("u", watching("w.md", text=BODY.format("U")))
    await restore.restore(NOTE, run=run)

    assert curator_rig.waiting() == ["u"]
    assert curator_rig.reconciler.stood_at == {}


async def test_what_is_not_to_be_had_is_refused_in_words(tmp_path: Path):
    curator_rig, run, restore = await ran(tmp_path)
    curator_rig.store.create(VaultPath("new.md"), b"x", Author(by="curator", run=run))
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
    write = curator_rig.history.writes_by(run)[0]
    curator_rig.objects.drop(str(write.before))
    curator_rig.objects.forget_seen([])
    with pytest.raises(NotFoundError, match="no longer kept"):
        await restore.restore(NOTE, run=run)


async def test_a_note_that_has_moved_is_as_it_was_where_it_is(tmp_path: Path):
    curator_rig, run, restore = await ran(tmp_path)
    curator_rig.now += timedelta(seconds=1)
    curator_rig.store.move(NOTE, VaultPath("x.md"), Author(by="key:phone"))
    await restore.restore(VaultPath("x.md"), run=run)

    assert curator_rig.text("x") == watching("a.md", text=BODY.format("W"))
    assert not (curator_rig.vault / "w.md").exists()


async def test_before_a_run_that_moved_and_rewrote_a_note_is_the_text_it_came_with(tmp_path: Path):
    curator_rig = CuratorRig(folder=tmp_path)
    curator_rig.begin_with(a=A)
    by = Author(by="maintenance", run="r-1")
    curator_rig.store.move(VaultPath("a.md"), VaultPath("b.md"), by)
    curator_rig.store.replace(VaultPath("b.md"), B.encode(), by)
    await restore_of(curator_rig).restore(VaultPath("b.md"), run="r-1")

    assert curator_rig.text("b") == A
