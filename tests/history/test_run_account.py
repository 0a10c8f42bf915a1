"""Account: the document of a run, from its beginning to its end."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path

import pytest

from parachuted.access.caller import Caller, WorkRequest
from parachuted.agents.job import ChangedNote, RunResult, TextStep, ToolCallStep, ToolResult
from parachuted.history.run_account import (
    CallRun,
    RunAccount,
    RunAccounts,
    causes_of,
    has_ended,
    is_bookkeeping,
    new_act,
    save,
)
from parachuted.state import open_state
from parachuted.tasks import Cause, Causes, RunOutcome, Task
from parachuted.vault import (
    Author,
    ObjectStore,
    VaultPath,
    Write,
    WriteJournal,
    WriteResult,
    digest_of,
)
from parachuted.vault.trail import run_document
from tests.tools.conftest import ToolsRig

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
    history: WriteJournal
    accounts: RunAccounts

    @property
    def document(self) -> dict[str, object]:
        document = self.history.run("r1")
        assert document is not None
        return document


@pytest.fixture
def account_rig(tmp_path: Path) -> Iterator[RunAccountRig]:
    causes = Causes(open_state(tmp_path / "state.db"))
    causes.open(Cause(id="c1", kind="change", path="a.md", files=2, at=NOON))
    objects, history = ObjectStore(tmp_path / "objects"), WriteJournal(tmp_path / "history.db")
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


def did(rig: RunAccountRig, *texts: bytes, path: str = "w.md", run: str = "r1") -> None:
    """That run wrote each of these texts over the one before it."""
    digests = list(map(rig.objects.put, texts))
    author = Author(by="curator", run=run)
    for before, after in pairwise(digests):
        rig.history.intend(
            Write(
                at=NOON,
                path=path,
                author=author,
                operation="ReplaceAll",
                before=before,
                after=after,
                temporary="t",
            )
        )


def told(rig: RunAccountRig, one: RunAccount) -> list[tuple[str, str]]:
    """The changed lines of each entry of `wrote`."""
    rig.accounts.close(one, RunOutcome(result="changed", reason=""), NOON)
    return [(entry["path"], entry["diff"].partition("@@\n")[2]) for entry in rig.document["wrote"]]


def test_a_run_is_running_waits_and_has_ended(account_rig: RunAccountRig):
    def told() -> tuple[object, ...]:
        document = account_rig.document
        unended = [run["id"] for run in account_rig.history.unended()]
        return document["outcome"], document["ended"], has_ended(document), unended

    account_rig.accounts.open(account())
    assert told() == ("running", None, False, ["r1"])
    account_rig.accounts.wait(account(), "no login")
    assert told() == ("waiting", None, False, ["r1"])
    assert account_rig.document["reason"] == "no login"
    done = RunOutcome(result="changed", reason="done")
    account_rig.accounts.close(account(), done, NOON + timedelta(seconds=5))
    assert told() == ("changed", "2026-01-05T12:00:05+00:00", True, [])
    assert account_rig.document["reason"] == "done"
    assert account_rig.history.count_runs() == 1
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
    did(account_rig, b"1\n", b"2\n", b"3\n")
    did(account_rig, b"1\n", b"1\n", path="v.md")

    assert told(account_rig, account()) == [("w.md", "-1\n+3\n")]
    (item,) = account_rig.document["wrote"]
    assert (item["before"], item["after"]) == (digest_of(b"1\n"), digest_of(b"3\n"))


def test_what_a_person_wrote_between_is_not_reported_as_the_runs(
    account_rig: RunAccountRig,
):
    did(account_rig, b"1\n", b"2\n")
    did(account_rig, b"2\nmine\n", b"3\nmine\n")

    assert told(account_rig, account()) == [("w.md", "-1\n+2\n"), ("w.md", "-2\n+3\n mine\n")]
    assert account(wrote("a", "b"), wrote("mine", "a")).changed == ["w.md"]


def test_a_persons_lines_are_not_those_of_a_call_that_moved_them(
    tools_rig: ToolsRig,
):
    note, other = VaultPath("note.md"), VaultPath("other.md")
    tools_rig.save("note.md", "a\n")
    act = new_act("mcp:phone", NOON, watcher="note.md", reason="tidied")
    tools_rig.store.replace(note, b"b\n", act.author)
    tools_rig.save("note.md", "b\nmine\n")
    tools_rig.store.replace(note, b"c\nmine\n", act.author)
    tools_rig.store.move(note, other, act.author)
    found = act.end(tools_rig.store, "tidied")["wrote"]

    assert [one["path"] for one in found] == ["note.md", "other.md", "note.md"]
    assert not any(sign + "mine" in one["diff"] for one in found for sign in "+-")
    assert "rename from note.md\nrename to other.md\n" in found[1]["diff"]


def test_what_an_earlier_attempt_wrote_is_not_reported(account_rig: RunAccountRig):
    did(account_rig, b"1\n", b"2\n")
    again = account()
    account_rig.accounts.open(again)
    did(account_rig, b"1\n", b"3\n")

    assert told(account_rig, again) == [("w.md", "-1\n+3\n")]


def test_what_was_written_and_taken_back_is_nothing(account_rig: RunAccountRig):
    did(account_rig, b"1\n", b"2\n", b"1\n")

    assert told(account_rig, account()) == []
    assert account(wrote("a", "b"), wrote("b", "a")).changed == []


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


def test_a_call_is_reported_with_its_answer_and_arguments_in_brief(account_rig: RunAccountRig):
    nest: list[object] = []
    for _ in range(100_000):
        nest = [nest]
    one = account()
    arguments = {"file_path": "a.md", "deep": nest, "none": None}
    result = ToolResult(text="no", is_error=True)
    one.note(ToolCallStep(tool="read_context", arguments=arguments, result=result))

    (step,) = one.steps
    assert len(step["arguments"].pop("deep")) < 100
    assert step == {
        "called": "read_context",
        "arguments": {"file_path": "a.md", "none": "None"},
        "answer": "no",
        "error": True,
    }
    assert one.last_said is None
    one.note(TextStep(text="Well."))
    assert one.last_said == "Well."
    while nest:
        nest = nest.pop()


def test_thousands_of_reviewed_notes_are_counted_and_some_are_reported(account_rig: RunAccountRig):
    account_rig.accounts.open(account(changes=1000))

    assert (len(account_rig.document["reviewed"]), account_rig.document["reviewed_count"]) == (
        400,
        1000,
    )


def test_texts_that_are_no_unicode_are_kept_all_the_same(account_rig: RunAccountRig):
    one = account()
    one.note(TextStep(text="\ud800 and \x00"))
    account_rig.accounts.close(one, RunOutcome(result="unchanged", reason="\ud800"), NOON)

    assert account_rig.document["reason"] == "\ud800"


def test_only_what_a_person_would_name_is_not_bookkeeping(account_rig: RunAccountRig):
    def run(
        name: str,
        agent: str,
        wrote: str = "",
        *,
        parents: Sequence[str] = (),
        watcher: str = "a.md",
        outcome: str = "",
    ) -> None:
        paths = [{"path": path} for path in wrote.split()]
        document = run_document(
            name,
            watcher=watcher,
            agent=agent,
            started=NOON,
            causes=[{"id": "c1"}],
            parents=list(parents),
            outcome=outcome or ("changed" if wrote else "unchanged"),
            reason="Chat: chat, asked for on the command line",
            wrote=paths,
        )
        save(account_rig.history, document)

    run("r1", "module:chat", "new.md")
    run("r2", "chat/chat", parents=["r1"])
    run("r3", "module:chat", "new.md named.md", parents=["r1"])
    run("r4", "module:chat", "named.md", parents=["r3"])
    run("r5", "module:chat", "fact.md", parents=["r4"])
    run("r6", "chat/curator", "fact.md")
    run("r7", "curator", parents=["r6"])
    run("r8", "mcp:phone", "fact.md")
    run("r9", "mcp:a/b")
    run("ra", "module:chat", parents=["r4"], watcher="named.md", outcome="changed")
    run("rb", "module:chat", parents=["r4"], watcher="other.md", outcome="changed")

    listed = account_rig.history.runs_that(
        lambda run: not is_bookkeeping(account_rig.history, run), limit=20, before=None
    )
    assert [run["id"] for run in listed] == ["rb", "r8", "r7", "r6", "r5", "r1"]


@pytest.mark.parametrize(
    ("who", "key", "says"),
    [
        ("cli", "", "asked for on the command line"),
        ("cli", "k1", "asked for by cli"),
        ("", "", "asked for by you"),
    ],
)
def test_a_call_says_who_asked_for_it(rig, who: str, key: str, says: str):
    call = CallRun(
        rig.store, "Daily: add", Caller(request=WorkRequest(by="person", who=who, key=key))
    )
    with call.writing("module:daily", "note.md"):
        document = rig.store.history.run(str(call.run))
    assert document["reason"] == f"Daily: add, {says}"
