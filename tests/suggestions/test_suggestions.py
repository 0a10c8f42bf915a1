"""Suggestions from proposal to effect: filed as a note, done once, by the one writer, or not at
all.
"""

from __future__ import annotations

import asyncio
import threading
from dataclasses import replace

import pytest

from parachuted.errors import (
    ActRefusedError,
    EditRefusedError,
    NotFoundError,
    PathRefusedError,
    StorageFailedError,
)
from parachuted.suggestions import Proposal

KEVIN = "# Kevin\n\n## Facts\n\nA friend.\n\n## Recent Activity\n\n- 2024-01-01: Moved\n"


async def test_a_proposal_becomes_a_note_that_a_person_can_read_and_changes_nothing_else(office):
    office.write("Brain/Kevin.md", KEVIN)
    made = await office.propose(
        "Brain/Kevin.md",
        {"section": "Recent Activity", "content": "- 2024-01-15: Discussed LVB", "append": True},
        run="r-1",
        causes=("c-1",),
    )
    text = office.file(made).read_text("utf-8")
    assert office.text("Brain/Kevin.md") == KEVIN
    assert (made.status, made.target_module, made.source_agent, made.causes) == (
        "pending",
        "brain",
        "reflector",
        ("c-1",),
    )
    for part in (
        "# Update Brain/Kevin.md",
        "> it follows from today's journal",
        "- [ ] approve\n- [ ] reject",
        "+- 2024-01-15: Discussed LVB",
    ):
        assert part in text
    assert office.noticed == [office.suggestions.record(made.id).file]
    assert [event.event for event in office.events] == ["suggestion.created"]
    assert [(event.event_type, event.target_endpoint) for event in office.audit.events] == [
        ("suggestion", "suggestions.created")
    ]


async def test_an_approval_is_a_run_of_its_own_that_carries_the_cause_and_can_be_undone(office):
    office.write("Brain/Kevin.md", KEVIN)
    made = await office.propose(
        "Brain/Kevin.md",
        {"section": "Facts", "content": "A good friend."},
        run="r-1",
        causes=("c-1",),
    )
    done = await office.suggestions.approve(made.id)

    assert (done.status, done.resolved_by) == ("approved", "user")
    assert office.text("Brain/Kevin.md") == KEVIN.replace("A friend.", "A good friend.")
    (write,) = office.history.writes_by(done.applied_run)
    assert (write.author.by, write.author.causes) == (f"suggestion:{made.id}", ("c-1",))
    document = office.history.run(done.applied_run)
    assert (document["parents"], document["outcome"], document["suggestion"]["resolved_by"]) == (
        ["r-1"],
        "changed",
        "user",
    )
    assert "**approved** by user" in office.file(made).read_text("utf-8")
    assert [event.event for event in office.events] == ["suggestion.created", "suggestion.resolved"]


async def test_twice_at_once_and_again_later_is_one_effect(office):
    office.write("a.md", "one\n")
    made = await office.propose("a.md", {"section": "New", "content": "x", "append": True})
    answers = await asyncio.gather(
        *(office.suggestions.approve(made.id) for _ in range(8)), return_exceptions=True
    )
    assert sorted(type(answer).__name__ for answer in answers) == ["EditRefusedError"] * 7 + [
        "Suggestion"
    ]
    with pytest.raises(EditRefusedError, match="was approved already, by user"):
        await office.suggestions.approve(made.id)
    with pytest.raises(EditRefusedError, match="was approved already"):
        await office.suggestions.reject(made.id)
    assert office.text("a.md").count("x") == 1


async def test_what_was_written_since_is_merged(office):
    office.write("a.md", "# A\n\none\n\ntwo\n\nthree\n")
    made = await office.propose("a.md", {"text": "# A\n\nONE\n\ntwo\n\nthree\n"})
    office.write("a.md", "# A\n\none\n\ntwo\n\nTHREE\n")
    done = await office.suggestions.approve(made.id)
    assert (done.status, office.text("a.md")) == ("approved", "# A\n\nONE\n\ntwo\n\nTHREE\n")
    assert "merged" in done.outcome


async def test_what_clashes_with_what_was_written_since_is_superseded_with_both_texts_shown(office):
    office.write("a.md", "one\n")
    made = await office.propose("a.md", {"text": "ours\n"})
    office.write("a.md", "theirs\n")
    done = await office.suggestions.approve(made.id)
    assert (done.status, done.applied_run, office.text("a.md")) == ("superseded", None, "theirs\n")
    file = office.file(made).read_text("utf-8")
    assert "## What would stand there\n\n```\nours\n```" in file
    assert "## What stands there now\n\n```\ntheirs\n```" in file


async def test_create_delete_and_link_do_what_they_say(office):
    office.write("a.md", "# A\n")
    office.write("old.md", "gone soon\n")
    for made in (
        await office.propose("Brain/AI Safety.md", {"text": "# AI Safety\n"}, "create"),
        await office.propose("old.md", {}, "delete"),
        await office.propose("a.md", {"to": "AI Safety", "label": "safety"}, "link"),
    ):
        assert (await office.suggestions.approve(made.id)).status == "approved"
    assert office.text("Brain/AI Safety.md") == "# AI Safety\n"
    assert not (office.vault / "old.md").exists()
    assert "## Links\n\n- [[AI Safety|safety]]" in office.text("a.md")


async def test_a_file_that_was_changed_is_not_removed_and_a_new_one_not_overwritten(office):
    office.write("old.md", "one\n")
    gone = await office.propose("old.md", {}, "delete")
    new = await office.propose("new.md", {"text": "mine\n"}, "create")
    office.write("old.md", "two\n")
    office.write("new.md", "yours\n")
    assert [(await office.suggestions.approve(one.id)).status for one in (gone, new)] == [
        "superseded",
        "superseded",
    ]
    assert (office.text("old.md"), office.text("new.md")) == ("two\n", "yours\n")


async def test_a_person_may_change_what_was_suggested_and_do_that(office):
    office.write("a.md", "one\n")
    made = await office.propose("a.md", {"text": "two\n"})
    done = await office.suggestions.modify(made.id, {"text": "three\n"})
    assert (done.status, done.modifications, done.payload, office.text("a.md")) == (
        "modified",
        {"text": "three\n"},
        {"text": "two\n"},
        "three\n",
    )


async def test_a_rejected_one_changes_nothing_and_is_over(office):
    office.write("a.md", "one\n")
    made = await office.propose("a.md", {"text": "two\n"})
    done = await office.suggestions.reject(made.id, reason="not true")
    assert (done.status, done.outcome, office.text("a.md")) == ("rejected", "not true", "one\n")
    with pytest.raises(EditRefusedError, match="was rejected already"):
        await office.suggestions.approve(made.id)


async def test_the_same_proposal_is_filed_once(office):
    office.write("a.md", "one\n")
    first, second = (
        await office.propose("a.md", {"text": "two\n"}),
        await office.propose("a.md", {"text": "two\n"}),
    )
    assert first.id == second.id
    assert len(list((office.vault / "Suggestions").iterdir())) == 1


@pytest.mark.parametrize(
    ("path", "payload", "action", "error"),
    [
        ("Modules/evil/module.py", {"text": "x"}, "create", PathRefusedError),
        ("MODULES/evil/module.py", {"text": "x"}, "create", PathRefusedError),
        (".parachute/x.md", {"text": "x"}, "create", PathRefusedError),
        ("Projects/.claude/settings.json", {"text": "x"}, "create", PathRefusedError),
        ("Suggestions/x.md", {"text": "x"}, "create", PathRefusedError),
        ("../x.md", {"text": "x"}, "create", PathRefusedError),
        ("a.md", {"text": "x"}, "create", EditRefusedError),
        ("a.md", {"text": "one\n"}, "update", EditRefusedError),
        ("a.md", {"text": "x", "section": "y"}, "update", EditRefusedError),
        ("a.md", {"text": 3}, "update", EditRefusedError),
        ("a.md", {"force": "x"}, "delete", EditRefusedError),
        ("a.md", {"to": "b]]x"}, "link", EditRefusedError),
        ("none.md", {"text": "x"}, "update", NotFoundError),
        ("linked.md", {"text": "x"}, "update", PathRefusedError),
    ],
)
async def test_what_is_none_or_a_programs_is_not_filed(office, path, payload, action, error):
    office.write("a.md", "one\n")
    (office.vault / "linked.md").symlink_to("a.md")
    with pytest.raises(error):
        await office.propose(path, payload, action)
    assert not (office.vault / "Suggestions").exists()


async def test_a_link_that_came_to_stand_there_since_is_not_followed(office):
    office.write("a.md", "one\n")
    office.write("secret.md", "one\n")
    made = await office.propose("a.md", {"text": "two\n"})
    (office.vault / "a.md").unlink()
    (office.vault / "a.md").symlink_to("secret.md")
    with pytest.raises(PathRefusedError):
        await office.suggestions.approve(made.id)
    assert office.text("secret.md") == "one\n"
    assert office.suggestions.get(made.id).is_pending


async def test_a_hook_that_objects_leaves_it_waiting(office):
    refused = []

    def ask(intent):
        if intent.path == "a.md":
            refused.append(intent)
            raise ActRefusedError("not on Sundays")

    office.close()
    office.ask = ask
    office.open()
    office.write("a.md", "one\n")
    made = await office.propose("a.md", {"text": "two\n"})
    with pytest.raises(ActRefusedError, match="Sundays"):
        await office.suggestions.approve(made.id)
    assert office.suggestions.get(made.id).is_pending
    assert (office.text("a.md"), len(refused)) == ("one\n", 1)


async def test_nothing_is_filed_or_done_while_it_could_not_be_audited(office):
    office.write("a.md", "one\n")
    made = await office.propose("a.md", {"text": "two\n"})
    office.audit.refusal = "the disk is full"
    with pytest.raises(StorageFailedError):
        await office.propose("a.md", {"text": "three\n"})
    with pytest.raises(StorageFailedError):
        await office.suggestions.approve(made.id)
    assert office.text("a.md") == "one\n"


async def test_one_agent_cannot_bury_a_person_in_suggestions(office):
    office.write("a.md", "one\n")
    for number in range(100):
        await office.propose("a.md", {"text": f"{number}\n"})
    with pytest.raises(ActRefusedError, match="100 suggestions wait"):
        await office.propose("a.md", {"text": "x\n"})
    await office.propose("a.md", {"text": "x\n"}, source_agent="another")


async def test_all_that_wait_are_approved_in_their_order_and_what_cannot_be_is_told(office):
    office.write("a.md", "one\n")
    first = await office.propose("a.md", {"section": "S", "content": "1", "append": True})
    second = await office.propose("b.md", {"text": "b\n"}, "create")
    (office.vault / "b.md").symlink_to("a.md")
    done, failed = await office.suggestions.approve_all()
    assert ([one.id for one in done], list(failed)) == ([first.id], [second.id])


async def test_who_does_not_see_the_file_sees_nothing_of_the_suggestion(office):
    office.write("a.md", "one\n")
    made = await office.propose("a.md", {"text": "two\n"})
    assert office.suggestions.all(sees=lambda path: path != "a.md") == []
    with pytest.raises(NotFoundError) as unseen:
        office.suggestions.get(made.id, sees=lambda path: path != "a.md")
    with pytest.raises(NotFoundError) as unknown:
        office.suggestions.get("s0000000000")
    assert str(unseen.value).replace(made.id, "") == str(unknown.value).replace("s0000000000", "")


async def test_what_a_stranger_led_to_stays_a_strangers_text_after_it_was_approved(office):
    office.write("a.md", "one\n")
    office.write("b.md", "one\n")
    made = await office.propose("a.md", {"text": "two\n"}, origin="web")
    clash = await office.propose("b.md", {"text": "two\n"}, origin="web")
    await office.suggestions.approve(made.id)
    office.write("b.md", "three\n")
    assert (await office.suggestions.approve(clash.id)).status == "superseded"
    assert office.origins.recorded() == {"a.md": "web"}
    assert "origin: web" in office.file(made).read_text("utf-8")


async def test_once_a_person_agreed_often_enough_an_agents_updates_are_done_at_once_if_they_chose_so(  # noqa: E501
    office,
):
    office.close()
    office.rate = 0.9
    office.open()
    office.write("a.md", "0\n")
    for number in range(20):
        made = await office.propose("a.md", {"text": f"{number + 1}\n"})
        assert made.is_pending
        await office.suggestions.approve(made.id)
    done = await office.propose("a.md", {"text": "at once\n"})
    assert (done.status, done.resolved_by, office.text("a.md")) == ("approved", "auto", "at once\n")
    assert office.history.run(done.applied_run)["suggestion"]["resolved_by"] == "auto"
    for payload, more in (
        ({"text": "strange\n"}, {"origin": "web"}),
        ({"text": "another\n"}, {"source_agent": "another"}),
        ({"key": "watch", "value": ["Daily/**"]}, {}),
    ):
        assert (await office.propose("a.md", payload, **more)).is_pending
    assert (await office.propose("a.md", {}, "delete")).is_pending
    assert office.text("a.md") == "at once\n"


async def test_a_crash_between_the_write_and_its_record_leaves_one_effect_and_one_run(
    office, monkeypatch
):
    office.write("a.md", "one\n")
    made = await office.propose("a.md", {"section": "S", "content": "x", "append": True})

    def crash(*_args, **_more):
        raise KeyboardInterrupt

    monkeypatch.setattr("parachuted.suggestions.suggestions.save_run", crash)
    with pytest.raises(KeyboardInterrupt):
        office.suggestions._apply(office.suggestions.record(made.id), "user", None)
    monkeypatch.undo()
    office.reopen()
    assert office.suggestions.get(made.id).is_pending
    office.suggestions.settle()
    done = office.suggestions.get(made.id)
    assert (done.status, office.text("a.md").count("x")) == ("approved", 1)
    assert office.history.run(done.applied_run)["outcome"] == "changed"
    with pytest.raises(EditRefusedError, match="already"):
        await office.suggestions.approve(made.id)


async def test_a_crash_before_the_write_leaves_it_waiting(office, monkeypatch):
    office.write("a.md", "one\n")
    made = await office.propose("a.md", {"text": "two\n"})
    record = office.suggestions.record(made.id)
    office.suggestions.store.keep(replace(record, applying="r-never-wrote"))
    office.reopen()
    office.suggestions.settle()
    assert (await office.suggestions.approve(made.id)).status == "approved"
    assert office.text("a.md") == "two\n"


async def test_who_gives_up_waiting_for_an_approval_leaves_it_whole(office):
    office.write("a.md", "one\n")
    made = await office.propose("a.md", {"text": "two\n"})
    async with asyncio.TaskGroup() as group:
        task = group.create_task(office.suggestions.approve(made.id))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        task.cancel()
    done = office.suggestions.get(made.id)
    assert (done.is_pending, office.text("a.md")) in {(False, "two\n"), (True, "one\n")}
    assert [event.event for event in office.events].count("suggestion.resolved") == (
        not done.is_pending
    )


async def test_a_batch_is_each_of_those_that_it_stands_for_and_nothing_else(office):
    office.write("a.md", "one\n")
    first, second = (
        await office.propose("a.md", {"text": "two\n"}),
        await office.propose("b.md", {"text": "b\n"}, "create"),
    )
    other = await office.propose("c.md", {"text": "c\n"}, "create")
    proposal = Proposal(
        source_agent="chief", action="update", path="", payload={}, reasoning="they belong together"
    )
    batch = await office.suggestions.propose_several([first.id, second.id], proposal)
    text = office.file(batch).read_text("utf-8")
    assert "# 2 suggestions at once" in text
    assert "+two" in text
    assert "+b" in text
    assert office.suggestions.all(sees=lambda path: path == "a.md") == [first]
    done = await office.suggestions.approve(batch.id)
    assert (
        done.status,
        [office.suggestions.get(one.id).status for one in (first, second, other)],
    ) == (
        "approved",
        ["approved", "approved", "pending"],
    )
    assert (office.text("a.md"), office.text("b.md"), (office.vault / "c.md").exists()) == (
        "two\n",
        "b\n",
        False,
    )
    for names in ([other.id], [first.id, other.id], [batch.id, other.id]):
        with pytest.raises(EditRefusedError, match="a batch is of 2 to 50"):
            await office.suggestions.propose_several(names, proposal)


async def test_an_approval_stands_when_its_file_cannot_follow_and_the_trouble_is_told_until_it_can(
    office,
):
    office.write("a.md", "one\n")
    made, other = (
        await office.propose("a.md", {"text": "two\n"}),
        await office.propose("b.md", {"text": "b\n"}, "create"),
    )
    file = office.file(made)
    file.unlink()
    file.mkdir()
    assert (await office.suggestions.approve(made.id)).status == "approved"
    assert office.text("a.md") == "two\n"
    assert "could not be written" in office.suggestions.trouble
    await office.suggestions.reject(other.id)
    assert office.suggestions.trouble is None


async def test_words_that_are_written_into_its_file_while_it_is_approved_take_nothing_back(office):
    office.write("a.md", "one\n")
    made = await office.propose("a.md", {"text": "two\n"})
    store, entered, go_on = office.suggestions.store, threading.Event(), threading.Event()
    say = store.say

    def slowly(record, words):
        entered.set()
        assert go_on.wait(10)
        return say(record, words)

    store.say = slowly
    async with asyncio.TaskGroup() as group:
        saying = group.create_task(office.suggestions.say(made.id, "It said something else."))
        await asyncio.to_thread(entered.wait, 10)
        approving = group.create_task(office.suggestions.approve(made.id))
        await asyncio.wait({approving}, timeout=0.3)
        go_on.set()
    assert saying.done()
    assert (
        approving.result().status,
        office.suggestions.get(made.id).status,
        office.text("a.md"),
    ) == ("approved", "approved", "two\n")
    with pytest.raises(EditRefusedError, match="approved already"):
        await office.suggestions.reject(made.id)


@pytest.mark.parametrize(
    "payload", [{"base64": "!!"}, {"section": "Facts", "content": "x\n\n## Other\n"}]
)
async def test_a_change_of_it_that_cannot_be_made_leaves_it_waiting(office, payload):
    office.write("a.md", "one\n")
    made = await office.propose("a.md", {"text": "two\n"})
    with pytest.raises(EditRefusedError):
        await office.suggestions.modify(made.id, payload)
    assert (office.suggestions.get(made.id).status, office.text("a.md")) == ("pending", "one\n")
    assert (await office.suggestions.approve(made.id)).status == "approved"


@pytest.mark.parametrize("base", ["", "x", "../../../etc/passwd", "f" * 63, "F" * 64])
async def test_a_base_that_is_no_digest_is_refused_in_words(office, base):
    office.write("a.md", "one\n")
    with pytest.raises(EditRefusedError, match="base should be the digest"):
        await office.propose("a.md", {"text": "two\n"}, base=base)
