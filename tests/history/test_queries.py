"""The past: a file's versions with what came and went, and what a run changed everywhere."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from parachuted.errors import NotFoundError
from parachuted.history.queries import HistoryQueries
from parachuted.history.run_account import save
from parachuted.vault import Author, VaultPath
from tests.tools.conftest import Bench

NOTE, OTHER = VaultPath("note.md"), VaultPath("other.md")


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    bench = Bench(folder=tmp_path)
    yield bench
    bench.close()


def by(run: str) -> Author:
    return Author(by="curator", run=run, causes=("c1",))


def past(bench: Bench) -> HistoryQueries:
    return HistoryQueries(bench.store, bench.objects, bench.history)


def ran(bench: Bench, run: str, *parents: str, **more: object) -> None:
    save(
        bench.history,
        {
            "id": run,
            "watcher": "note.md",
            "agent": "curator",
            "started": bench.now.isoformat(),
            "outcome": "changed",
            "undone": None,
            "causes": [{"id": "c1"}],
            "parents": list(parents),
            **more,
        },
    )


def test_versions_are_told_newest_first_with_what_came_and_went(bench: Bench):
    bench.save("note.md", "a\nb\n")
    bench.store.replace(NOTE, b"a\nc\nd\n", by("r1"))
    bench.save("note.md", "a\nc\nd\ne\n")
    told, count = past(bench).told(NOTE)

    assert count == 3
    assert [(one.version.by, one.added, one.removed, one.kept) for one in told] == [
        ("person", None, None, False),
        ("curator", 2, 1, True),
        ("person", 2, 0, True),
    ]
    assert past(bench).told(NOTE, 1)[0] == told[:1]


def test_a_file_that_never_was_has_no_past(bench: Bench):
    with pytest.raises(NotFoundError):
        past(bench).versions(NOTE)


def test_a_run_is_told_file_by_file_and_with_what_followed(bench: Bench):
    bench.save("note.md", "a\n")
    bench.save("other.md", "a\n")
    bench.store.replace(NOTE, b"b\n", by("r1"))
    bench.store.replace(NOTE, b"c\n", by("r1"))
    bench.store.replace(OTHER, b"b\n", by("r2"))
    ran(bench, "r1")
    ran(bench, "r2", "r1")
    one, all_ = past(bench).runs("r1", cascade=False), past(bench).runs("r1", cascade=True)

    assert [file.path for file in past(bench).diff(one)] == ["note.md"]
    assert "-a\n+c\n" in past(bench).diff(one)[0].diff
    assert [
        (file.path, file.runs, file.added, file.removed) for file in past(bench).diff(all_)
    ] == [
        ("note.md", ("r1",), 1, 1),
        ("other.md", ("r2",), 1, 1),
    ]


def test_what_a_person_wrote_in_between_is_not_told_as_the_runs(bench: Bench):
    bench.save("note.md", "a\n")
    bench.store.replace(NOTE, b"b\n", by("r1"))
    bench.save("note.md", "b\nmine\n")
    bench.store.replace(NOTE, b"c\nmine\n", by("r1"))
    ran(bench, "r1")
    diffs = past(bench).diff(past(bench).runs("r1", cascade=True))

    assert len(diffs) == 2
    assert not any("+mine" in one.diff for one in diffs)


def test_a_move_and_what_was_written_around_it_are_one_difference(bench: Bench):
    bench.save("note.md", "a\nsame\n")
    bench.store.replace(NOTE, b"b\nsame\n", by("r1"))
    bench.store.move(NOTE, OTHER, by("r1"))
    bench.store.replace(OTHER, b"c\nsame\n", by("r1"))
    ran(bench, "r1")
    (diff,) = past(bench).diff(past(bench).runs("r1", cascade=False))

    assert (diff.path, diff.source, diff.added, diff.removed) == ("other.md", "note.md", 1, 1)
    assert diff.diff.startswith("rename from note.md\nrename to other.md\n")
    assert "-a\n+c\n same\n" in diff.diff


def test_a_move_alone_and_a_new_file_that_moved_are_told(bench: Bench):
    bench.save("note.md", "a\n")
    bench.store.move(NOTE, OTHER, by("r1"))
    bench.store.create(VaultPath("x.md"), b"x\n", by("r1"))
    bench.store.move(VaultPath("x.md"), VaultPath("y.md"), by("r1"))
    ran(bench, "r1")
    diffs = past(bench).diff(past(bench).runs("r1", cascade=False))

    assert [(one.path, one.source) for one in diffs] == [("other.md", "note.md"), ("y.md", None)]
    assert diffs[0].diff == "rename from note.md\nrename to other.md\n"
    assert "+x\n" in diffs[1].diff


def test_a_run_whose_texts_are_gone_says_so_and_one_whose_writes_are_tells_its_own_account(
    bench: Bench,
):
    bench.save("note.md", "a\n")
    written = bench.store.replace(NOTE, b"b\n", by("r1"))
    ran(bench, "r1")
    ran(
        bench, "r0", wrote=[{"path": "old.md", "before": None, "after": "f" * 64, "diff": "+old\n"}]
    )
    bench.objects.drop(str(written.before))

    assert "no longer kept" in past(bench).diff(past(bench).runs("r1", cascade=False))[0].diff
    assert [
        (one.path, one.diff) for one in past(bench).diff(past(bench).runs("r0", cascade=False))
    ] == [("old.md", "+old\n")]


def test_a_run_that_there_is_not_has_no_diff(bench: Bench):
    with pytest.raises(NotFoundError, match="there is no run r9"):
        past(bench).runs("r9", cascade=True)
