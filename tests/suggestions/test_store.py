"""The shelf: what is kept of suggestions outlives a daemon, and their files are never written over
a person's words unseen.
"""

from __future__ import annotations

from dataclasses import replace

from parachuted.errors import NotFoundError
from parachuted.suggestions.store import shown_of
from parachuted.suggestions.suggestion import PlannedSuggestion
from parachuted.vault import VaultPath
from tests.suggestions.sample_suggestions import suggestion


async def test_all_are_there_in_the_next_life_but_for_a_record_that_cannot_be_read(suggestion_rig):
    first, second = [
        await suggestion_rig.propose(f"{name}.md", {"text": "x\n"}, "create") for name in "ab"
    ]
    suggestion_rig.state.table("suggestions").put(first.id, {"document": "x"})
    suggestion_rig.reopen()
    assert [one.id for one in suggestion_rig.suggestions.all()] == [second.id]


async def test_what_a_person_wrote_in_the_file_is_in_the_history_when_it_is_written_again(
    suggestion_rig,
):
    made = await suggestion_rig.propose("a.md", {"text": "x\n"}, "create")
    file = suggestion_rig.file(made)
    file.write_text(file.read_text("utf-8") + "\nmy own words\n", "utf-8")
    await suggestion_rig.suggestions.reject(made.id)
    before = [
        suggestion_rig.objects.get(write.before)
        for write in suggestion_rig.history.writes_of(str(file.relative_to(suggestion_rig.vault)))
        if write.before
    ]
    assert any(b"my own words" in text for text in before)


async def test_a_file_that_another_thread_has_made_in_that_moment_is_written_and_no_conflict(
    suggestion_rig, monkeypatch
):
    read, create, creations = suggestion_rig.store.read, suggestion_rig.store.create, []

    def not_there_yet(path, **options):
        if path.folder == "Suggestions" and not creations:
            raise NotFoundError(f"{path} is not in the vault")
        return read(path, **options)

    def create_behind_another(path, data, author):
        creations.append(path)
        create(path, data, author)
        return create(path, data, author)

    monkeypatch.setattr(suggestion_rig.store, "read", not_there_yet)
    monkeypatch.setattr(suggestion_rig.store, "create", create_behind_another)
    made = await suggestion_rig.propose("a.md", {"text": "x\n"}, "create")

    assert len(creations) == 1
    assert suggestion_rig.file(made).is_file()


async def test_of_those_resolved_long_ago_the_names_alone_are_kept_and_never_come_back(
    suggestion_rig, monkeypatch
):
    monkeypatch.setattr("parachuted.suggestions.store._MOST_KEPT", 2)
    made = [
        await suggestion_rig.propose(f"{number}.md", {"text": "x\n"}, "create")
        for number in range(4)
    ]
    for one in made:
        await suggestion_rig.suggestions.reject(one.id)
    assert [one.id for one in suggestion_rig.suggestions.all()] == [made[3].id, made[2].id]
    assert [suggestion_rig.suggestions.store.is_over(one.id) for one in made] == [
        True,
        True,
        False,
        False,
    ]


def test_all_of_what_would_change_is_shown_one_way_or_the_other():
    long = "".join(f"line {number}\n" for number in range(5_000))
    cut = shown_of(suggestion(), PlannedSuggestion(before=b"", after=long.encode(), base=None))
    assert cut.text == long
    assert (
        shown_of(suggestion(), PlannedSuggestion(before=b"one\n", after=b"two\n", base=None)).text
        is None
    )
    assert (
        shown_of(suggestion(), PlannedSuggestion(before=None, after=b"\0\1", base=None)).diff
        == "(no text: 0 bytes become 2)"
    )
    assert shown_of(
        replace(suggestion(), action="delete"),
        PlannedSuggestion(before=b"one\n", after=None, base=None),
    ).diff.endswith("-one\n")


def test_a_file_that_is_larger_than_any_of_ours_is_not_read(suggestion_rig):
    suggestion_rig.write("Suggestions/huge.md", "x")
    with (suggestion_rig.vault / "Suggestions/huge.md").open("r+b") as file:
        file.truncate(1 << 40)  # of which the disk holds nothing; to read it would take a terabyte
    assert suggestion_rig.suggestions.store.read(VaultPath("Suggestions/huge.md")) is None
