"""Suggestions from proposal to effect: filed as a note, done once, by the one writer, or not at
all.
"""

from __future__ import annotations

import asyncio
import threading

import pytest

from parachuted.errors import (
    ActRefusedError,
    EditRefusedError,
    NotFoundError,
    PathRefusedError,
    StorageFailedError,
)
from parachuted.suggestions.applying import SuggestionApplier

KEVIN = "# Kevin\n\n## Facts\n\nA friend.\n\n## Recent Activity\n\n- 2024-01-01: Moved\n"


async def test_a_proposal_becomes_a_note_and_its_approval_a_run_of_its_own(rig):
    rig.write("Brain/Kevin.md", KEVIN)
    line = "- 2024-01-15: Discussed LVB"
    payload = {"section": "Recent Activity", "content": line, "append": True}
    made = await rig.propose("Brain/Kevin.md", payload, run="r-1", causes=("c-1",))
    assert rig.text("Brain/Kevin.md") == KEVIN
    said = (made.status, made.target_module, made.source_agent, made.causes)
    assert said == ("pending", "brain", "reflector", ("c-1",))
    for part in (
        "# Update Brain/Kevin.md",
        "> it follows from today's journal",
        "- [ ] approve\n- [ ] reject",
        f"+{line}",
    ):
        assert part in rig.said(made)
    assert rig.noticed == [rig.suggestions.record(made.id).file]
    assert [(event.event_type, event.target_endpoint) for event in rig.audit.events] == [
        ("suggestion", "suggestions.created")
    ]

    done = await rig.approve(made)
    assert (done.status, done.resolved_by) == ("approved", "user")
    assert rig.text("Brain/Kevin.md") == f"{KEVIN}{line}\n"
    (write,) = rig.history.writes_by(done.applied_run)
    assert (write.author.by, write.author.causes) == (f"suggestion:{made.id}", ("c-1",))
    document = rig.history.run(done.applied_run)
    assert (document["parents"], document["outcome"]) == (["r-1"], "changed")
    assert document["suggestion"]["resolved_by"] == "user"
    assert "**approved** by user" in rig.said(made)
    assert [event.event for event in rig.events] == ["suggestion.created", "suggestion.resolved"]


async def test_twice_at_once_and_again_later_is_one_effect(rig):
    rig.write("a.md", "one\n")
    made = await rig.propose("a.md", {"section": "New", "content": "x", "append": True})
    answers = await asyncio.gather(*(rig.approve(made) for _ in range(8)), return_exceptions=True)
    assert sorted(type(answer).__name__ for answer in answers) == ["EditRefusedError"] * 7 + [
        "Suggestion"
    ]
    with pytest.raises(EditRefusedError, match="was approved already, by user"):
        await rig.approve(made)
    with pytest.raises(EditRefusedError, match="was approved already"):
        await rig.suggestions.reject(made.id)
    assert rig.text("a.md").count("x") == 1


async def test_what_was_written_since_is_merged(rig):
    rig.write("a.md", "# A\n\none\n\ntwo\n\nthree\n")
    made = await rig.propose("a.md", {"text": "# A\n\nONE\n\ntwo\n\nthree\n"})
    rig.write("a.md", "# A\n\none\n\ntwo\n\nTHREE\n")
    done = await rig.approve(made)
    assert (done.status, rig.text("a.md")) == ("approved", "# A\n\nONE\n\ntwo\n\nTHREE\n")
    assert "merged" in done.outcome


async def test_what_clashes_is_superseded_with_both_texts_shown(rig):
    rig.write("a.md", "one\n")
    made = await rig.propose("a.md", {"text": "ours\n"})
    rig.write("a.md", "theirs\n")
    done = await rig.approve(made)
    assert (done.status, done.applied_run, rig.text("a.md")) == ("superseded", None, "theirs\n")
    file = rig.said(made)
    assert "## What would stand there\n\n```\nours\n```" in file
    assert "## What stands there now\n\n```\ntheirs\n```" in file


_OWN = "---\nup: 1\n---\n# A\n\n## S\n\nx\n"


@pytest.mark.parametrize(
    ("before", "payloads", "after"),
    [
        (
            "# A\n",
            [{"text": "# A\n\nbook:\n  fields: 1\n"}, {"text": "# A\n\nfilm:\n  fields: 1\n"}],
            "# A\n\nbook:\n  fields: 1\n\nfilm:\n  fields: 1\n",
        ),
        (
            _OWN,
            [{"section": "S", "content": word, "append": True} for word in ("y", "z")],
            _OWN + "y\nz\n",
        ),
        (_OWN, [{"section": "New", "content": w, "append": True} for w in "yz"], None),
        (_OWN, [{"to": "b"}, {"to": "c"}], _OWN + "\n## Links\n\n- [[b]]\n- [[c]]\n"),
        (_OWN, [{"key": "up", "value": 2}, {"key": "a", "value": 1}], None),
        (_OWN, [{"section": "S", "content": "y"}, {"key": "up", "value": 2}], None),
        (
            None,
            [{"text": f"k:\n  a: 1\n  {w}: 1\n", "over": "k:\n  a: 1\n"} for w in "bc"],
            "k:\n  a: 1\n  b: 1\n  c: 1\n",
        ),
    ],
)
async def test_several_that_wait_for_one_file_are_all_approved(rig, before, payloads, after):
    if before is not None:
        rig.write("a.md", before)
    action = "create" if before is None else "link" if "to" in payloads[0] else "update"
    made = [await rig.propose("a.md", payload, action) for payload in payloads]
    done = [await rig.approve(one) for one in made]
    assert [one.status for one in done] == ["approved", "approved"], done[1].outcome
    if after is not None:
        assert rig.text("a.md") == after
    assert "merged" in done[1].outcome


async def test_what_is_added_a_second_time_otherwise_is_superseded(rig):
    rig.write("a.md", "types:\n")
    made = [
        await rig.propose("a.md", {"text": f"types:\n  book:\n    fields: {fields}\n"})
        for fields in ("1", "2")
    ]
    done = [await rig.approve(one) for one in made]
    assert [one.status for one in done] == ["approved", "superseded"]
    assert rig.text("a.md") == "types:\n  book:\n    fields: 1\n"


async def test_create_delete_and_link_do_what_they_say(rig):
    rig.write("a.md", "# A\n")
    rig.write("old.md", "gone soon\n")
    for made in (
        await rig.propose("Brain/AI Safety.md", {"text": "# AI Safety\n"}, "create"),
        await rig.propose("old.md", {}, "delete"),
        await rig.propose("a.md", {"to": "AI Safety", "label": "safety"}, "link"),
    ):
        assert (await rig.approve(made)).status == "approved"
    assert rig.text("Brain/AI Safety.md") == "# AI Safety\n"
    assert not (rig.vault / "old.md").exists()
    assert "## Links\n\n- [[AI Safety|safety]]" in rig.text("a.md")


async def test_a_changed_file_is_not_removed_and_a_new_one_not_overwritten(rig):
    rig.write("old.md", "one\n")
    gone = await rig.propose("old.md", {}, "delete")
    new = await rig.propose("new.md", {"text": "mine\n"}, "create")
    rig.write("old.md", "two\n")
    rig.write("new.md", "yours\n")
    assert [(await rig.approve(one)).status for one in (gone, new)] == ["superseded"] * 2
    assert (rig.text("old.md"), rig.text("new.md")) == ("two\n", "yours\n")


async def test_a_person_may_change_what_was_suggested_and_do_that(rig):
    made = await rig.proposed()
    done = await rig.suggestions.modify(made.id, {"text": "three\n"})
    assert (done.status, done.modifications, done.payload, rig.text("a.md")) == (
        "modified",
        {"text": "three\n"},
        {"text": "two\n"},
        "three\n",
    )


async def test_a_rejected_one_changes_nothing_and_is_over(rig):
    made = await rig.proposed()
    again = await rig.propose("a.md", {"text": "two\n"})
    assert again.id == made.id  # the same is filed once
    assert len(list((rig.vault / "Suggestions").iterdir())) == 1
    done = await rig.suggestions.reject(made.id, reason="not true")
    assert (done.status, done.outcome, rig.text("a.md")) == ("rejected", "not true", "one\n")
    with pytest.raises(EditRefusedError, match="was rejected already"):
        await rig.approve(made)


@pytest.mark.parametrize(
    ("path", "payload", "action", "error"),
    [
        ("Modules/evil/module.py", {"text": "x"}, "create", PathRefusedError),
        ("a.md", {"text": "x"}, "create", EditRefusedError),
        ("a.md", {"text": "one\n"}, "update", EditRefusedError),
        ("none.md", {"text": "x"}, "update", NotFoundError),
        ("linked.md", {"text": "x"}, "update", PathRefusedError),
    ],
)
async def test_what_is_none_or_a_programs_is_not_filed(rig, path, payload, action, error):
    rig.write("a.md", "one\n")
    (rig.vault / "linked.md").symlink_to("a.md")
    with pytest.raises(error):
        await rig.propose(path, payload, action)
    assert not (rig.vault / "Suggestions").exists()


async def test_a_link_that_came_to_stand_there_since_is_not_followed(rig):
    rig.write("a.md", "one\n")
    rig.write("secret.md", "one\n")
    made = await rig.propose("a.md", {"text": "two\n"})
    (rig.vault / "a.md").unlink()
    (rig.vault / "a.md").symlink_to("secret.md")
    with pytest.raises(PathRefusedError):
        await rig.approve(made)
    assert rig.text("secret.md") == "one\n"
    assert rig.now(made).is_pending


async def test_a_hook_that_objects_leaves_it_waiting(rig):
    refused = []

    def ask(intent):
        if intent.path == "a.md":
            refused.append(intent)
            raise ActRefusedError("not on Sundays")

    rig.ask = ask
    rig.reopen()
    made = await rig.proposed()
    with pytest.raises(ActRefusedError, match="Sundays"):
        await rig.approve(made)
    assert rig.now(made).is_pending
    assert (rig.text("a.md"), len(refused)) == ("one\n", 1)


async def test_nothing_is_filed_or_done_while_it_could_not_be_audited(rig):
    made = await rig.proposed()
    rig.audit.refusal = "the disk is full"
    with pytest.raises(StorageFailedError):
        await rig.propose("a.md", {"text": "three\n"})
    with pytest.raises(StorageFailedError):
        await rig.approve(made)
    assert rig.text("a.md") == "one\n"


async def test_one_agent_cannot_bury_a_person_in_suggestions(rig, monkeypatch):
    monkeypatch.setattr("parachuted.suggestions.suggestions._MOST_OF_ONE", 10)
    rig.write("a.md", "one\n")
    for number in range(10):
        await rig.propose("a.md", {"text": f"{number}\n"})
    with pytest.raises(ActRefusedError, match="10 suggestions wait"):
        await rig.propose("a.md", {"text": "x\n"})
    await rig.propose("a.md", {"text": "x\n"}, source_agent="another")


async def test_all_that_wait_are_approved_in_order_and_what_cannot_be_is_said(rig):
    rig.write("a.md", "one\n")
    first = await rig.propose("a.md", {"section": "S", "content": "1", "append": True})
    second = await rig.created()
    (rig.vault / "b.md").symlink_to("a.md")
    done, failed = await rig.suggestions.approve_all()
    assert ([one.id for one in done], list(failed)) == ([first.id], [second.id])


async def test_what_a_person_decides_while_all_are_approved_is_passed_over(rig):
    rig.write("a.md", "one\n")
    first = await rig.propose("a.md", {"section": "S", "content": "1", "append": True})
    second = await rig.created()

    async def meanwhile(suggestion):
        if suggestion.id == first.id:
            await rig.suggestions.reject(second.id)

    done, failed = await rig.suggestions.approve_all(check=meanwhile)
    assert ([one.id for one in done], failed) == ([first.id], {})


async def test_what_a_stranger_led_to_stays_a_strangers_text_once_approved(rig):
    rig.write("a.md", "one\n")
    rig.write("b.md", "one\n")
    made = await rig.propose("a.md", {"text": "two\n"}, is_strangers=True)
    clash = await rig.propose("b.md", {"text": "two\n"}, is_strangers=True)
    await rig.approve(made)
    rig.write("b.md", "three\n")
    assert (await rig.approve(clash)).status == "superseded"
    assert rig.text("a.md") == "---\norigin: stranger\n---\ntwo\n"
    assert rig.text("b.md") == "three\n"
    assert "origin: stranger" in rig.said(made)


async def test_a_crash_between_write_and_record_leaves_one_effect_and_one_run(rig, monkeypatch):
    rig.write("a.md", "one\n")
    made = await rig.propose("a.md", {"section": "S", "content": "x", "append": True})

    def crash(*_args, **_more):
        raise KeyboardInterrupt

    monkeypatch.setattr(SuggestionApplier, "_save_run", crash)
    record = rig.suggestions.record(made.id)
    with pytest.raises(KeyboardInterrupt):
        rig.suggestions._applier.apply(record, "user", None)
    monkeypatch.undo()
    rig.reopen()
    assert rig.now(made).is_pending
    await rig.suggestions.settle()
    assert rig.audit.events[-1].target_endpoint == "suggestions.approved"
    done = rig.now(made)
    assert (done.status, rig.text("a.md").count("x")) == ("approved", 1)
    assert rig.history.run(done.applied_run)["outcome"] == "changed"
    with pytest.raises(EditRefusedError, match="already"):
        await rig.approve(made)


async def test_who_gives_up_waiting_for_an_approval_leaves_it_whole(rig):
    made = await rig.proposed()
    async with asyncio.TaskGroup() as group:
        task = group.create_task(rig.approve(made))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        task.cancel()
    done = rig.now(made)
    assert (done.is_pending, rig.text("a.md")) in {(False, "two\n"), (True, "one\n")}
    assert [event.event for event in rig.events].count("suggestion.resolved") == (
        not done.is_pending
    )


async def test_a_batch_is_each_of_those_that_it_stands_for_and_nothing_else(rig):
    first, second, other = await rig.proposed(), await rig.created(), await rig.created("c")
    batch = await rig.batch(first, second)
    for part in ("# 2 suggestions at once", "+two", "+b"):
        assert part in rig.said(batch)
    assert rig.suggestions.all(sees=lambda path: path == "a.md") == [first]
    found = [await rig.approve(batch), *(rig.now(one) for one in (first, second, other))]
    assert [one.status for one in found] == ["approved"] * 3 + ["pending"]
    assert (rig.text("a.md"), rig.text("b.md")) == ("two\n", "b\n")
    assert not (rig.vault / "c.md").exists()
    for several in ([other], [first, other], [batch, other]):
        with pytest.raises(EditRefusedError, match="a batch is of 2 to 50"):
            await rig.batch(*several)


async def test_an_approval_stands_though_its_file_cannot_follow(rig):
    made, other = await rig.proposed(), await rig.created()
    file = rig.file(made)
    file.unlink()
    file.mkdir()
    assert (await rig.approve(made)).status == "approved"
    assert rig.text("a.md") == "two\n"
    assert "could not be written" in rig.suggestions.trouble
    await rig.suggestions.reject(other.id)
    assert rig.suggestions.trouble is None


async def test_words_written_into_its_file_while_it_is_approved_cost_nothing(rig):
    made = await rig.proposed()
    store, entered, go_on = rig.suggestions.store, threading.Event(), threading.Event()
    say = store.say

    def slowly(record, words, seen):
        entered.set()
        assert go_on.wait(60)
        return say(record, words, seen)

    store.say = slowly
    async with asyncio.TaskGroup() as group:
        saying = group.create_task(rig.suggestions.say(made.id, "It said something else."))
        await asyncio.to_thread(entered.wait, 10)
        approving = group.create_task(rig.approve(made))
        await asyncio.wait({approving}, timeout=0.05)
        go_on.set()
    assert saying.done()
    assert approving.result().status == rig.now(made).status == "approved"
    assert rig.text("a.md") == "two\n"
    with pytest.raises(EditRefusedError, match="approved already"):
        await rig.suggestions.reject(made.id)


@pytest.mark.parametrize(
    "payload", [{"base64": "!!"}, {"section": "Facts", "content": "x\n\n## Other\n"}]
)
async def test_a_change_of_it_that_cannot_be_made_leaves_it_waiting(rig, payload):
    made = await rig.proposed()
    with pytest.raises(EditRefusedError):
        await rig.suggestions.modify(made.id, payload)
    assert (rig.now(made).status, rig.text("a.md")) == ("pending", "one\n")
    assert (await rig.approve(made)).status == "approved"


@pytest.mark.parametrize("base", ["", "x", "../../../etc/passwd", "f" * 63, "F" * 64])
async def test_a_base_that_is_not_a_digest_is_refused_in_words(rig, base):
    rig.write("a.md", "one\n")
    with pytest.raises(EditRefusedError, match="base should be the digest"):
        await rig.propose("a.md", {"text": "two\n"}, base=base)
