"""The last runs are remembered over restarts, in small files that only their owner can read."""

from __future__ import annotations

import stat
from datetime import UTC, datetime

import pytest

from parachuted.hooks.run_recorder import HookRunRecorder
from parachuted.hooks.runner import ProcessResult

AT = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "runs"


@pytest.fixture
def recorder(folder):
    return HookRunRecorder(folder)


def keep(
    recorder,
    hook="on-session-start.py",
    *,
    stdin=b"{}\n",
    stdout=b"",
    stderr=b"",
    decision="allowed",
):
    ran = ProcessResult(exit_code=0, stdout=stdout, stderr=stderr, took_ms=12.3456)
    return recorder.keep(
        hook=hook, event="session.start", at=AT, stdin=stdin, ran=ran, decision=decision
    )


def test_a_run_is_remembered_whole(recorder):
    kept = keep(
        recorder,
        stdin=b'{"event": "x"}\n',
        stdout="grün".encode(),
        stderr=b"\xff",
        decision="blocked: no",
    )

    assert recorder.get(kept.id) == kept
    assert (kept.stdin, kept.stdout, kept.stderr, kept.decision) == (
        '{"event": "x"}\n',
        "grün",
        "\ufffd",
        "blocked: no",
    )
    assert (kept.hook, kept.event, kept.at, kept.exit_code, kept.took_ms) == (
        "on-session-start.py",
        "session.start",
        "2026-01-02T03:04:05Z",
        0,
        12.346,
    )


def test_the_newest_comes_first(recorder):
    names = [keep(recorder, f"hook-{number}").hook for number in range(5)]

    assert [record.hook for record in recorder.last(3)] == names[:1:-1]
    assert recorder.last(0) == []


def test_two_hundred_are_kept(recorder, folder):
    kept = [keep(recorder) for _ in range(205)]

    assert len(list(folder.iterdir())) == 200
    assert recorder.get(kept[4].id) is None
    assert recorder.last(1_000)[-1] == kept[5]


def test_a_restart_forgets_nothing_and_goes_on_counting(recorder, folder):
    kept = [keep(recorder) for _ in range(203)]

    again = HookRunRecorder(folder)
    more = keep(again)

    assert more.id > kept[-1].id
    assert [record.id for record in again.last(2)] == [more.id, kept[-1].id]
    assert len(list(folder.iterdir())) == 200


def test_long_texts_are_cut(recorder):
    kept = keep(recorder, stdin=b"a" * 65_537, stdout=b"b" * 65_536, stderr=b"c" * 1_000_000)

    assert (len(kept.stdin), len(kept.stdout), len(kept.stderr)) == (65_536, 65_536, 65_536)
    assert kept.cut == ("stdin", "stderr")


def test_only_their_owner_can_read_them(recorder, folder):
    keep(recorder)

    modes = {stat.S_IMODE(path.stat().st_mode) for path in (folder, *folder.iterdir())}
    assert modes == {0o700, 0o600}


@pytest.mark.parametrize(
    "name", ["", "../secret", "h1", "h00000001/../x", "h" + 8 * "\u0661", "h99999999"]
)
def test_what_is_not_a_run_is_none(recorder, name):
    keep(recorder)

    assert recorder.get(name) is None


def test_a_file_that_cannot_be_read_is_left_out(recorder, folder):
    first, second = keep(recorder), keep(recorder)
    (folder / f"{second.id}.json").write_bytes(b"{")
    (folder / "notes.txt").write_text("not a run")

    assert [record.id for record in HookRunRecorder(folder).last(10)] == [first.id]


def test_a_disk_that_refuses_does_not_stop_the_hook(folder, caplog):
    folder.write_text("in the way")

    recorder = HookRunRecorder(folder)

    assert keep(recorder).hook == "on-session-start.py"
    assert "could not be recorded" in caplog.text
