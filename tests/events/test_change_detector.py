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


def save(events_rig, **texts):
    for name, text in texts.items():
        (events_rig.vault / name.replace("__", ".")).write_text(text)


async def idle(events_rig, detector):
    await events_rig.until(lambda: not detector.busy)


async def test_the_first_scan_watches_each_folder_and_tells_what_is_new(events_rig):
    (events_rig.vault / "deep/er").mkdir(parents=True)
    save(events_rig, a__md="a")
    async with events_rig.detector():
        assert set(events_rig.watcher.entered) == {"", "deep", "deep/er"}
        assert list(events_rig.index.paths()) == ["a.md"]


async def test_a_known_file_that_was_closed_is_read_at_once(events_rig):
    save(events_rig, a__md="a")
    async with events_rig.detector(new=60, touched=60) as detector:
        save(events_rig, a__md="b")
        events_rig.hear(a__md="closed")
        assert detector.busy
        await idle(events_rig, detector)

        assert events_rig.reported() == [("modified", "a.md")]


async def test_a_new_file_that_was_closed_waits_for_a_moment(events_rig):
    async with events_rig.detector(new=0.05) as detector:
        save(events_rig, scrap__md="new")
        events_rig.hear(scrap__md="closed")
        (events_rig.vault / "scrap.md").rename(events_rig.vault / "new.md")
        events_rig.hear(scrap__md="gone", new__md="closed")
        await idle(events_rig, detector)

        assert events_rig.reported() == [("created", "new.md")]


async def test_a_new_file_that_was_renamed_into_place_is_read_at_once(events_rig):
    async with events_rig.detector(new=60, gone=0.05) as detector:
        save(events_rig, new__md="whole")
        events_rig.watcher.tell(
            ChangeHints(
                paths={".new.md.tmp": "gone", "new.md": "closed"},
                old_names={"new.md": ".new.md.tmp"},
            )
        )
        await idle(events_rig, detector)

        assert events_rig.reported() == [("created", "new.md")]


async def test_a_copy_that_an_editor_keeps_while_it_saves_is_not_a_new_file(events_rig):
    save(events_rig, a__md="a")
    async with events_rig.detector(new=0.3, gone=0.3) as detector:
        (events_rig.vault / "a.md").rename(events_rig.vault / "a.old.md")
        events_rig.watcher.tell(
            ChangeHints(
                paths={"a.md": "gone", "a.old.md": "closed"}, old_names={"a.old.md": "a.md"}
            )
        )
        assert not detector._next
        save(events_rig, a__md="another text")
        (events_rig.vault / "a.old.md").unlink()
        events_rig.watcher.tell(ChangeHints(paths={"a.md": "closed", "a.old.md": "gone"}))
        await idle(events_rig, detector)

        assert events_rig.reported() == [("modified", "a.md")]


async def test_a_file_that_was_renamed_twice_moved_once(events_rig):
    save(events_rig, a__md="a", other__md="other")
    async with events_rig.detector(gone=60, new=60):
        (events_rig.vault / "a.md").rename(events_rig.vault / "b.md")
        events_rig.watcher.tell(
            ChangeHints(
                paths={"a.md": "gone", ".passing": "closed", "b.md": "closed"},
                old_names={".passing": "a.md", "b.md": ".passing"},
            )
        )
        await events_rig.until(events_rig.reported)

        assert events_rig.moves() == [("a.md", "b.md")]


async def test_a_file_without_hints_is_found_by_a_walk(events_rig):
    async with events_rig.detector() as detector:
        save(events_rig, a__md="a")
        events_rig.hear(missed=True)
        await events_rig.until(events_rig.reported)

        assert events_rig.reported() == [("created", "a.md")]
        await idle(events_rig, detector)


async def test_a_hint_that_comes_during_a_look_is_not_lost(events_rig):
    save(events_rig, a__md="a")
    async with events_rig.detector() as detector:

        def once_more():
            save(events_rig, a__md="third text", b__md="new")
            events_rig.hear(a__md="closed", b__md="closed")

        save(events_rig, a__md="second")
        events_rig.watcher.at_poll.append(once_more)
        events_rig.hear(a__md="closed", b__md="closed")
        await idle(events_rig, detector)

        assert events_rig.index.get("a.md").size == len("third text")
        assert ("created", "b.md") in events_rig.reported()


async def test_what_is_being_written_again_while_it_is_read_is_not_taken_yet(events_rig):
    save(events_rig, a__md="a")
    async with events_rig.detector(open=0.2) as detector:
        save(events_rig, a__md="half")
        events_rig.watcher.at_poll.append(lambda: events_rig.hear(a__md="open"))
        events_rig.hear(a__md="closed")
        await events_rig.until(lambda: not events_rig.watcher.at_poll)
        assert events_rig.reported() == []
        save(events_rig, a__md="half and half")
        events_rig.hear(a__md="closed")
        await idle(events_rig, detector)

        assert events_rig.reported() == [("modified", "a.md")]
        assert events_rig.index.get("a.md").size == len("half and half")


async def test_what_is_opened_again_before_it_was_read_is_not_read(events_rig):
    save(events_rig, a__md="a", other__md="other")
    async with events_rig.detector(open=0.5) as detector:
        save(events_rig, a__md="half", other__md="whole")
        events_rig.hear(a__md="closed")
        events_rig.hear(a__md="open", other__md="closed")
        await events_rig.until(events_rig.reported)
        assert events_rig.reported() == [("modified", "other.md")]
        save(events_rig, a__md="half and half")
        events_rig.hear(a__md="closed")
        await idle(events_rig, detector)

        assert events_rig.reported() == [("modified", "other.md"), ("modified", "a.md")]


async def test_a_file_that_was_emptied_is_given_a_moment_to_be_written(events_rig):
    save(events_rig, a__md="a", b__md="b")
    async with events_rig.detector() as detector:
        save(events_rig, a__md="", b__md="")
        events_rig.hear(a__md="closed", b__md="closed")
        await events_rig.until(lambda: detector._debouncer)
        save(events_rig, a__md="written")
        events_rig.hear(a__md="closed")
        await idle(events_rig, detector)

        assert sorted(events_rig.reported()) == [("modified", "a.md"), ("modified", "b.md")]
        assert (events_rig.index.get("a.md").size, events_rig.index.get("b.md").size) == (7, 0)


async def test_our_own_writes_are_taken_as_they_are(events_rig):
    save(events_rig, a__md="a")
    async with events_rig.detector() as detector:
        save(events_rig, a__md="")
        (events_rig.vault / "new.md").write_text("new")
        await detector.notice(["a.md", "new.md"])

        assert sorted(events_rig.reported()) == [("created", "new.md"), ("modified", "a.md")]
        assert not detector.busy


async def test_a_missing_file_is_gone_after_a_second_look(events_rig):
    save(events_rig, a__md="a")
    async with events_rig.detector(gone=0.1) as detector:
        (events_rig.vault / "a.md").unlink()
        events_rig.hear(missed=True)
        await events_rig.until(lambda: detector._debouncer)
        assert events_rig.reported() == []
        await idle(events_rig, detector)

        assert events_rig.reported() == [("deleted", "a.md")]


async def test_a_missing_file_that_is_back_was_never_gone(events_rig):
    save(events_rig, a__md="a")
    async with events_rig.detector(gone=0.1) as detector:
        (events_rig.vault / "a.md").rename(events_rig.vault / "a.bak")
        events_rig.hear(a__md="gone")
        (events_rig.vault / "a.bak").rename(events_rig.vault / "a.md")
        await idle(events_rig, detector)

        assert events_rig.reported() == []
        assert detector._debouncer.missing == ()


async def test_a_file_that_is_found_under_another_name_moved_there(events_rig):
    save(events_rig, a__md="a", other__md="other")
    async with events_rig.detector(gone=0.1, new=0.02) as detector:
        (events_rig.vault / "a.md").rename(events_rig.vault / "b.md")
        events_rig.hear(a__md="gone", b__md="closed")
        await idle(events_rig, detector)

        assert events_rig.moves() == [("a.md", "b.md")]
        assert sorted(events_rig.index.paths()) == ["b.md", "other.md"]


@pytest.mark.parametrize("hint", ["closed", "open", "touched"])
async def test_a_new_file_in_the_place_of_one_that_moved_is_found_though_it_was_saved_during_the_look(  # noqa: E501
    events_rig, hint
):
    save(events_rig, a__md="a")
    async with events_rig.detector(gone=0.1, new=0.02, open=0.1, touched=0.1) as detector:

        def at_the_old_name():
            save(events_rig, a__md="another note")
            events_rig.hear(a__md=hint)

        (events_rig.vault / "a.md").rename(events_rig.vault / "b.md")
        events_rig.watcher.at_poll.append(at_the_old_name)
        events_rig.hear(a__md="gone", b__md="closed")
        await idle(events_rig, detector)

        assert sorted(events_rig.index.paths()) == ["a.md", "b.md"]


async def test_a_file_that_went_waits_for_new_ones_that_it_may_have_become(events_rig):
    save(events_rig, a__md="a", other__md="other")
    async with events_rig.detector(gone=0.02, touched=0.2) as detector:
        save(events_rig, a__md="just saved, so unsettled where no hint says that it is finished")
        (events_rig.vault / "a.md").rename(events_rig.vault / "b.md")
        events_rig.hear(a__md="gone", missed=True)
        await idle(events_rig, detector)

        assert events_rig.moves() == [("a.md", "b.md")]


async def test_what_is_settled_leaves_nothing_behind(events_rig):
    save(events_rig, a__md="a")
    async with events_rig.detector(gone=0.02, new=0.02, open=0.02, touched=0.02) as detector:
        save(events_rig, a__md="b", b__md="b", c__md="c")
        events_rig.hear(a__md="closed", b__md="closed", c__md="open", d__md="gone", e__md="touched")
        await idle(events_rig, detector)
        (events_rig.vault / "a.md").unlink()
        events_rig.hear(a__md="gone")
        await idle(events_rig, detector)

        held = detector._debouncer
        assert not any((held._due, held._since, held._closed, held._written))
        assert set(held.missing) <= {"d.md"}


async def test_a_folder_is_forgotten_once_its_files_are(events_rig):
    for name in ("one", "two"):
        (events_rig.vault / name / "deep").mkdir(parents=True)
        (events_rig.vault / name / "deep/note.md").write_text(name)
    async with events_rig.detector(gone=0.05) as detector:
        shutil.rmtree(events_rig.vault / "one")
        events_rig.hear("one", "one/deep")
        await idle(events_rig, detector)

        assert events_rig.reported() == [("deleted", "one/deep/note.md")]
        assert events_rig.index.all_folders() == ["", "two", "two/deep"]
        assert set(events_rig.watcher.left) == {"one", "one/deep"}


async def test_a_folder_that_is_back_is_not_forgotten(events_rig):
    (events_rig.vault / "one").mkdir()
    (events_rig.vault / "one/note.md").write_text("one")
    save(events_rig, other__md="other")
    async with events_rig.detector(gone=0.05) as detector:
        shutil.rmtree(events_rig.vault / "one")
        events_rig.hear("one")
        await events_rig.until(lambda: events_rig.watcher.left)
        (events_rig.vault / "one").mkdir()
        events_rig.hear("one")
        await idle(events_rig, detector)

        assert events_rig.reported() == [("deleted", "one/note.md")]
        assert events_rig.index.all_folders() == ["", "one"]


async def test_where_no_more_is_known_than_the_path_a_folder_is_walked(events_rig):
    (events_rig.vault / "one").mkdir()
    (events_rig.vault / "one/note.md").write_text("one")
    save(events_rig, other__md="other")
    async with events_rig.detector(gone=0.05, touched=0.05) as detector:
        shutil.rmtree(events_rig.vault / "one")
        save(events_rig, other__md="changed")
        events_rig.hear(one="touched", other__md="touched")
        await idle(events_rig, detector)

        assert sorted(events_rig.reported()) == [
            ("deleted", "one/note.md"),
            ("modified", "other.md"),
        ]


async def test_what_editors_do_on_the_way_wakes_no_one(events_rig):
    async with events_rig.detector() as detector:
        events_rig.watcher.tell(
            ChangeHints(
                paths={".note.md.swp": "open", "deep/.tmp": "closed", "deep/.note.md": "gone"}
            )
        )

        assert not detector.busy


async def test_a_folder_that_cannot_be_watched_means_walking_until_it_can(events_rig):
    async with events_rig.detector() as detector:
        events_rig.watcher.refusal = OSError(errno.ENOSPC, "no space left on device")
        (events_rig.vault / "new").mkdir()
        events_rig.hear("new")
        await events_rig.until(lambda: detector.polling)
        assert "max_user_watches" in events_rig.problems.open["watching"]
        save(events_rig, a__md="nobody tells")
        await events_rig.until(events_rig.reported)
        events_rig.watcher.refusal = None
        await events_rig.until(lambda: not detector.polling)

        assert events_rig.problems.open == {}


async def test_a_folder_that_may_not_be_watched_is_a_problem_of_that_folder(events_rig):
    (events_rig.vault / "closed").mkdir()
    events_rig.watcher.refusal = OSError(errno.ENOSPC, "no space left on device")
    async with events_rig.detector() as detector:
        events_rig.watcher.refusal = None
        enter = events_rig.watcher.enter

        def refuse(folder):
            if folder == "closed":
                raise PermissionError(errno.EACCES, "permission denied")
            enter(folder)

        events_rig.watcher.enter = refuse
        await detector.rescan()

        assert list(events_rig.problems.open) == ["file:closed"]


async def test_what_cannot_be_recorded_is_found_again(events_rig):
    save(events_rig, a__md="a")
    async with events_rig.detector() as detector:
        events_rig.refusal = StorageFailedError("the disk is full")
        save(events_rig, a__md="b")
        os.utime(events_rig.vault / "a.md", (1, 1))
        events_rig.hear(a__md="closed")
        await events_rig.until(lambda: "vault" in events_rig.problems.open)
        assert "the disk is full" in events_rig.problems.open["vault"]
        with pytest.raises(StorageFailedError):
            await detector.rescan()
        await detector.notice(["a.md"])
        events_rig.refusal = None
        await events_rig.until(lambda: not events_rig.problems.open)

        assert events_rig.reported() == [("modified", "a.md")]


async def test_a_vault_that_is_not_there_is_a_problem_and_nothing_else(events_rig):
    save(events_rig, a__md="a")
    async with events_rig.detector() as detector:
        events_rig.vault.rename(events_rig.vault.with_name("away"))
        events_rig.hear(a__md="closed", b__md="gone")
        await events_rig.until(lambda: "vault" in events_rig.problems.open)
        with pytest.raises(StorageFailedError):
            await detector.rescan()
        await detector.notice(["a.md"])
        events_rig.vault.with_name("away").rename(events_rig.vault)
        await events_rig.until(lambda: not events_rig.problems.open)

        assert events_rig.reported() == []


async def test_a_vault_that_is_heard_to_be_back_is_looked_at_without_waiting(events_rig):
    save(events_rig, a__md="a")
    async with events_rig.detector(heartbeat=600.0):
        events_rig.vault.rename(events_rig.vault.with_name("away"))
        events_rig.hear(missed=True)
        await events_rig.until(lambda: "vault" in events_rig.problems.open)
        events_rig.vault.with_name("away").rename(events_rig.vault)
        events_rig.hear(missed=True)
        await events_rig.until(lambda: not events_rig.problems.open)

        assert events_rig.reported() == []


@pytest.mark.parametrize("is_exchanged", [False, True])
async def test_a_vault_that_is_lost_is_not_asked_for_again_and_again(events_rig, is_exchanged):
    save(events_rig, a__md="a", b__md="b")
    async with events_rig.detector(gone=0.02) as detector:
        looks = []
        look = events_rig.disk_scan.look
        events_rig.disk_scan.look = lambda *given: looks.append(given) or look(*given)
        events_rig.vault.rename(events_rig.vault.with_name("away"))
        if is_exchanged:
            events_rig.vault.mkdir()
        await events_rig.until(lambda: events_rig.problems.open)
        started, before = detector._loop.time(), len(looks)
        await events_rig.until(lambda: len(looks) >= before + 6)
        assert detector._loop.time() - started > 0.15, "it looks without a pause"
        events_rig.hear(a__md="closed")
        await events_rig.until(lambda: not detector.busy)

        assert events_rig.reported() == []
        assert list(events_rig.problems.open) == ["missing" if is_exchanged else "vault"]


@pytest.mark.parametrize(
    ("count", "left", "believed"), [(19, 1, True), (20, 20, True), (20, 19, False), (1, 0, True)]
)
async def test_most_of_many_files_gone_at_once_are_not_believed(events_rig, count, left, believed):
    for number in range(count + left):
        (events_rig.vault / f"{number}.md").write_text(str(number))
    async with events_rig.detector(gone=0.03) as detector:
        for number in range(count):
            (events_rig.vault / f"{number}.md").unlink()
        events_rig.hear(missed=True)
        await events_rig.until(lambda: events_rig.reported() or events_rig.problems.open)
        await idle(events_rig, detector)

        assert len(events_rig.reported()) == (count if believed else 0)
        assert ("missing" in events_rig.problems.open) is not believed
        if not believed:
            await detector.rescan(accept_missing=True)
            assert len(events_rig.reported()) == count
            assert events_rig.problems.open == {}


async def test_the_problem_of_missing_files_stays_while_it_lasts(events_rig):
    said = []
    events_rig.bus.subscribe(lambda event: said.append(event.data["problem"]))
    for number in range(40):
        (events_rig.vault / f"{number}.md").write_text(str(number))
    async with events_rig.detector(gone=0.03) as detector:
        (events_rig.vault / "kept").mkdir()
        for number in range(30):
            (events_rig.vault / f"{number}.md").rename(events_rig.vault.parent / f"{number}.md")
        events_rig.hear(missed=True)
        await events_rig.until(lambda: events_rig.problems.open)
        save(events_rig, new__md="new")
        events_rig.hear(new__md="closed")
        await events_rig.until(events_rig.reported)
        await detector.rescan()
        for number in range(30):
            (events_rig.vault.parent / f"{number}.md").rename(events_rig.vault / f"{number}.md")
        await events_rig.until(lambda: not events_rig.problems.open)
        await idle(events_rig, detector)

        assert events_rig.reported() == [("created", "new.md")]
        assert [problem is None for problem in said][-1]
        assert None not in said[:-1]


async def test_a_deletion_by_us_is_believed_at_once(events_rig):
    save(events_rig, a__md="a", b__md="b")
    async with events_rig.detector() as detector:
        (events_rig.vault / "a.md").unlink()
        await detector.notice([VaultPath("a.md")])

        assert events_rig.reported() == [("deleted", "a.md")]


async def test_an_index_that_was_written_down_is_the_next_ones_beginning(events_rig):
    save(events_rig, a__md="a")
    async with events_rig.detector() as detector:
        await detector.save()
        save(events_rig, a__md="b", c__md="c")
        events_rig.hear(a__md="closed", c__md="closed")
        await events_rig.until(lambda: len(events_rig.reported()) == 2)
        await idle(events_rig, detector)
        loaded = events_rig.snapshot.load()

        assert {path: loaded.get(path) for path in loaded.paths()} == {
            path: events_rig.index.get(path) for path in events_rig.index.paths()
        }


async def test_what_a_walk_that_was_asked_for_leaves_unsettled_is_looked_at_soon(events_rig):
    async with events_rig.detector(heartbeat=600.0) as detector:
        save(events_rig, a__md="a")
        await detector.rescan()
        assert events_rig.reported() == []
        await idle(events_rig, detector)

        assert events_rig.reported() == [("created", "a.md")]


async def test_an_index_that_cannot_be_written_down_is_a_problem_until_it_can(events_rig):
    save(events_rig, a__md="a")
    async with events_rig.detector() as detector:
        in_the_way = events_rig.home / "snapshot.tmp"
        in_the_way.mkdir()
        await detector.save()
        assert "index" in events_rig.problems.open
        in_the_way.rmdir()
        await events_rig.until(lambda: not events_rig.problems.open)

        assert list(events_rig.snapshot.load().paths()) == ["a.md"]


async def test_what_could_not_be_remembered_is_written_down_later(events_rig):
    save(events_rig, a__md="a")
    async with events_rig.detector() as detector:
        await detector.save()
        in_the_way = events_rig.home / "snapshot.log"
        in_the_way.mkdir()
        save(events_rig, b__md="b")
        events_rig.hear(b__md="closed")
        await events_rig.until(lambda: "vault" in events_rig.problems.open)
        in_the_way.rmdir()
        await events_rig.until(lambda: not events_rig.problems.open)

        assert sorted(events_rig.snapshot.load().paths()) == ["a.md", "b.md"]
        assert events_rig.reported() == [("created", "b.md")]
