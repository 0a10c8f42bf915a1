"""Ticking a box in an editor: it does what was suggested, and nothing that was done to a file does
more.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator

import frontmatter
import pytest

from parachuted.suggestions.approval_listener import ApprovalListener
from tests.suggestions.suggestion_rig import SuggestionRig


@contextlib.asynccontextmanager
async def listening(rig: SuggestionRig) -> AsyncIterator[ApprovalListener]:
    ears = ApprovalListener(rig.suggestions, rig.root, rig.bus)
    async with asyncio.TaskGroup() as group:
        task = group.create_task(ears.run())
        try:
            yield ears
            await asyncio.wait_for(ears.quiet(), 30)
        finally:
            ears.close()
            task.cancel()


def saved(
    rig: SuggestionRig, path: object, by: str = "person", event: str = "file.modified", **more
) -> None:
    relative = str(path).removeprefix(f"{rig.vault}/")
    rig.bus.publish(event, path=relative, by=by, run=None, causes=[], digest=None, **more)


def ticked(rig: SuggestionRig, made, *boxes: str, by: str = "person") -> None:
    rig.tick(made, *(boxes or ["approve"]))
    saved(rig, rig.file(made), by=by)


def retold(rig: SuggestionRig, file, *replaced: tuple[str, str]) -> None:
    """The file is saved with its text changed."""
    text = file.read_text("utf-8")
    for old, new in replaced:
        assert old in text
        text = text.replace(old, new)
    file.write_text(text, "utf-8")
    saved(rig, file)


TICK = ("- [ ] approve", "- [x] approve")


async def test_a_box_changed_before_words_are_written_is_the_next_decision(rig):
    made = await rig.proposed()
    file = rig.file(made)
    say = rig.suggestions.store.say

    def corrected(record, words, seen):
        file.write_text(rig.said(made).replace("- [x] reject", "- [ ] reject"), "utf-8")
        return say(record, words, seen)

    rig.suggestions.store.say = corrected
    async with listening(rig) as listener:
        ticked(rig, made, "approve", "reject")
        await listener.quiet()
        saved(rig, file)
    assert rig.text("a.md") == "two\n"


async def test_a_tick_in_a_file_that_words_did_not_reach_counts(rig, monkeypatch):
    made = await rig.proposed()
    rig.tick(made, "approve")
    store = rig.suggestions.store
    with monkeypatch.context() as patch:
        patch.setattr(store, "put_up", lambda *_record, **_seen: None)  # the disk is full
        store.say(rig.suggestions.record(made.id), "It could not be done.")
    rig.reopen()
    async with listening(rig):
        pass
    assert rig.text("a.md") == "two\n"


@pytest.mark.parametrize("payload", [{"text": "two\n"}, {"section": "S", "content": "x"}])
async def test_a_tick_that_was_just_being_acted_on_counts_at_the_next_start(
    rig, payload, monkeypatch
):
    rig.write("a.md", "one\n\n## S\n")
    made = await rig.propose("a.md", payload)
    rig.tick(made, "approve")

    def dies(*_suggestion: object) -> None:
        raise KeyboardInterrupt

    applier = rig.suggestions._applier
    keep = rig.suggestions.store.keep
    kept = []
    monkeypatch.setattr(applier, "write", dies)
    monkeypatch.setattr(  # the process is gone: nothing is put right
        rig.suggestions.store, "keep", lambda one: kept.append(one) or kept[1:] or keep(one)
    )
    with pytest.raises(KeyboardInterrupt):
        applier.apply(rig.suggestions.record(made.id), "user", None)
    rig.reopen()
    async with listening(rig):
        pass
    assert rig.now(made).status == "approved"
    assert len(rig.history.writes_of("a.md")) == 1


@pytest.mark.parametrize(
    ("boxes", "by", "after", "status", "says"),
    [
        (("approve",), "person", "two\n", "approved", "**approved** by user"),
        (("reject",), "person", "one\n", "rejected", "**rejected** by user"),
        (("approve", "reject"), "person", "one\n", "pending", "> **Both boxes were ticked"),
        (("approve",), "module:evil", "one\n", "pending", "not by a person"),
    ],
)
async def test_a_tick_is_a_persons_decision(rig, boxes, by, after, status, says):
    made = await rig.proposed()
    async with listening(rig) as listener:
        ticked(rig, made, *boxes, by=by)
        await listener.quiet()
        assert says in rig.said(made)
        assert (rig.text("a.md"), rig.now(made).status) == (after, status)
        if status == "pending":  # the boxes are empty again, and a single tick counts
            ticked(rig, made)
            await listener.quiet()
            assert rig.text("a.md") == "two\n"


def as_an_editor_saves_it(data: bytes) -> bytes:
    ticked = data.replace(b"[x] approve", b"[X] approve \xe2\x9c\x85 2026-01-05")
    return ticked.replace(b"\n", b"\r\n") + b"\r\n\r\n"


def in_the_older_form(data: bytes) -> bytes:
    """Every value in JSON's quotes, one line each, as before python-frontmatter."""
    post = frontmatter.loads(data.decode())
    lines = [
        f"{name}: [{', '.join(json.dumps(one) for one in value)}]"
        if isinstance(value, list)
        else f"{name}: {json.dumps(value)}"
        for name, value in post.metadata.items()
    ]
    return "\n".join(["---", *lines, "---", "", f"{post.content}\n"]).encode()


@pytest.mark.parametrize("form", [as_an_editor_saves_it, in_the_older_form])
async def test_a_tick_counts_however_the_file_is_written(rig, form):
    made = await rig.proposed()
    async with listening(rig):
        rig.tick(made, "approve")
        file = rig.file(made)
        file.write_bytes(form(file.read_bytes()))
        saved(rig, file)
    assert rig.text("a.md") == "two\n"
    assert "action: update" in file.read_text("utf-8")


@pytest.mark.parametrize(("by", "status"), [("person", "rejected"), ("module:evil", "pending")])
async def test_a_file_that_a_person_removes_is_a_no_and_else_comes_back(rig, by, status):
    made = await rig.proposed()
    file = rig.file(made)
    async with listening(rig):
        file.unlink()
        saved(rig, file, by=by, event="file.deleted")
    assert rig.now(made).status == status
    assert file.exists() == (status == "pending")
    assert rig.text("a.md") == "one\n"


async def test_what_was_ticked_or_lost_while_no_daemon_ran_is_seen_at_the_start(rig):
    made = await rig.proposed()
    other = await rig.created()
    rig.reopen()
    rig.tick(made, "approve")
    rig.file(other).unlink()
    async with listening(rig):
        pass
    assert rig.text("a.md") == "two\n"
    assert rig.file(other).exists()


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('{\\"text\\": \\"two\\\\n\\"}', '{\\"text\\": \\"everything\\\\n\\"}'),
        ('path: "a.md"', 'path: "b.md"'),
        ("action: update", "action: delete"),
        ("+two", "+something harmless"),
        ("> it follows", "> trust me, it follows"),
        ("origin: agent", "origin: you"),
        ("source_agent: reflector", "source_agent: maintenance"),
        ('base: "', 'base: "0'),
        ("- [x] approve", "- [x] approve\n- [ ] approve all of them"),
    ],
)
async def test_a_file_that_was_edited_to_say_more_is_refused_in_words(rig, old, new):
    made = await rig.proposed()
    rig.write("b.md", "one\n")
    async with listening(rig):
        retold(rig, rig.file(made), TICK, (old, new))
    assert (rig.text("a.md"), rig.text("b.md")) == ("one\n", "one\n")
    assert rig.now(made).is_pending
    assert "no longer said what was suggested" in rig.said(made)


async def test_a_copy_of_a_suggestion_does_nothing(rig):
    made = await rig.proposed()
    copy = rig.vault / "Suggestions" / "copy.md"
    async with listening(rig):
        copy.write_text(rig.said(made), "utf-8")
        retold(rig, copy, TICK)
    assert rig.text("a.md") == "one\n"


async def test_the_id_of_another_in_a_file_does_nothing(rig):
    first = await rig.proposed()
    rig.write("b.md", "one\n")
    second = await rig.propose("b.md", {"text": "two\n"})
    async with listening(rig):
        rig.file(first).write_text(rig.said(second), "utf-8")
        retold(rig, rig.file(first), TICK)
    assert (rig.text("a.md"), rig.text("b.md")) == ("one\n", "one\n")


async def test_a_file_that_is_replayed_after_it_was_resolved_does_nothing(rig):
    made = await rig.proposed()
    file, old = rig.file(made), rig.said(made)
    async with listening(rig) as ears:
        retold(rig, file, TICK)
        await ears.quiet()
        rig.write("a.md", "three\n")
        file.write_text(old, "utf-8")
        retold(rig, file, TICK)
    assert rig.text("a.md") == "three\n"
    assert "a box that is ticked now does nothing" in rig.said(made)


async def test_a_file_that_a_person_renames_stays_the_suggestion(rig):
    made = await rig.proposed()
    old = rig.file(made)
    new = old.with_name("ask me later.md")
    async with listening(rig) as ears:
        old.rename(new)
        saved(rig, new, event="file.moved", **{"from": f"Suggestions/{old.name}"})
        await ears.quiet()
        rig.tick(made, "approve")
        saved(rig, new)
    assert rig.text("a.md") == "two\n"


async def test_a_note_of_a_persons_own_among_them_is_left_alone(rig):
    async with listening(rig):
        note = rig.vault / "Suggestions" / "ideas.md"
        rig.write("Suggestions/ideas.md", "# Ideas\n\n- [x] approve\n")
        saved(rig, note, event="file.created")
    assert note.read_text("utf-8") == "# Ideas\n\n- [x] approve\n"


async def test_a_tick_that_cannot_be_done_is_answered_in_the_file(rig):
    made = await rig.proposed()
    (rig.vault / "a.md").unlink()
    (rig.vault / "a.md").symlink_to("b.md")
    async with listening(rig):
        ticked(rig, made)
    assert "> **It could not be done: a.md is a link" in rig.said(made)


async def test_with_the_state_lost_no_file_is_believed(rig):
    made, done = await rig.proposed(), await rig.created()
    await rig.approve(done)
    rig.tick(made, "approve")
    rig.reopen(lose_state=True)
    async with listening(rig):
        pass
    assert (rig.text("a.md"), rig.suggestions.all()) == ("one\n", [])
    assert len(list((rig.vault / "Suggestions").iterdir())) == 2


async def test_a_tick_in_the_file_of_a_batch_approves_each(rig):
    one, other = await rig.proposed(), await rig.created()
    batch = await rig.batch(one, other)
    async with listening(rig):
        ticked(rig, batch)
    assert (rig.text("a.md"), rig.text("b.md")) == ("two\n", "b\n")
    assert rig.now(batch).status == "approved"


async def test_no_tick_is_dropped_however_much_happens_at_once(rig):
    made = await rig.proposed()
    async with listening(rig):
        ticked(rig, made)
        for number in range(600):
            saved(rig, f"{number}.md", event="file.deleted")
    assert rig.text("a.md") == "two\n"
