"""Change detector: which hint leads to which look, and when what was seen counts.

The watcher is moved by hand.
"""

from __future__ import annotations

import errno
import os
import shutil

import pytest

from parachuted.errors import StorageFailedError
from parachuted.events.watcher import ChangeHints
from parachuted.vault import VaultPath


def save(rig, **texts):
    for name, text in texts.items():
        (rig.vault / name.replace("__", ".")).write_text(text)


async def idle(rig, detector):
    await rig.until(lambda: not detector.busy)


async def test_a_known_file_that_was_closed_is_read_at_once(rig):
    save(rig, a__md="a")
    async with rig.detector(new=60, touched=60) as detector:
        save(rig, a__md="b")
        rig.hear(a__md="closed")
        assert detector.busy
        await idle(rig, detector)

        assert rig.reported() == [("modified", "a.md")]


async def test_a_new_file_that_was_closed_waits_for_a_moment(rig):
    async with rig.detector(new=0.05) as detector:
        save(rig, scrap__md="new")
        rig.hear(scrap__md="closed")
        (rig.vault / "scrap.md").rename(rig.vault / "new.md")
        rig.hear(scrap__md="gone", new__md="closed")
        await idle(rig, detector)

        assert rig.reported() == [("created", "new.md")]


async def test_a_new_file_that_was_renamed_into_place_is_read_at_once(rig):
    async with rig.detector(new=60, gone=0.05) as detector:
        save(rig, new__md="whole")
        paths = {".new.md.tmp": "gone", "new.md": "closed"}
        rig.watcher.tell(ChangeHints(paths=paths, old_names={"new.md": ".new.md.tmp"}))
        await idle(rig, detector)

        assert rig.reported() == [("created", "new.md")]


async def test_a_copy_that_an_editor_keeps_while_it_saves_is_not_a_new_file(rig):
    save(rig, a__md="a")
    async with rig.detector(new=0.1, gone=0.1) as detector:
        (rig.vault / "a.md").rename(rig.vault / "a.old.md")
        old = {"a.old.md": "a.md"}
        rig.watcher.tell(ChangeHints(paths={"a.md": "gone", "a.old.md": "closed"}, old_names=old))
        assert not detector._next
        save(rig, a__md="another text")
        (rig.vault / "a.old.md").unlink()
        rig.watcher.tell(ChangeHints(paths={"a.md": "closed", "a.old.md": "gone"}))
        await idle(rig, detector)

        assert rig.reported() == [("modified", "a.md")]


async def test_a_file_that_was_renamed_twice_moved_once(rig):
    save(rig, a__md="a", other__md="other")
    async with rig.detector(gone=60, new=60):
        (rig.vault / "a.md").rename(rig.vault / "b.md")
        paths = {"a.md": "gone", ".passing": "closed", "b.md": "closed"}
        names = {".passing": "a.md", "b.md": ".passing"}
        rig.watcher.tell(ChangeHints(paths=paths, old_names=names))
        await rig.until(rig.reported)

        assert rig.moves() == [("a.md", "b.md")]


async def test_a_file_without_hints_is_found_by_a_walk(rig):
    async with rig.detector() as detector:
        save(rig, a__md="a")
        rig.hear(missed=True)
        await rig.until(rig.reported)

        assert rig.reported() == [("created", "a.md")]
        await idle(rig, detector)


async def test_a_hint_that_comes_during_a_look_is_not_lost(rig):
    save(rig, a__md="a")
    async with rig.detector() as detector:

        def once_more():
            save(rig, a__md="third text", b__md="new")
            rig.hear(a__md="closed", b__md="closed")

        save(rig, a__md="second")
        rig.watcher.at_poll.append(once_more)
        rig.hear(a__md="closed", b__md="closed")
        await idle(rig, detector)

        assert rig.index.get("a.md").size == len("third text")
        assert ("created", "b.md") in rig.reported()


async def test_what_is_being_written_again_while_it_is_read_is_not_taken_yet(rig):
    save(rig, a__md="a")
    async with rig.detector(open=0.2) as detector:
        save(rig, a__md="half")
        rig.watcher.at_poll.append(lambda: rig.hear(a__md="open"))
        rig.hear(a__md="closed")
        await rig.until(lambda: not rig.watcher.at_poll)
        assert rig.reported() == []
        save(rig, a__md="half and half")
        rig.hear(a__md="closed")
        await idle(rig, detector)

        assert rig.reported() == [("modified", "a.md")]
        assert rig.index.get("a.md").size == len("half and half")


async def test_a_file_that_was_emptied_is_given_a_moment_to_be_written(rig):
    save(rig, a__md="a", b__md="b")
    async with rig.detector() as detector:
        save(rig, a__md="", b__md="")
        rig.hear(a__md="closed", b__md="closed")
        await rig.until(lambda: detector._debouncer)
        save(rig, a__md="written")
        rig.hear(a__md="closed")
        await idle(rig, detector)

        assert sorted(rig.reported()) == [("modified", "a.md"), ("modified", "b.md")]
        assert (rig.index.get("a.md").size, rig.index.get("b.md").size) == (7, 0)


async def test_our_own_writes_are_taken_as_they_are(rig):
    save(rig, a__md="a")
    async with rig.detector() as detector:
        save(rig, a__md="")
        (rig.vault / "new.md").write_text("new")
        await detector.notice(["a.md", "new.md"])

        assert sorted(rig.reported()) == [("created", "new.md"), ("modified", "a.md")]
        assert not detector.busy


async def test_a_missing_file_is_gone_after_a_second_look_unless_it_is_back(rig):
    save(rig, a__md="a")
    async with rig.detector(gone=0.1) as detector:
        (rig.vault / "a.md").rename(rig.vault / "a.bak")
        rig.hear(a__md="gone")
        (rig.vault / "a.bak").rename(rig.vault / "a.md")
        await idle(rig, detector)
        assert (rig.reported(), detector._debouncer.missing) == ([], ())

        (rig.vault / "a.md").unlink()
        rig.hear(missed=True)
        await rig.until(lambda: detector._debouncer)
        assert rig.reported() == []
        await idle(rig, detector)
        assert rig.reported() == [("deleted", "a.md")]


async def test_a_file_that_is_found_under_another_name_moved_there(rig):
    save(rig, a__md="a", other__md="other")
    async with rig.detector(gone=0.1, new=0.02) as detector:
        (rig.vault / "a.md").rename(rig.vault / "b.md")
        rig.hear(a__md="gone", b__md="closed")
        await idle(rig, detector)

        assert rig.moves() == [("a.md", "b.md")]
        assert sorted(rig.index.paths()) == ["b.md", "other.md"]


@pytest.mark.parametrize("hint", ["closed", "open", "touched"])
async def test_a_new_file_in_the_place_of_one_that_moved_is_found(rig, hint):
    save(rig, a__md="a")
    async with rig.detector(gone=0.1, new=0.02, open=0.1, touched=0.1) as detector:

        def at_the_old_name():
            save(rig, a__md="another note")
            rig.hear(a__md=hint)

        (rig.vault / "a.md").rename(rig.vault / "b.md")
        rig.watcher.at_poll.append(at_the_old_name)
        rig.hear(a__md="gone", b__md="closed")
        await idle(rig, detector)

        assert sorted(rig.index.paths()) == ["a.md", "b.md"]


async def test_a_file_that_went_waits_for_new_ones_that_it_may_have_become(rig):
    save(rig, a__md="a", other__md="other")
    async with rig.detector(gone=0.02, touched=0.2) as detector:
        save(rig, a__md="just saved, so unsettled where no hint says that it is finished")
        (rig.vault / "a.md").rename(rig.vault / "b.md")
        rig.hear(a__md="gone", missed=True)
        await idle(rig, detector)

        assert rig.moves() == [("a.md", "b.md")]


async def test_what_is_settled_leaves_nothing_behind(rig):
    save(rig, a__md="a")
    async with rig.detector(gone=0.02, new=0.02, open=0.02, touched=0.02) as detector:
        save(rig, a__md="b", b__md="b", c__md="c")
        rig.hear(a__md="closed", b__md="closed", c__md="open", d__md="gone", e__md="touched")
        await idle(rig, detector)
        (rig.vault / "a.md").unlink()
        rig.hear(a__md="gone")
        await idle(rig, detector)

        held = detector._debouncer
        assert not any((held._due, held._since, held._closed, held._written))
        assert set(held.missing) <= {"d.md"}


async def test_a_folder_is_forgotten_once_its_files_are(rig):
    for name in ("one", "two"):
        (rig.vault / name / "deep").mkdir(parents=True)
        (rig.vault / name / "deep/note.md").write_text(name)
    async with rig.detector(gone=0.05) as detector:
        shutil.rmtree(rig.vault / "one")
        rig.hear("one", "one/deep")
        await idle(rig, detector)

        assert rig.reported() == [("deleted", "one/deep/note.md")]
        assert rig.index.all_folders() == ["", "two", "two/deep"]
        assert set(rig.watcher.left) == {"one", "one/deep"}


async def test_a_folder_that_is_back_is_not_forgotten(rig):
    (rig.vault / "one").mkdir()
    (rig.vault / "one/note.md").write_text("one")
    save(rig, other__md="other")
    async with rig.detector(gone=0.05) as detector:
        shutil.rmtree(rig.vault / "one")
        rig.hear("one")
        await rig.until(lambda: rig.watcher.left)
        (rig.vault / "one").mkdir()
        rig.hear("one")
        await idle(rig, detector)

        assert rig.reported() == [("deleted", "one/note.md")]
        assert rig.index.all_folders() == ["", "one"]


async def test_where_no_more_is_known_than_the_path_a_folder_is_walked(rig):
    (rig.vault / "one").mkdir()
    (rig.vault / "one/note.md").write_text("one")
    save(rig, other__md="other")
    async with rig.detector(gone=0.05, touched=0.05) as detector:
        shutil.rmtree(rig.vault / "one")
        save(rig, other__md="changed")
        rig.hear(one="touched", other__md="touched")
        await idle(rig, detector)

        assert sorted(rig.reported()) == [("deleted", "one/note.md"), ("modified", "other.md")]


async def test_what_editors_do_on_the_way_wakes_no_one(rig):
    async with rig.detector() as detector:
        scrap = {".note.md.swp": "open", "deep/.tmp": "closed", "deep/.note.md": "gone"}
        rig.watcher.tell(ChangeHints(paths=scrap))

        assert not detector.busy


async def test_a_folder_that_cannot_be_watched_means_walking_until_it_can(rig):
    async with rig.detector() as detector:
        rig.watcher.refusal = OSError(errno.ENOSPC, "no space left on device")
        (rig.vault / "new").mkdir()
        rig.hear("new")
        await rig.until(lambda: detector.polling)
        assert "max_user_watches" in rig.problems.open["watching"]
        save(rig, a__md="nobody tells")
        await rig.until(rig.reported)
        rig.watcher.refusal = None
        await rig.until(lambda: not detector.polling)

        assert rig.problems.open == {}


async def test_a_folder_that_may_not_be_watched_is_a_problem_of_that_folder(rig):
    (rig.vault / "closed").mkdir()
    rig.watcher.refusal = OSError(errno.ENOSPC, "no space left on device")
    async with rig.detector() as detector:
        rig.watcher.refusal = None
        enter = rig.watcher.enter

        def refuse(folder):
            if folder == "closed":
                raise PermissionError(errno.EACCES, "permission denied")
            enter(folder)

        rig.watcher.enter = refuse
        await detector.rescan()

        assert list(rig.problems.open) == ["file:closed"]


async def test_what_cannot_be_recorded_is_found_again(rig):
    save(rig, a__md="a")
    async with rig.detector() as detector:
        rig.refusal = StorageFailedError("the disk is full")
        save(rig, a__md="b")
        os.utime(rig.vault / "a.md", (1, 1))
        rig.hear(a__md="closed")
        await rig.until(lambda: "vault" in rig.problems.open)
        assert "the disk is full" in rig.problems.open["vault"]
        with pytest.raises(StorageFailedError):
            await detector.rescan()
        await detector.notice(["a.md"])
        rig.refusal = None
        await rig.until(lambda: not rig.problems.open)

        assert rig.reported() == [("modified", "a.md")]


async def test_a_vault_that_is_not_there_is_a_problem_until_it_is_back(rig):
    save(rig, a__md="a")
    async with rig.detector(heartbeat=600.0) as detector:
        rig.vault.rename(rig.vault.with_name("away"))
        rig.hear(a__md="closed", b__md="gone", missed=True)
        await rig.until(lambda: "vault" in rig.problems.open)
        with pytest.raises(StorageFailedError):
            await detector.rescan()
        await detector.notice(["a.md"])
        rig.vault.with_name("away").rename(rig.vault)
        rig.hear(missed=True)
        await rig.until(lambda: not rig.problems.open)

        assert rig.reported() == []


@pytest.mark.parametrize("is_exchanged", [False, True])
async def test_a_vault_that_is_lost_is_not_asked_for_again_and_again(rig, is_exchanged):
    save(rig, a__md="a", b__md="b")
    async with rig.detector(gone=0.02) as detector:
        looks = []
        look = rig.disk_scan.look
        rig.disk_scan.look = lambda *given: looks.append(given) or look(*given)
        rig.vault.rename(rig.vault.with_name("away"))
        if is_exchanged:
            rig.vault.mkdir()
        await rig.until(lambda: rig.problems.open)
        started, before = detector._loop.time(), len(looks)
        await rig.until(lambda: len(looks) >= before + 6)
        assert detector._loop.time() - started > 0.15, "it looks without a pause"
        rig.hear(a__md="closed")
        await rig.until(lambda: not detector.busy)

        assert rig.reported() == []
        assert list(rig.problems.open) == ["missing" if is_exchanged else "vault"]


@pytest.mark.parametrize(
    ("count", "left", "believed"), [(19, 1, True), (20, 20, True), (20, 19, False), (1, 0, True)]
)
async def test_most_of_many_files_gone_at_once_are_not_believed(rig, count, left, believed):
    for number in range(count + left):
        (rig.vault / f"{number}.md").write_text(str(number))
    async with rig.detector(gone=0.03) as detector:
        for number in range(count):
            (rig.vault / f"{number}.md").unlink()
        rig.hear(missed=True)
        await rig.until(lambda: rig.reported() or rig.problems.open)
        await idle(rig, detector)

        assert len(rig.reported()) == (count if believed else 0)
        assert ("missing" in rig.problems.open) is not believed
        if not believed:
            await detector.rescan(accept_missing=True)
            assert len(rig.reported()) == count
            assert rig.problems.open == {}


async def test_the_problem_of_missing_files_stays_while_it_lasts(rig):
    said = []
    rig.bus.subscribe(lambda event: said.append(event.data["problem"]))
    for number in range(40):
        (rig.vault / f"{number}.md").write_text(str(number))
    async with rig.detector(gone=0.03) as detector:
        (rig.vault / "kept").mkdir()
        for number in range(30):
            (rig.vault / f"{number}.md").rename(rig.vault.parent / f"{number}.md")
        rig.hear(missed=True)
        await rig.until(lambda: rig.problems.open)
        save(rig, new__md="new")
        rig.hear(new__md="closed")
        await rig.until(rig.reported)
        await detector.rescan()
        for number in range(30):
            (rig.vault.parent / f"{number}.md").rename(rig.vault / f"{number}.md")
        await rig.until(lambda: not rig.problems.open)
        await idle(rig, detector)

        assert rig.reported() == [("created", "new.md")]
        assert [problem is None for problem in said][-1]
        assert None not in said[:-1]


async def test_a_deletion_by_us_is_believed_at_once(rig):
    save(rig, a__md="a", b__md="b")
    async with rig.detector() as detector:
        (rig.vault / "a.md").unlink()
        await detector.notice([VaultPath("a.md")])

        assert rig.reported() == [("deleted", "a.md")]


async def test_an_index_that_was_written_down_is_the_next_ones_beginning(rig):
    save(rig, a__md="a")
    async with rig.detector() as detector:
        await detector.save()
        save(rig, a__md="b", c__md="c")
        rig.hear(a__md="closed", c__md="closed")
        await rig.until(lambda: len(rig.reported()) == 2)
        await idle(rig, detector)
        loaded = rig.snapshot.load()

        assert {path: loaded.get(path) for path in loaded.paths()} == {
            path: rig.index.get(path) for path in rig.index.paths()
        }


async def test_what_a_walk_that_was_asked_for_leaves_unsettled_is_looked_at_soon(rig):
    async with rig.detector(heartbeat=600.0) as detector:
        save(rig, a__md="a")
        await detector.rescan()
        assert rig.reported() == []
        await idle(rig, detector)

        assert rig.reported() == [("created", "a.md")]


async def test_an_index_that_cannot_be_written_down_is_a_problem_until_it_can(rig):
    save(rig, a__md="a")
    async with rig.detector() as detector:
        in_the_way = rig.home / "snapshot.tmp"
        in_the_way.mkdir()
        await detector.save()
        assert "index" in rig.problems.open
        in_the_way.rmdir()
        await rig.until(lambda: not rig.problems.open)

        assert list(rig.snapshot.load().paths()) == ["a.md"]


async def test_what_could_not_be_remembered_is_written_down_later(rig):
    save(rig, a__md="a")
    async with rig.detector() as detector:
        await detector.save()
        in_the_way = rig.home / "snapshot.log"
        in_the_way.mkdir()
        save(rig, b__md="b")
        rig.hear(b__md="closed")
        await rig.until(lambda: "vault" in rig.problems.open)
        in_the_way.rmdir()
        await rig.until(lambda: not rig.problems.open)

        assert sorted(rig.snapshot.load().paths()) == ["a.md", "b.md"]
        assert rig.reported() == [("created", "b.md")]
