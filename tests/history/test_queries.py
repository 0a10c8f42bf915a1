"""The past: a file's versions with what came and went, and what a run changed everywhere."""

from __future__ import annotations

import pytest

from parachuted.errors import NotFoundError
from parachuted.history.run_account import save
from parachuted.history.why import FileDiff, HistoryQueries
from parachuted.vault import Author, VaultPath
from parachuted.vault.trail import run_document
from tests.tools.conftest import ToolsRig

NOTE, OTHER = VaultPath("note.md"), VaultPath("other.md")


def by(run: str) -> Author:
    return Author(by="curator", run=run, causes=("c1",))


def past(tools_rig: ToolsRig) -> HistoryQueries:
    return HistoryQueries(tools_rig.store)


def ran(tools_rig: ToolsRig, run: str, *parents: str, **more: object) -> None:
    given = {"causes": [{"id": "c1"}], "parents": list(parents), **more}
    document = run_document(run, watcher="note.md", agent="curator", started=tools_rig.now, **given)
    save(tools_rig.history, document)


def diffs_of(tools_rig: ToolsRig, run: str, *, cascade: bool = False) -> list[FileDiff]:
    return past(tools_rig).diff(past(tools_rig).runs(run, cascade=cascade))


def test_versions_are_reported_newest_first_with_what_came_and_went(tools_rig: ToolsRig):
    tools_rig.save("note.md", "a\nb\n")
    tools_rig.store.replace(NOTE, b"a\nc\nd\n", by("r1"))
    tools_rig.save("note.md", "a\nc\nd\ne\n")
    past_of_note = past(tools_rig).changes(NOTE)
    reported = past_of_note.versions

    assert past_of_note.count == 3
    assert [(one.by, one.added, one.removed, one.kept) for one in reported] == [
        ("person", None, None, False),
        ("curator", 2, 1, True),
        ("person", 2, 0, True),
    ]
    assert past(tools_rig).changes(NOTE, 1).versions == reported[:1]


def test_a_run_is_reported_file_by_file_and_with_what_followed(tools_rig: ToolsRig):
    tools_rig.save("note.md", "a\n")
    tools_rig.save("other.md", "a\n")
    tools_rig.store.replace(NOTE, b"b\n", by("r1"))
    tools_rig.store.replace(NOTE, b"c\n", by("r1"))
    tools_rig.store.replace(OTHER, b"b\n", by("r2"))
    ran(tools_rig, "r1")
    ran(tools_rig, "r2", "r1")

    (diff,) = diffs_of(tools_rig, "r1")
    assert (diff.path, "-a\n+c\n" in diff.diff) == ("note.md", True)
    all_ = diffs_of(tools_rig, "r1", cascade=True)
    assert [(file.path, file.runs) for file in all_] == [
        ("note.md", ("r1",)),
        ("other.md", ("r2",)),
    ]


def test_what_a_person_wrote_in_between_is_not_reported_as_the_runs(tools_rig: ToolsRig):
    tools_rig.save("note.md", "a\n")
    tools_rig.store.replace(NOTE, b"b\n", by("r1"))
    tools_rig.save("note.md", "b\nmine\n")
    tools_rig.store.replace(NOTE, b"c\nmine\n", by("r1"))
    ran(tools_rig, "r1")
    diffs = diffs_of(tools_rig, "r1", cascade=True)

    assert len(diffs) == 2
    assert not any("+mine" in diff.diff for diff in diffs)


def test_a_move_and_what_was_written_around_it_are_one_difference(tools_rig: ToolsRig):
    tools_rig.save("note.md", "a\nsame\n")
    tools_rig.store.replace(NOTE, b"b\nsame\n", by("r1"))
    tools_rig.store.move(NOTE, OTHER, by("r1"))
    tools_rig.store.replace(OTHER, b"c\nsame\n", by("r1"))
    ran(tools_rig, "r1")
    (diff,) = diffs_of(tools_rig, "r1")

    assert diff.path == "other.md"
    assert diff.diff.startswith("rename from note.md\nrename to other.md\n")
    assert "-a\n+c\n same\n" in diff.diff


def test_a_move_alone_and_a_new_file_that_moved_are_reported(tools_rig: ToolsRig):
    tools_rig.save("note.md", "a\n")
    tools_rig.store.move(NOTE, OTHER, by("r1"))
    tools_rig.store.create(VaultPath("x.md"), b"x\n", by("r1"))
    tools_rig.store.move(VaultPath("x.md"), VaultPath("y.md"), by("r1"))
    ran(tools_rig, "r1")
    diffs = diffs_of(tools_rig, "r1")

    assert [diff.path for diff in diffs] == ["other.md", "y.md"]
    assert diffs[0].diff == "rename from note.md\nrename to other.md\n"
    assert "+x\n" in diffs[1].diff


def test_a_run_whose_texts_or_writes_are_gone_tells_what_is_left(tools_rig: ToolsRig):
    tools_rig.save("note.md", "a\n")
    written = tools_rig.store.replace(NOTE, b"b\n", by("r1"))
    ran(tools_rig, "r1")
    old = {"path": "old.md", "before": None, "after": "f" * 64, "diff": "+old\n"}
    ran(tools_rig, "r0", wrote=[old])
    tools_rig.objects.drop(str(written.before))

    assert "no longer kept" in diffs_of(tools_rig, "r1")[0].diff
    assert [(one.path, one.diff) for one in diffs_of(tools_rig, "r0")] == [("old.md", "+old\n")]
    with pytest.raises(NotFoundError, match="there is no run r9"):
        past(tools_rig).runs("r9", cascade=True)
    with pytest.raises(NotFoundError):
        past(tools_rig).versions(VaultPath("never.md"))
