"""The shelf: what is kept of suggestions outlives a daemon, and their files are never written over
a person's words unseen.
"""

from __future__ import annotations

import json
from typing import get_args

import pytest

from parachuted.errors import EditRefusedError, NotFoundError
from parachuted.suggestions.store import record_of
from parachuted.suggestions.suggestion import (
    PlannedSuggestion,
    Status,
    record_from,
)
from parachuted.vault import VaultPath
from tests.suggestions.sample_suggestions import NOON, shown, suggestion


async def test_all_are_there_again_but_for_a_record_that_cannot_be_read(rig):
    first, second = [await rig.propose(f"{name}.md", {"text": "x\n"}, "create") for name in "ab"]
    rig.state.table("suggestions").put(first.id, {"document": "x"})
    rig.reopen()
    assert [one.id for one in rig.suggestions.all()] == [second.id]


async def test_what_a_person_wrote_in_the_file_is_in_the_history(rig):
    made = await rig.propose("a.md", {"text": "x\n"}, "create")
    file = rig.file(made)
    file.write_text(file.read_text("utf-8") + "\nmy own words\n", "utf-8")
    await rig.suggestions.reject(made.id)
    before = [
        rig.objects.get(write.before)
        for write in rig.history.writes_of(str(file.relative_to(rig.vault)))
        if write.before
    ]
    assert any(b"my own words" in text for text in before)


async def test_a_file_made_by_another_thread_in_that_moment_is_no_conflict(rig, monkeypatch):
    read, create, creations = rig.store.read, rig.store.create, []

    def not_there_yet(path, **options):
        if path.folder == "Suggestions" and not creations:
            raise NotFoundError(f"{path} is not in the vault")
        return read(path, **options)

    def create_behind_another(path, data, author):
        creations.append(path)
        create(path, data, author)
        return create(path, data, author)

    monkeypatch.setattr(rig.store, "read", not_there_yet)
    monkeypatch.setattr(rig.store, "create", create_behind_another)
    made = await rig.propose("a.md", {"text": "x\n"}, "create")

    assert len(creations) == 1
    assert rig.file(made).is_file()


async def test_those_resolved_long_ago_are_forgotten(rig, monkeypatch):
    monkeypatch.setattr("parachuted.suggestions.store._MOST_KEPT", 2)
    made = [await rig.propose(f"{number}.md", {"text": "x\n"}, "create") for number in range(4)]
    for one in made:
        await rig.suggestions.reject(one.id)
    assert [one.id for one in rig.suggestions.all()] == [made[3].id, made[2].id]
    assert [one["document"]["id"] for one in rig.state.table("suggestions")] == [
        made[2].id,
        made[3].id,
    ]


def test_all_of_what_would_change_is_shown_one_way_or_the_other():
    def preview(before, after, action="update"):
        planned = PlannedSuggestion(before=before, after=after, base=None)
        return record_of(suggestion(action=action), planned)

    long = "".join(f"line {number}\n" for number in range(5_000))
    assert preview(b"", long.encode()).text == long
    assert preview(b"one\n", b"two\n").text is None
    assert preview(None, b"\0\1").diff == "(no text: 0 bytes become 2)"
    assert preview(b"one\n", None, "delete").diff.endswith("-one\n")


def test_a_file_that_is_larger_than_any_of_ours_is_not_read(rig):
    rig.write("Suggestions/huge.md", "x")
    with (rig.vault / "Suggestions/huge.md").open("r+b") as file:
        file.truncate(1 << 40)  # of which the disk holds nothing; to read it would take a terabyte
    assert rig.suggestions.store.read(VaultPath("Suggestions/huge.md")) is None


def test_it_is_the_same_after_json():
    made = shown(text="x", words="no", after=(("a", "b"),), is_private=True, applying="r-2")
    assert record_from(json.loads(json.dumps(made.to_json()))) == made


def test_only_what_the_table_says_follows_a_state():
    waits = shown()
    started = waits.start("r-2", "user", None)
    assert started.waiting() == waits
    for state, following in (
        (waits, {"approved", "rejected", "superseded"}),
        (started, {"approved", "modified", "superseded"}),
        (waits.over("rejected", "user", "no", NOON), set()),
    ):
        for status in get_args(Status)[1:]:
            if status in following:
                assert state.over(status, "user", "", NOON).state == status
            else:
                with pytest.raises(EditRefusedError, match="by"):
                    state.over(status, "user", "", NOON)
    for state in (started, waits.over("approved", "user", "", NOON)):
        with pytest.raises(EditRefusedError):
            state.start("r-3", "user", None)


def test_what_is_none_is_refused():
    made = shown().to_json()
    for change in ({"document": None}, {"after": "x"}, {"document": {}}):
        with pytest.raises((ValueError, KeyError, TypeError)):
            record_from({**made, **change})
