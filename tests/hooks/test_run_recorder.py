"""The last runs are remembered over restarts, in a file that only its owner can read."""

from __future__ import annotations

import stat
from datetime import UTC, datetime

import pytest

from parachuted.hooks.run_recorder import HookRunRecorder
from parachuted.hooks.runner import ProcessResult

AT = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


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
    hook="on-session-start.py",
    *,
    stdin=b"{}\n",
    stdout=b"",
    stderr=b"",
    decision="allowed",
):
    ran = ProcessResult(exit_code=0, stdout=stdout, stderr=stderr, took_ms=12.3456)
    return recorder.add(
        hook=hook, event="session.start", at=AT, stdin=stdin, ran=ran, decision=decision
    )


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
        "2026-01-02T03:04:05Z",
        0,
        12.346,
    )


def test_the_newest_comes_first(recorder):
    names = [add(recorder, f"hook-{number}").hook for number in range(5)]

    assert [record.hook for record in recorder.last(3)] == names[:1:-1]
    assert recorder.last(0) == []


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


def test_only_their_owner_can_read_them(recorder, file):
    add(recorder)

    modes = {stat.S_IMODE(path.stat().st_mode) for path in (file.parent, *file.parent.iterdir())}
    assert modes == {0o700, 0o600}


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
