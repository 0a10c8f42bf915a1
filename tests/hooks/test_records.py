"""What people hear of hooks: which fail, how often each ran, and nothing of the machine for those
who may only read; and the last runs, over restarts.
"""

from __future__ import annotations

from dataclasses import asdict
from datetime import UTC, datetime

import pytest

from parachuted.hooks import HookError
from parachuted.hooks.hook import Hook
from parachuted.hooks.records import HookReporter, HookRunRecorder
from parachuted.hooks.runner import ProcessResult

NOW = datetime(2026, 1, 6, 12, tzinfo=UTC)
HOOK = Hook(id="on-session-start.py", event="session.start", words=("x",), command="x")


class Reports:
    """Keeps what was reported."""

    def __init__(self) -> None:
        self.problems: list[tuple[str, str | None]] = []
        self.errors: list[HookError] = []
        self.reporter = HookReporter(
            lambda: NOW, lambda *problem: self.problems.append(problem), self.errors.append
        )


@pytest.fixture
def reports() -> Reports:
    return Reports()


@pytest.mark.parametrize("event", ["hook.failed", "vault.problem"])
def test_a_failure_on_the_hooks_own_events_is_kept_and_not_reported(reports: Reports, event: str):
    reports.reporter.note_run("a", event, 3.0, "broke")

    assert (reports.problems, reports.errors) == ([], [])
    assert [error.message for error in reports.reporter.errors] == ["broke"]


def test_the_runs_of_a_hook_are_counted(reports: Reports):
    for took_ms, failure in ((5.0, None), (9.0, "broke"), (2.0, None)):
        reports.reporter.note_run("a", "write.before", took_ms, failure)

    status = reports.reporter.status_of(
        Hook(id="a", event="write.before", words=("x",), command="x"), None
    )
    assert (status.runs, status.failures, status.slowest_ms) == (3, 1, 9.0)


def test_only_those_who_may_administer_see_what_is_run_and_where_it_lies(reports: Reports):
    command = "curl -H 'X-Key: secret' x"
    hook = Hook(id="PreToolUse[0]", event="tool.before", words=("sh",), command=command)
    whole = reports.reporter.status_of(hook, "/home/me/x has changed")

    assert (whole.name, whole.claude, whole.blocking) == ("PreToolUse[0]", "PreToolUse", True)
    assert "secret" in str(whole.command)
    assert whole.public.command is None
    assert whole.public.problem
    assert "/home" not in str(asdict(whole.public))


@pytest.fixture
def file(tmp_path):
    return tmp_path / "state" / "hooks.db"


@pytest.fixture
def recorder(file):
    recorder = HookRunRecorder(file)
    yield recorder
    recorder.close()


def add(
    recorder,
    *,
    stdin=b"{}\n",
    stdout=b"",
    stderr=b"",
    decision="allowed",
):
    ran = ProcessResult(exit_code=0, stdout=stdout, stderr=stderr, took_ms=12.3456)
    return recorder.add(HOOK, NOW, stdin, ran, decision)


def test_a_run_is_remembered_whole(recorder):
    added = add(
        recorder,
        stdin=b'{"event": "x"}\n',
        stdout="grün".encode(),
        stderr=b"\xff",
        decision="blocked: no",
    )

    assert recorder.get(added.id) == added
    assert (added.stdin, added.stdout, added.stderr, added.decision) == (
        '{"event": "x"}\n',
        "grün",
        "\ufffd",
        "blocked: no",
    )
    assert (added.hook, added.event, added.at, added.exit_code, added.took_ms) == (
        "on-session-start.py",
        "session.start",
        "2026-01-06T12:00:00Z",
        0,
        12.346,
    )


def test_two_hundred_are_kept_over_restarts_and_their_numbers_go_on(recorder, file):
    added = [add(recorder) for _ in range(205)]

    assert [record.id for record in recorder.last(1_000)] == [one.id for one in added[:4:-1]]
    assert recorder.get(added[4].id) is None

    recorder.close()
    again = HookRunRecorder(file)
    more = add(again)
    assert more.id > added[-1].id
    assert [record.id for record in again.last(2)] == [more.id, added[-1].id]
    assert len(again.last(1_000)) == 200
    again.close()


def test_long_texts_are_cut(recorder):
    added = add(recorder, stdin=b"a" * 65_537, stdout=b"b" * 65_536, stderr=b"c" * 1_000_000)

    assert (len(added.stdin), len(added.stdout), len(added.stderr)) == (65_536, 65_536, 65_536)
    assert added.cut == ("stdin", "stderr")


@pytest.mark.parametrize(
    "name", ["", "../secret", "h1", "h00000001/../x", "h" + 8 * "\u0661", "h99999999"]
)
def test_what_is_not_a_run_is_none(recorder, name):
    add(recorder)

    assert recorder.get(name) is None


def test_a_disk_that_refuses_does_not_stop_the_hook(recorder, file, caplog):
    file.parent.write_text("in the way")

    assert add(recorder).hook == "on-session-start.py"
    assert "could not be recorded" in caplog.text
