"""Account: the document of a run, from its beginning to its end."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from parachuted.agents import ChangedNote, RunResult, TextStep, ToolCallStep, ToolResult
from parachuted.history.run_account import RunAccount, RunAccounts, causes_of, has_ended, save
from parachuted.state import open_state
from parachuted.tasks import Cause, Causes, RunOutcome, Task
from parachuted.vault import History, ObjectStore, VaultPath, WriteResult

NOON = datetime(2026, 1, 5, 12, 0, tzinfo=UTC)
TASK = Task(
    id="t1",
    watcher="w.md",
    state="running",
    causes=("c1", "lost"),
    parents=("r0",),
    first_at=NOON,
    last_at=NOON,
    due_at=NOON,
    run="r1",
)


@dataclass
class Office:
    objects: ObjectStore
    history: History
    accounts: RunAccounts

    @property
    def document(self) -> dict[str, object]:
        document = self.history.run("r1")
        assert document is not None
        return document


@pytest.fixture
def suggestion_rig(tmp_path: Path) -> Iterator[Office]:
    causes = Causes(open_state(tmp_path / "state.journal"))
    causes.open(Cause(id="c1", kind="change", path="a.md", files=2, at=NOON))
    objects, history = ObjectStore(tmp_path / "objects"), History(tmp_path / "history.db")
    yield Office(objects, history, RunAccounts(history, objects, causes))
    history.close()
    objects.close()


def account(*written: WriteResult, changes: int = 1) -> RunAccount:
    notes = [
        ChangedNote(path=f"n{number}.md", kind="modified", units=("Facts",), diff="-x\n+y")
        for number in range(changes)
    ]
    return RunAccount(
        task=TASK,
        backend="scripted",
        model="m",
        started=NOON,
        changes=notes,
        prompt="Look.",
        system_prompt="Be brief.",
        written=written,
    )


def wrote(before: str | None, after: str | None, path: str = "w.md") -> WriteResult:
    return WriteResult(path=VaultPath(path), before=before, after=after)


def test_a_run_that_has_started_is_known_as_running(suggestion_rig: Office):
    suggestion_rig.accounts.open(account())

    assert (suggestion_rig.document["outcome"], suggestion_rig.document["ended"]) == (
        "running",
        None,
    )
    assert not has_ended(suggestion_rig.document)
    assert [run["id"] for run in suggestion_rig.history.unended()] == ["r1"]


def test_a_run_that_waits_has_not_ended_and_tells_why(suggestion_rig: Office):
    suggestion_rig.accounts.wait(account(), "no login")

    assert (suggestion_rig.document["outcome"], suggestion_rig.document["reason"]) == (
        "waiting",
        "no login",
    )
    assert not has_ended(suggestion_rig.document)
    assert [run["id"] for run in suggestion_rig.history.unended()] == ["r1"]


def test_a_run_that_has_ended_tells_how_and_when(suggestion_rig: Office):
    suggestion_rig.accounts.open(account())
    suggestion_rig.accounts.close(
        account(), RunOutcome(result="changed", reason="done"), NOON + timedelta(seconds=5)
    )

    assert (
        suggestion_rig.document["outcome"],
        suggestion_rig.document["reason"],
        suggestion_rig.document["ended"],
    ) == (
        "changed",
        "done",
        "2026-01-05T12:00:05+00:00",
    )
    assert has_ended(suggestion_rig.document)
    assert suggestion_rig.history.unended() == []
    assert suggestion_rig.history.count_runs() == 1


def test_a_run_that_no_one_knows_has_not_ended():
    assert not has_ended(None)


def test_the_causes_are_reported_as_far_as_they_are_known(suggestion_rig: Office):
    suggestion_rig.accounts.open(account())

    assert suggestion_rig.document["causes"] == [
        {"id": "c1", "kind": "change", "path": "a.md", "files": 2, "at": NOON.isoformat()},
        {"id": "lost"},
    ]
    assert causes_of(suggestion_rig.document) == ["c1", "lost"]
    assert suggestion_rig.history.count_runs(cause="lost") == 1
    assert suggestion_rig.document["parents"] == ["r0"]


def test_what_was_written_is_reported_as_one_difference_a_file(suggestion_rig: Office):
    first, second, third = (suggestion_rig.objects.put(text) for text in (b"1\n", b"2\n", b"3\n"))
    suggestion_rig.accounts.close(
        account(wrote(first, second), wrote(second, third), wrote(first, first, "v.md")),
        RunOutcome(result="changed", reason=""),
        NOON,
    )

    (item,) = suggestion_rig.document["wrote"]
    assert (item["path"], item["before"], item["after"]) == ("w.md", first, third)
    assert item["diff"].endswith("-1\n+3\n")


def test_what_was_written_and_taken_back_is_nothing(suggestion_rig: Office):
    assert account(wrote("a", "b"), wrote("b", "a")).net == {}


def test_steps_and_cost_are_reported_within_bounds(suggestion_rig: Office):
    one = account()
    for _ in range(500):
        one.note(TextStep(text="x" * 9000))
    one.note(
        ToolCallStep(
            tool="update_context",
            arguments={"content": "y" * 9000},
            result=ToolResult(text="z" * 9000, is_error=True),
        )
    )
    one.note(RunResult(cost_usd=0.02, input_tokens=10, output_tokens=3, turns=2))
    suggestion_rig.accounts.close(one, RunOutcome(result="changed", reason=""), NOON)

    assert len(suggestion_rig.document["steps"]) == 200
    assert len(json.dumps(suggestion_rig.document)) < 500_000
    assert (
        suggestion_rig.document["cost_usd"],
        suggestion_rig.document["input_tokens"],
        suggestion_rig.document["output_tokens"],
    ) == (0.02, 10, 3)


def test_a_call_is_reported_with_its_answer(suggestion_rig: Office):
    one = account()
    one.note(
        ToolCallStep(
            tool="read_context",
            arguments={"file_path": "a.md"},
            result=ToolResult(text="no", is_error=True),
        )
    )

    assert one.steps == [
        {
            "called": "read_context",
            "arguments": {"file_path": "a.md"},
            "answer": "no",
            "error": True,
        }
    ]
    assert one.last_said is None
    one.note(TextStep(text="Well."))
    assert one.last_said == "Well."


def test_arguments_of_any_depth_are_reported_in_brief(suggestion_rig: Office):
    nest: list[object] = []
    for _ in range(100_000):
        nest = [nest]
    one = account()
    one.note(
        ToolCallStep(
            tool="x",
            arguments={"deep": nest, "number": 5, "none": None},
            result=ToolResult(text=""),
        )
    )

    told = one.steps[0]["arguments"]
    assert (told["number"], told["none"]) == ("5", "None")
    assert len(told["deep"]) < 100
    while nest:
        nest = nest.pop()


def test_thousands_of_reviewed_notes_are_counted_and_some_are_reported(suggestion_rig: Office):
    suggestion_rig.accounts.open(account(changes=1000))

    assert (
        len(suggestion_rig.document["reviewed"]),
        suggestion_rig.document["reviewed_count"],
    ) == (400, 1000)


def test_texts_that_are_no_unicode_are_kept_all_the_same(suggestion_rig: Office):
    one = account()
    one.note(TextStep(text="\ud800 and \x00"))
    suggestion_rig.accounts.close(one, RunOutcome(result="unchanged", reason="\ud800"), NOON)

    assert suggestion_rig.document["reason"] == "\ud800"


def test_a_document_that_is_saved_again_stays_one_run(suggestion_rig: Office):
    suggestion_rig.accounts.close(account(), RunOutcome(result="changed", reason=""), NOON)
    save(suggestion_rig.history, {**suggestion_rig.document, "undone": {"with": "r9"}})

    assert suggestion_rig.history.count_runs() == 1
    assert suggestion_rig.document["undone"] == {"with": "r9"}
