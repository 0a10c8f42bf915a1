"""The shelf: what is kept of suggestions outlives a daemon, and their files are never written over
a person's words unseen.
"""

from __future__ import annotations

import json
from dataclasses import fields, replace
from datetime import timedelta
from typing import get_args

import pytest

from parachuted.errors import EditRefusedError, NotFoundError, StorageFailedError
from parachuted.suggestions.store import KEY_FILE, Sealer, preview_of, record_from, record_of
from parachuted.suggestions.suggestion import (
    PlannedSuggestion,
    Status,
    Suggestion,
    SuggestionPreview,
)
from parachuted.vault import VaultPath
from tests.suggestions.sample_suggestions import NOON, suggestion

LATER = NOON + timedelta(days=1)


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


async def test_of_those_resolved_long_ago_the_names_alone_are_kept(rig, monkeypatch):
    monkeypatch.setattr("parachuted.suggestions.store._MOST_KEPT", 2)
    made = [await rig.propose(f"{number}.md", {"text": "x\n"}, "create") for number in range(4)]
    for one in made:
        await rig.suggestions.reject(one.id)
    assert [one.id for one in rig.suggestions.all()] == [made[3].id, made[2].id]
    assert [rig.suggestions.store.is_over(one.id) for one in made] == [True, True, False, False]


def test_all_of_what_would_change_is_shown_one_way_or_the_other():
    def preview(before, after, action="update"):
        planned = PlannedSuggestion(before=before, after=after, base=None)
        return preview_of(suggestion(action=action), planned)

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
    made = record_of(
        suggestion(),
        "Suggestions/x.md",
        SuggestionPreview(diff="+x", text="x", words="no", after=(("a", "b"),)),
    )
    assert record_from(json.loads(json.dumps(made.to_json()))) == made


def test_only_what_the_table_says_follows_a_state():
    waits = record_of(suggestion(), "Suggestions/x.md", SuggestionPreview(diff="+x"))
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
    made = record_of(suggestion(), "Suggestions/x.md", SuggestionPreview(diff="+x")).to_json()
    for change in ({"document": None}, {"after": "x"}, {"document": {}}):
        with pytest.raises((ValueError, KeyError, TypeError)):
            record_from({**made, **change})


def test_it_holds_for_what_is_shown_with_the_same_key_alone(home):
    sealer, made = Sealer(home), suggestion()
    seal = sealer.seal(made, "shown")
    assert Sealer(home).holds(seal, made, "shown")
    assert (home / KEY_FILE).stat().st_mode & 0o777 == 0o600
    assert len((home / KEY_FILE).read_text()) == 64
    assert not sealer.holds(seal, made, "shown otherwise")
    assert not sealer.holds("", made, "shown")
    assert not sealer.holds("é" * 64, made, "shown")
    (home / KEY_FILE).unlink()
    assert not Sealer(home).holds(seal, made, "shown")


@pytest.mark.parametrize("field", [field.name for field in fields(Suggestion)])
def test_it_breaks_with_any_field(home, field):
    others = {"timestamp": LATER, "resolved_at": LATER, "causes": ()}
    sealer, made = Sealer(home), suggestion()
    changed = replace(made, **{field: others.get(field, "another")})
    assert not sealer.holds(sealer.seal(made, "shown"), changed, "shown")


def test_a_key_that_others_could_read_or_that_is_none_seals_nothing(home):
    Sealer(home).seal(suggestion(), "")
    (home / KEY_FILE).chmod(0o644)
    with pytest.raises(StorageFailedError, match="chmod 600"):
        Sealer(home).seal(suggestion(), "")
    for text in ("", "zz", "00"):
        (home / KEY_FILE).write_text(text)
        (home / KEY_FILE).chmod(0o600)
        with pytest.raises(StorageFailedError, match="holds no key"):
            Sealer(home).seal(suggestion(), "")
