"""Change committer: recorded, then known, then published; and by whom it was done."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime

import pytest

from parachuted.errors import StorageFailedError
from parachuted.events import ChangeListeners
from parachuted.events.changes import ChangeCommitter, SortedChanges
from parachuted.vault import Author, IndexEntry, PathDifference, VaultPath, Write
from tests.index_entries import changed

CURATOR = Author(by="curator", run="r-1", causes=("c-1",))


def entry(digest="new", inode=1):
    return IndexEntry(mtime_ns=1, ctime_ns=1, size=3, inode=inode, digest=digest)


def came(path, old=None, new=None, left=None):
    return PathDifference(path=VaultPath(path), old=old, new=new or entry()), left


def went(path, old=None):
    return PathDifference(path=VaultPath(path), old=old or entry("old"), new=None)


def found(came=(), went=(), same=()):
    return SortedChanges(came=list(came), went=list(went), same=list(same))


@pytest.fixture
def commit(rig):
    """Commit what came and went, with the rig's committer or another."""
    with ThreadPoolExecutor(1) as thread:

        async def run(came=(), went=(), same=(), *, remember=True, by=rig.committer):
            await by.commit(found(came, went, same), thread, remember=remember)

        yield run


def wrote(rig, path, before, after):
    write = rig.history.intend(
        Write(
            at=datetime.now(UTC),
            path=path,
            author=CURATOR,
            operation="ReplaceAll",
            before=before,
            after=after,
            temporary=".t",
        )
    )
    rig.history.settle(write.id, "done")


async def test_changes_are_recorded_then_known_then_published(rig, commit):
    await commit([came("a.md"), came("b.md")])

    assert rig.steps == ["record 2, 0 known", "tell a.md", "tell b.md", "tell what follows"]
    assert sorted(rig.index.paths()) == ["a.md", "b.md"]


async def test_a_change_is_of_its_kind(rig, commit):
    left = went("old.md", entry("left"))
    await commit(
        [came("new.md"), came("changed.md", old=entry("old")), came("moved.md", left=left)],
        [went("gone.md")],
    )

    assert [(change.kind, change.path, change.source) for change in rig.changes] == [
        ("created", "new.md", None),
        ("modified", "changed.md", None),
        ("moved", "moved.md", "old.md"),
        ("deleted", "gone.md", None),
    ]
    assert rig.changes[2].old == left.old


async def test_what_only_looks_newer_is_known_and_not_reported(rig, commit):
    await commit([came("a.md")])
    rig.steps.clear()
    touched = changed(entry(), mtime_ns=9)
    await commit(same=[PathDifference(path=VaultPath("a.md"), old=entry(), new=touched)])

    assert rig.steps == []
    assert rig.index.get("a.md") == touched


async def test_many_changes_are_taken_in_in_pieces(rig, commit):
    await commit([came(f"{number}.md") for number in range(600)])

    assert [step for step in rig.steps if step.startswith("record")] == [
        "record 256, 0 known",
        "record 256, 256 known",
        "record 88, 512 known",
    ]
    assert len(rig.changes) == 600


async def test_what_is_not_recorded_is_neither_known_nor_published(rig, commit):
    rig.refusal = StorageFailedError("the disk is full")
    with pytest.raises(StorageFailedError):
        await commit([came("a.md")])

    assert rig.changes == []
    assert len(rig.index) == 0


async def test_what_was_reported_before_the_disk_refused_is_kept(rig, commit):
    def tell_until_full(changes):
        rig.tell(changes)
        rig.refusal = StorageFailedError("the disk is full")

    async def listeners():
        return ChangeListeners(record=rig.record, tell=tell_until_full)

    committer = ChangeCommitter(
        rig.index, rig.snapshot, rig.history, listeners, lambda: datetime.now(UTC)
    )
    committer.save()
    with pytest.raises(StorageFailedError):
        await commit(
            [came(f"{number:03}.md", old=entry("old")) for number in range(300)], by=committer
        )
    loaded = rig.snapshot.load()
    committer.close()

    assert len(loaded) == len(rig.changes) == 256
    assert rig.history.sightings_of("255.md")


async def test_what_our_writer_did_is_reported_as_its_own_once(rig, commit):
    wrote(rig, "a.md", "old", "new")
    await commit([came("a.md", old=entry("old"))])
    await commit([came("a.md", old=entry("third"))])

    assert [change.author.by for change in rig.changes] == ["curator", "person"]
    assert rig.changes[0].author == CURATOR


async def test_what_a_person_did_in_one_look_is_one_cause(rig, commit):
    await commit([came("a.md"), came("b.md")])
    await commit([came("c.md")])
    causes = [change.author.causes for change in rig.changes]

    assert causes[0] == causes[1] != causes[2]
    assert all(len(cause) == 1 for cause in causes)


async def test_our_own_move_is_over_at_both_ends(rig, commit):
    wrote(rig, "b.md", None, "new")
    wrote(rig, "a.md", "new", None)
    await commit([came("b.md", left=went("a.md"))])
    await commit(went=[went("a.md")])

    assert [change.author.by for change in rig.changes] == ["curator", "person"]


async def test_the_copy_on_disk_follows(rig, commit):
    rig.committer.save()
    await commit([came("a.md"), came("b.md")])
    await commit([came("c.md", left=went("a.md"))], [went("b.md")])
    loaded = rig.snapshot.load()
    rig.committer.close()

    assert list(loaded.paths()) == ["c.md"]


async def test_at_the_first_scan_the_copy_waits_to_be_written_whole(rig, commit):
    rig.committer.save()
    await commit([came("a.md")], same=[came("b.md")[0]], remember=False)

    assert len(rig.snapshot.load()) == 0


def test_folders_are_forgotten_when_they_are_empty_and_not_back(rig):
    for folder in ("a/b", "c"):
        rig.index.add_folder(folder)
    rig.index.set("a/b/note.md", entry())
    rig.committer.follow_folders([], ["a", "a/b", "c"], set())
    assert rig.index.all_folders() == ["", "a", "a/b"]
    rig.index.set("a/b/note.md", None)
    rig.committer.follow_folders([], [], {"a"})

    assert rig.index.all_folders() == ["", "a"]


async def test_our_writes_count_as_noticed_once_the_copy_on_disk_is_newer(rig, commit):
    """A start that dies before it writes the index down has to be followed by one that sees the
    same.
    """
    wrote(rig, "a.md", "old", "new")
    await commit([came("a.md", old=entry("old"))], remember=False)
    assert rig.history.unnoticed("a.md", "new") is not None
    rig.committer.save()

    assert rig.history.unnoticed("a.md", "new") is None


@pytest.mark.parametrize(
    ("writes", "old"),
    [
        ([("old", "one"), ("one", "two"), ("two", "new")], "old"),  # one after the other
        ([("old", "never seen"), ("a person's", "new")], "a person's"),  # a save between them
    ],
)
async def test_what_our_writer_wrote_last_is_ours(rig, commit, writes, old):
    for before, after in writes:
        wrote(rig, "a.md", before, after)
    await commit([came("a.md", old=entry(old))])

    assert [change.author for change in rig.changes] == [CURATOR]


async def test_a_save_that_was_merged_unnoticed_is_a_persons_cause_too(rig, commit):
    wrote(rig, "a.md", "a person's", "new")
    await commit([came("a.md", old=entry("old")), came("b.md")])
    merged, other = rig.changes

    assert (merged.author.by, merged.author.run) == ("curator", "r-1")
    assert merged.author.causes == ("c-1", *other.author.causes)
