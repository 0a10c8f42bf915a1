"""What people hear of hooks: which fail, how often each ran, and nothing of the machine for those
who may only read.
"""

from __future__ import annotations

from dataclasses import asdict
from datetime import UTC, datetime

import pytest

from parachuted.hooks import HookError
from parachuted.hooks.hook import Hook
from parachuted.hooks.reporting import HookReporter

NOW = datetime(2026, 1, 6, 12, tzinfo=UTC)


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


def test_the_problems_of_what_no_longer_exists_are_over(reports: Reports):
    for subject in ("a", "b"):
        reports.reporter.say(subject, "wrong")
    reports.reporter.forget_all_but({"a"})

    assert reports.problems[2:] == [("b", None)]


def test_the_runs_of_a_hook_are_counted(reports: Reports):
    for took_ms, failure in ((5.0, None), (9.0, "broke"), (2.0, None)):
        reports.reporter.note_run("a", "write.before", took_ms, failure)

    status = reports.reporter.status_of(Hook(id="a", event="write.before", command="x"), None)
    assert (status.runs, status.failures, status.last_ms, status.slowest_ms) == (3, 1, 2.0, 9.0)


def test_only_those_who_may_administer_see_what_is_run_and_where_it_lies(reports: Reports):
    hook = Hook(id="PreToolUse[0]", event="tool.before", command="curl -H 'X-Key: secret' x")
    whole = reports.reporter.status_of(hook, "/home/me/x has changed")

    assert (whole.name, whole.claude, whole.blocking) == ("PreToolUse[0]", "PreToolUse", True)
    assert "secret" in str(whole.command)
    assert whole.public.command is None
    assert whole.public.problem
    assert "/home" not in str(asdict(whole.public))
