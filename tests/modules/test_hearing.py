"""Hearing: a module is told of files that it may read, and of no others."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from parachuted.events import Event
from parachuted.modules.bounds import Bounds
from parachuted.modules.hearing import heard

DAILY = Bounds.of_module("daily", read=["Daily/**"], write=[])


def event(name: str, /, **data: object) -> Event:
    return Event(id=1, event=name, timestamp=datetime(2026, 1, 5, tzinfo=UTC), data=data)


@pytest.mark.parametrize(
    "told",
    [
        event("file.modified", path="Daily/today.md", digest="x"),
        event("file.moved", path="Daily/a.md", **{"from": "Daily/b.md"}),
        event("task.queued", task="t", watcher="Daily/AGENTS.md", paths=["Daily/a.md"]),
        event("module.enabled", name="brain", version="1.0.0"),
        event("brain.mention.detected", source_id="s", para_id="p"),
    ],
)
def test_what_names_only_files_that_it_may_read_is_told_as_it_is(told):
    assert heard(told, DAILY) is told


@pytest.mark.parametrize(
    "told",
    [
        event("file.modified", path="Private/diary.md", digest="x"),
        event("file.modified", path="Daily/.hidden/x.md", digest="x"),
        event("file.moved", path="Private/a.md", **{"from": "Private/b.md"}),
        event("task.queued", task="t", watcher="Daily/AGENTS.md", paths=["Daily/a.md", "Private/a.md"]),
        event("run.undone", run="r", paths=[], kept=["Private/a.md"]),
        event("watch.removed", watcher="Private/AGENTS.md"),
        event("vault.problem", subject="x", problem="Private/diary.md cannot be read"),
        event("tool.after", tool_name="read_note", tool_input={}, tool_response={"text": "what stands in Private/diary.md"}),
    ],
)
def test_what_names_any_other_file_does_not_exist_for_it(told):
    assert heard(told, DAILY) is None


def test_a_file_that_comes_from_elsewhere_is_new_and_one_that_leaves_is_gone():
    came = heard(event("file.moved", path="Daily/a.md", digest="d", **{"from": "Private/b.md"}), DAILY)
    left = heard(event("file.moved", path="Private/b.md", digest="d", **{"from": "Daily/a.md"}), DAILY)

    assert (came.event, came.data) == ("file.created", {"path": "Daily/a.md", "digest": "d"})
    assert (left.event, left.data) == ("file.deleted", {"path": "Daily/a.md", "digest": None})


def test_the_words_of_an_agent_may_name_any_note_and_are_left_out():
    told = heard(event("run.finished", watcher="Daily/AGENTS.md", paths=["Daily/AGENTS.md"], reason="see Private/diary.md"), DAILY)

    assert told.data["reason"] == ""
