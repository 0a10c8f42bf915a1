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
class RunAccountRig:
    objects: ObjectStore
    history: History
    accounts: RunAccounts

    @property
    def document(self) -> dict[str, object]:
        document = self.history.run("r1")
        assert document is not None
        return document


@pytest.fixture
def account_rig(tmp_path: Path) -> Iterator[RunAccountRig]:
    causes = Causes(open_state(tmp_path / "state.journal"))
    causes.open(Cause(id="c1", kind="change", path="a.md", files=2, at=NOON))
    objects, history = ObjectStore(tmp_path / "objects"), History(tmp_path / "history.db")
    yield RunAccountRig(objects, history, RunAccounts(history, objects, causes))
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


def test_a_run_that_has_started_is_known_as_running(account_rig: RunAccountRig):
    account_rig.accounts.open(account())

    assert (account_rig.document["outcome"], account_rig.document["ended"]) == (
        "running",
        None,
    )
    assert not has_ended(account_rig.document)
    assert [run["id"] for run in account_rig.history.unended()] == ["r1"]


def test_a_run_that_waits_has_not_ended_and_tells_why(account_rig: RunAccountRig):
    account_rig.accounts.wait(account(), "no login")

    assert (account_rig.document["outcome"], account_rig.document["reason"]) == (
        "waiting",
        "no login",
    )
    assert not has_ended(account_rig.document)
    assert [run["id"] for run in account_rig.history.unended()] == ["r1"]


def test_a_run_that_has_ended_tells_how_and_when(account_rig: RunAccountRig):
    account_rig.accounts.open(account())
    account_rig.accounts.close(
        account(), RunOutcome(result="changed", reason="done"), NOON + timedelta(seconds=5)
    )

    assert (
        account_rig.document["outcome"],
        account_rig.document["reason"],
        account_rig.document["ended"],
    ) == (
        "changed",
        "done",
        "2026-01-05T12:00:05+00:00",
    )
    assert has_ended(account_rig.document)
    assert account_rig.history.unended() == []
    assert account_rig.history.count_runs() == 1


def test_a_run_that_no_one_knows_has_not_ended():
    assert not has_ended(None)


def test_the_causes_are_reported_as_far_as_they_are_known(account_rig: RunAccountRig):
    account_rig.accounts.open(account())

    assert account_rig.document["causes"] == [
        {"id": "c1", "kind": "change", "path": "a.md", "files": 2, "at": NOON.isoformat()},
        {"id": "lost"},
    ]
    assert causes_of(account_rig.document) == ["c1", "lost"]
    assert account_rig.history.count_runs(cause="lost") == 1
    assert account_rig.document["parents"] == ["r0"]


def test_what_was_written_is_reported_as_one_difference_a_file(account_rig: RunAccountRig):
    first, second, third = (account_rig.objects.put(text) for text in (b"1\n", b"2\n", b"3\n"))
    account_rig.accounts.close(
        account(wrote(first, second), wrote(second, third), wrote(first, first, "v.md")),
        RunOutcome(result="changed", reason=""),
        NOON,
    )

    (item,) = account_rig.document["wrote"]
    assert (item["path"], item["before"], item["after"]) == ("w.md", first, third)
    assert item["diff"].endswith("-1\n+3\n")


def test_what_was_written_and_taken_back_is_nothing(account_rig: RunAccountRig):
    assert account(wrote("a", "b"), wrote("b", "a")).net == {}


def test_steps_and_cost_are_reported_within_bounds(account_rig: RunAccountRig):
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
    account_rig.accounts.close(one, RunOutcome(result="changed", reason=""), NOON)

    assert len(account_rig.document["steps"]) == 200
    assert len(json.dumps(account_rig.document)) < 500_000
    assert (
        account_rig.document["cost_usd"],
        account_rig.document["input_tokens"],
        account_rig.document["output_tokens"],
    ) == (0.02, 10, 3)


def test_a_call_is_reported_with_its_answer(account_rig: RunAccountRig):
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


def test_arguments_of_any_depth_are_reported_in_brief(account_rig: RunAccountRig):
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

    reported = one.steps[0]["arguments"]
    assert (reported["number"], reported["none"]) == ("5", "None")
    assert len(reported["deep"]) < 100
    while nest:
        nest = nest.pop()


def test_thousands_of_reviewed_notes_are_counted_and_some_are_reported(account_rig: RunAccountRig):
    account_rig.accounts.open(account(changes=1000))

    assert (
        len(account_rig.document["reviewed"]),
        account_rig.document["reviewed_count"],
    ) == (400, 1000)


def test_texts_that_are_no_unicode_are_kept_all_the_same(account_rig: RunAccountRig):
    one = account()
    one.note(TextStep(text="\ud800 and \x00"))
    account_rig.accounts.close(one, RunOutcome(result="unchanged", reason="\ud800"), NOON)

    assert account_rig.document["reason"] == "\ud800"


def test_a_document_that_is_saved_again_stays_one_run(account_rig: RunAccountRig):
    account_rig.accounts.close(account(), RunOutcome(result="changed", reason=""), NOON)
    save(account_rig.history, {**account_rig.document, "undone": {"with": "r9"}})

    assert account_rig.history.count_runs() == 1
    assert account_rig.document["undone"] == {"with": "r9"}
