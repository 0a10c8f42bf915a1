"""The last runs are remembered over restarts, in small files that only their owner can read."""

from __future__ import annotations

import stat
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path

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
        AT,
        0,
        12.346,
    )


def test_it_is_the_same_run_before_and_after_it_is_written(recorder):
    kept = keep(recorder, stdout=b"\xff")
    before = recorder.get(kept.id), recorder.last(1)
    recorder.flush()

    assert before == (recorder.get(kept.id), recorder.last(1)) == (kept, (kept,))


def test_what_was_kept_last_is_written_though_the_process_ends_at_once(folder):
    script = f"""
from datetime import UTC, datetime
from pathlib import Path
from parachuted.hooks.run_recorder import HookRunRecorder
from parachuted.hooks.runner import ProcessResult
recorder = HookRunRecorder(Path({str(folder)!r}))
for _ in range(5):
    ran = ProcessResult(exit_code=0, stdout=b"", stderr=b"", took_ms=1.0)
    recorder.keep(hook="a", event="session.start", at=datetime.now(UTC), stdin=b"", ran=ran, decision="done")
"""  # noqa: E501
    subprocess.run([sys.executable, "-c", script], check=True, cwd=Path(__file__).parents[2])

    assert len(HookRunRecorder(folder).last(10)) == 5


def test_the_newest_comes_first(recorder):
    names = [keep(recorder, f"hook-{number}").hook for number in range(5)]

    assert [record.hook for record in recorder.last(3)] == names[:1:-1]
    assert recorder.last(0) == ()


def test_two_hundred_are_kept(recorder, folder):
    kept = [keep(recorder) for _ in range(205)]
    recorder.flush()

    assert len(list(folder.iterdir())) == 200
    assert recorder.get(kept[4].id) is None
    assert recorder.last(1_000)[-1] == kept[5]


def test_a_restart_forgets_nothing_and_goes_on_counting(recorder, folder):
    kept = [keep(recorder) for _ in range(203)]
    recorder.flush()

    again = HookRunRecorder(folder)
    more = keep(again)
    again.flush()

    assert more.id > kept[-1].id
    assert [record.id for record in again.last(2)] == [more.id, kept[-1].id]
    assert len(list(folder.iterdir())) == 200


def test_long_texts_are_cut(recorder):
    kept = keep(recorder, stdin=b"a" * 65_537, stdout=b"b" * 65_536, stderr=b"c" * 1_000_000)

    assert (len(kept.stdin), len(kept.stdout), len(kept.stderr)) == (65_536, 65_536, 65_536)
    assert (kept.is_stdin_cut, kept.is_stdout_cut, kept.is_stderr_cut) == (True, False, True)


def test_only_their_owner_can_read_them(recorder, folder):
    keep(recorder)
    recorder.flush()

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
    recorder.flush()
    (folder / f"{second.id}.json").write_bytes(b"{")
    (folder / "notes.txt").write_text("not a run")

    assert [record.id for record in HookRunRecorder(folder).last(10)] == [first.id]


def test_a_disk_that_refuses_does_not_stop_the_hook(folder, caplog):
    folder.write_text("in the way")

    recorder = HookRunRecorder(folder)

    assert keep(recorder).hook == "on-session-start.py"
    recorder.flush()
    assert "could not be recorded" in caplog.text


def test_runs_that_end_at_once_get_names_of_their_own(recorder):
    with ThreadPoolExecutor(8) as pool:
        kept = list(pool.map(lambda _: keep(recorder), range(64)))

    assert len({record.id for record in kept}) == 64
    assert {record.id for record in recorder.last(64)} == {record.id for record in kept}
