"""Change detector: which hint leads to which look, and when what was seen counts.

The watcher is moved by hand.
"""

from __future__ import annotations

import errno
import os
import shutil

import pytest

from parachuted.errors import StorageFailedError
from parachuted.events import ChangeHints
from parachuted.vault import VaultPath


def save(room, **texts):
    for name, text in texts.items():
        (room.vault / name.replace("__", ".")).write_text(text)


async def idle(room, detector):
    await room.until(lambda: not detector.busy)


async def test_the_first_scan_watches_each_folder_and_tells_what_is_new(room):
    (room.vault / "deep/er").mkdir(parents=True)
    save(room, a__md="a")
    async with room.detector():
        assert set(room.watcher.entered) == {"", "deep", "deep/er"}
        assert list(room.index.paths()) == ["a.md"]


async def test_a_known_file_that_was_closed_is_read_at_once(room):
    save(room, a__md="a")
    async with room.detector(new=60, touched=60) as detector:
        save(room, a__md="b")
        room.hear(a__md="closed")
        assert detector.busy
        await idle(room, detector)

        assert room.told() == [("modified", "a.md")]


async def test_a_new_file_that_was_closed_waits_for_a_moment(room):
    async with room.detector(new=0.05) as detector:
        save(room, scrap__md="new")
        room.hear(scrap__md="closed")
        (room.vault / "scrap.md").rename(room.vault / "new.md")
        room.hear(scrap__md="gone", new__md="closed")
        await idle(room, detector)

        assert room.told() == [("created", "new.md")]


async def test_a_file_without_hints_is_found_by_a_walk(room):
    async with room.detector() as detector:
        save(room, a__md="a")
        room.hear(missed=True)
        await room.until(room.told)

        assert room.told() == [("created", "a.md")]
        await idle(room, detector)


async def test_a_hint_that_comes_during_a_look_is_not_lost(room):
    save(room, a__md="a")
    async with room.detector() as detector:

        def once_more():
            save(room, a__md="third text", b__md="new")
            room.hear(a__md="closed", b__md="closed")

        save(room, a__md="second")
        room.watcher.at_poll.append(once_more)
        room.hear(a__md="closed", b__md="closed")
        await idle(room, detector)

        assert room.index.get("a.md").size == len("third text")
        assert ("created", "b.md") in room.told()


async def test_what_is_being_written_again_while_it_is_read_is_not_taken_yet(room):
    save(room, a__md="a")
    async with room.detector(open=0.2) as detector:
        save(room, a__md="half")
        room.watcher.at_poll.append(lambda: room.hear(a__md="open"))
        room.hear(a__md="closed")
        await room.until(lambda: not room.watcher.at_poll)
        assert room.told() == []
        save(room, a__md="half and half")
        room.hear(a__md="closed")
        await idle(room, detector)

        assert room.told() == [("modified", "a.md")]
        assert room.index.get("a.md").size == len("half and half")


async def test_what_is_opened_again_before_it_was_read_is_not_read(room):
    save(room, a__md="a", other__md="other")
    async with room.detector(open=0.5) as detector:
        save(room, a__md="half", other__md="whole")
        room.hear(a__md="closed")
        room.hear(a__md="open", other__md="closed")
        await room.until(room.told)
        assert room.told() == [("modified", "other.md")]
        save(room, a__md="half and half")
        room.hear(a__md="closed")
        await idle(room, detector)

        assert room.told() == [("modified", "other.md"), ("modified", "a.md")]


async def test_a_file_that_was_emptied_is_given_a_moment_to_be_written(room):
    save(room, a__md="a", b__md="b")
    async with room.detector() as detector:
        save(room, a__md="", b__md="")
        room.hear(a__md="closed", b__md="closed")
        await room.until(lambda: detector._debouncer)
        save(room, a__md="written")
        room.hear(a__md="closed")
        await idle(room, detector)

        assert sorted(room.told()) == [("modified", "a.md"), ("modified", "b.md")]
        assert (room.index.get("a.md").size, room.index.get("b.md").size) == (7, 0)


async def test_our_own_writes_are_taken_as_they_are(room):
    save(room, a__md="a")
    async with room.detector() as detector:
        save(room, a__md="")
        (room.vault / "new.md").write_text("new")
        await detector.notice(["a.md", "new.md"])

        assert sorted(room.told()) == [("created", "new.md"), ("modified", "a.md")]
        assert not detector.busy


async def test_a_missing_file_is_gone_after_a_second_look(room):
    save(room, a__md="a")
    async with room.detector(gone=0.1) as detector:
        (room.vault / "a.md").unlink()
        room.hear(missed=True)
        await room.until(lambda: detector._debouncer)
        assert room.told() == []
        await idle(room, detector)

        assert room.told() == [("deleted", "a.md")]


async def test_a_missing_file_that_is_back_was_never_gone(room):
    save(room, a__md="a")
    async with room.detector(gone=0.1) as detector:
        (room.vault / "a.md").rename(room.vault / "a.bak")
        room.hear(a__md="gone")
        (room.vault / "a.bak").rename(room.vault / "a.md")
        await idle(room, detector)

        assert room.told() == []
        assert detector._debouncer.missing == ()


async def test_a_file_that_is_found_under_another_name_moved_there(room):
    save(room, a__md="a", other__md="other")
    async with room.detector(gone=0.1, new=0.02) as detector:
        (room.vault / "a.md").rename(room.vault / "b.md")
        room.hear(a__md="gone", b__md="closed")
        await idle(room, detector)

        assert [(change.kind, change.source, change.path) for change in room.changes] == [
            ("moved", "a.md", "b.md")
        ]
        assert sorted(room.index.paths()) == ["b.md", "other.md"]


@pytest.mark.parametrize("hint", ["closed", "open", "touched"])
async def test_a_new_file_in_the_place_of_one_that_moved_is_found_though_it_was_saved_during_the_look(  # noqa: E501
    room, hint
):
    save(room, a__md="a")
    async with room.detector(gone=0.1, new=0.02, open=0.1, touched=0.1) as detector:

        def at_the_old_name():
            save(room, a__md="another note")
            room.hear(a__md=hint)

        (room.vault / "a.md").rename(room.vault / "b.md")
        room.watcher.at_poll.append(at_the_old_name)
        room.hear(a__md="gone", b__md="closed")
        await idle(room, detector)

        assert sorted(room.index.paths()) == ["a.md", "b.md"]


async def test_a_file_that_went_waits_for_new_ones_that_it_may_have_become(room):
    save(room, a__md="a", other__md="other")
    async with room.detector(gone=0.02, touched=0.2) as detector:
        save(room, a__md="just saved, so unsettled where no hint says that it is finished")
        (room.vault / "a.md").rename(room.vault / "b.md")
        room.hear(a__md="gone", missed=True)
        await idle(room, detector)

        assert [(change.kind, change.source, change.path) for change in room.changes] == [
            ("moved", "a.md", "b.md")
        ]


async def test_what_is_settled_leaves_nothing_behind(room):
    save(room, a__md="a")
    async with room.detector(gone=0.02, new=0.02, open=0.02, touched=0.02) as detector:
        save(room, a__md="b", b__md="b", c__md="c")
        room.hear(a__md="closed", b__md="closed", c__md="open", d__md="gone", e__md="touched")
        await idle(room, detector)
        (room.vault / "a.md").unlink()
        room.hear(a__md="gone")
        await idle(room, detector)

        held = detector._debouncer
        assert not any((held._due, held._since, held._closed, held._written))
        assert set(held.missing) <= {"d.md"}


async def test_a_folder_is_forgotten_once_its_files_are(room):
    for name in ("one", "two"):
        (room.vault / name / "deep").mkdir(parents=True)
        (room.vault / name / "deep/note.md").write_text(name)
    async with room.detector(gone=0.05) as detector:
        shutil.rmtree(room.vault / "one")
        room.hear("one", "one/deep")
        await idle(room, detector)

        assert room.told() == [("deleted", "one/deep/note.md")]
        assert room.index.all_folders() == ["", "two", "two/deep"]
        assert set(room.watcher.left) == {"one", "one/deep"}


async def test_a_folder_that_is_back_is_not_forgotten(room):
    (room.vault / "one").mkdir()
    (room.vault / "one/note.md").write_text("one")
    save(room, other__md="other")
    async with room.detector(gone=0.05) as detector:
        shutil.rmtree(room.vault / "one")
        room.hear("one")
        await room.until(lambda: room.watcher.left)
        (room.vault / "one").mkdir()
        room.hear("one")
        await idle(room, detector)

        assert room.told() == [("deleted", "one/note.md")]
        assert room.index.all_folders() == ["", "one"]


async def test_where_no_more_is_known_than_the_path_a_folder_is_walked(room):
    (room.vault / "one").mkdir()
    (room.vault / "one/note.md").write_text("one")
    save(room, other__md="other")
    async with room.detector(gone=0.05, touched=0.05) as detector:
        shutil.rmtree(room.vault / "one")
        save(room, other__md="changed")
        room.hear(one="touched", other__md="touched")
        await idle(room, detector)

        assert sorted(room.told()) == [("deleted", "one/note.md"), ("modified", "other.md")]


async def test_what_editors_do_on_the_way_wakes_nobody(room):
    async with room.detector() as detector:
        room.watcher.tell(
            ChangeHints(
                paths={".note.md.swp": "open", "deep/.tmp": "closed", "deep/.note.md": "gone"}
            )
        )

        assert not detector.busy


async def test_a_folder_that_cannot_be_watched_means_walking_until_it_can(room):
    async with room.detector() as detector:
        room.watcher.refusal = OSError(errno.ENOSPC, "no space left on device")
        (room.vault / "new").mkdir()
        room.hear("new")
        await room.until(lambda: detector.polling)
        assert "max_user_watches" in room.problems.all()["watching"]
        save(room, a__md="nobody tells")
        await room.until(room.told)
        room.watcher.refusal = None
        await room.until(lambda: not detector.polling)

        assert room.problems.all() == {}


async def test_a_folder_that_may_not_be_watched_is_a_problem_of_that_folder(room):
    (room.vault / "closed").mkdir()
    room.watcher.refusal = OSError(errno.ENOSPC, "no space left on device")
    async with room.detector() as detector:
        room.watcher.refusal = None
        enter = room.watcher.enter

        def refuse(folder):
            if folder == "closed":
                raise PermissionError(errno.EACCES, "permission denied")
            enter(folder)

        room.watcher.enter = refuse
        await detector.rescan()

        assert list(room.problems.all()) == ["file:closed"]


async def test_what_cannot_be_recorded_is_found_again(room):
    save(room, a__md="a")
    async with room.detector() as detector:
        room.refusal = StorageFailedError("the disk is full")
        save(room, a__md="b")
        os.utime(room.vault / "a.md", (1, 1))
        room.hear(a__md="closed")
        await room.until(lambda: "vault" in room.problems.all())
        assert "the disk is full" in room.problems.all()["vault"]
        with pytest.raises(StorageFailedError):
            await detector.rescan()
        await detector.notice(["a.md"])
        room.refusal = None
        await room.until(lambda: not room.problems.all())

        assert room.told() == [("modified", "a.md")]


async def test_a_vault_that_is_not_there_is_a_problem_and_nothing_else(room):
    save(room, a__md="a")
    async with room.detector() as detector:
        room.vault.rename(room.vault.with_name("away"))
        room.hear(a__md="closed", b__md="gone")
        await room.until(lambda: "vault" in room.problems.all())
        with pytest.raises(StorageFailedError):
            await detector.rescan()
        await detector.notice(["a.md"])
        room.vault.with_name("away").rename(room.vault)
        await room.until(lambda: not room.problems.all())

        assert room.told() == []


async def test_a_vault_that_is_heard_to_be_back_is_looked_at_without_waiting(room):
    save(room, a__md="a")
    async with room.detector(heartbeat=600.0):
        room.vault.rename(room.vault.with_name("away"))
        room.hear(missed=True)
        await room.until(lambda: "vault" in room.problems.all())
        room.vault.with_name("away").rename(room.vault)
        room.hear(missed=True)
        await room.until(lambda: not room.problems.all())

        assert room.told() == []


@pytest.mark.parametrize("is_exchanged", [False, True])
async def test_a_vault_that_is_lost_is_not_asked_for_again_and_again(room, is_exchanged):
    save(room, a__md="a", b__md="b")
    async with room.detector(gone=0.02) as detector:
        looks = []
        look = room.disk_scan.look
        room.disk_scan.look = lambda *given: looks.append(given) or look(*given)
        room.vault.rename(room.vault.with_name("away"))
        if is_exchanged:
            room.vault.mkdir()
        await room.until(room.problems.all)
        until, before = detector._loop.time() + 0.5, len(looks)
        await room.until(lambda: detector._loop.time() > until)
        assert 5 < len(looks) - before < 15
        room.hear(a__md="closed")
        await room.until(lambda: not detector.busy)

        assert room.told() == []
        assert list(room.problems.all()) == ["missing" if is_exchanged else "vault"]


@pytest.mark.parametrize(
    ("count", "left", "believed"), [(19, 1, True), (20, 20, True), (20, 19, False), (1, 0, True)]
)
async def test_most_of_many_files_gone_at_once_are_not_believed(room, count, left, believed):
    for number in range(count + left):
        (room.vault / f"{number}.md").write_text(str(number))
    async with room.detector(gone=0.03) as detector:
        for number in range(count):
            (room.vault / f"{number}.md").unlink()
        room.hear(missed=True)
        await room.until(lambda: room.told() or room.problems.all())
        await idle(room, detector)

        assert len(room.told()) == (count if believed else 0)
        assert ("missing" in room.problems.all()) is not believed
        if not believed:
            await detector.rescan(accept_missing=True)
            assert len(room.told()) == count
            assert room.problems.all() == {}


async def test_the_problem_of_missing_files_stays_while_it_lasts(room):
    said = []
    room.bus.listen(lambda event: said.append(event.data["problem"]))
    for number in range(40):
        (room.vault / f"{number}.md").write_text(str(number))
    async with room.detector(gone=0.03) as detector:
        (room.vault / "kept").mkdir()
        for number in range(30):
            (room.vault / f"{number}.md").rename(room.vault.parent / f"{number}.md")
        room.hear(missed=True)
        await room.until(room.problems.all)
        save(room, new__md="new")
        room.hear(new__md="closed")
        await room.until(room.told)
        await detector.rescan()
        for number in range(30):
            (room.vault.parent / f"{number}.md").rename(room.vault / f"{number}.md")
        await room.until(lambda: not room.problems.all())
        await idle(room, detector)

        assert room.told() == [("created", "new.md")]
        assert [problem is None for problem in said][-1]
        assert None not in said[:-1]


async def test_a_deletion_by_us_is_believed_at_once(room):
    save(room, a__md="a", b__md="b")
    async with room.detector() as detector:
        (room.vault / "a.md").unlink()
        await detector.notice([VaultPath("a.md")])

        assert room.told() == [("deleted", "a.md")]


async def test_an_index_that_was_written_down_is_the_next_ones_beginning(room):
    save(room, a__md="a")
    async with room.detector() as detector:
        await detector.save()
        save(room, a__md="b", c__md="c")
        room.hear(a__md="closed", c__md="closed")
        await room.until(lambda: len(room.told()) == 2)
        await idle(room, detector)
        loaded = room.snapshot.load()

        assert {path: loaded.get(path) for path in loaded.paths()} == {
            path: room.index.get(path) for path in room.index.paths()
        }


async def test_what_a_walk_that_was_asked_for_leaves_unsettled_is_looked_at_soon(room):
    async with room.detector(heartbeat=600.0) as detector:
        save(room, a__md="a")
        await detector.rescan()
        assert room.told() == []
        await idle(room, detector)

        assert room.told() == [("created", "a.md")]


async def test_an_index_that_cannot_be_written_down_is_a_problem_until_it_can(room):
    save(room, a__md="a")
    async with room.detector() as detector:
        in_the_way = room.home / "snapshot.tmp"
        in_the_way.mkdir()
        await detector.save()
        assert "index" in room.problems.all()
        in_the_way.rmdir()
        await room.until(lambda: not room.problems.all())

        assert list(room.snapshot.load().paths()) == ["a.md"]


async def test_what_could_not_be_remembered_is_written_down_later(room):
    save(room, a__md="a")
    async with room.detector() as detector:
        await detector.save()
        in_the_way = room.home / "snapshot.log"
        in_the_way.mkdir()
        save(room, b__md="b")
        room.hear(b__md="closed")
        await room.until(lambda: "vault" in room.problems.all())
        in_the_way.rmdir()
        await room.until(lambda: not room.problems.all())

        assert sorted(room.snapshot.load().paths()) == ["a.md", "b.md"]
        assert room.told() == [("created", "b.md")]
