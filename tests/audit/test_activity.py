"""The activity log: lines that apps read, in both layouts, and nothing that a link leads to."""

from __future__ import annotations

import json

import pytest

from parachuted.access.notes import Activity
from parachuted.audit.activity import FOLDER, ActivityLog
from parachuted.errors import EditRefusedError, StorageFailedError
from parachuted.vault import VaultRoot

ONE = Activity(
    ts="2026-11-23T12:00:00Z",
    summary="Talked about beans",
    session_id="s1",
    session_title="Beans",
    agent_type="chat",
    exchange_number=3,
)


@pytest.fixture
def vault(tmp_path):
    (tmp_path / "vault").mkdir()
    return tmp_path / "vault"


def test_a_line_has_the_fields_that_apps_read(vault):
    log = ActivityLog(VaultRoot(vault))
    log.append(ONE)
    log.append(Activity(ts="2026-11-23T12:01:00Z", summary="Zwei\nZeilen"))

    first, second = (vault / FOLDER / "2026-11-23.jsonl").read_text().splitlines()
    assert json.loads(first) == {
        "ts": "2026-11-23T12:00:00Z",
        "session_id": "s1",
        "session_title": "Beans",
        "agent_type": "chat",
        "exchange_number": 3,
        "summary": "Talked about beans",
    }
    assert json.loads(second)["session_id"] is None
    assert log.read("2026-11-23")[0] == ONE
    assert log.read("2026-11-22") == []


def test_the_older_layout_and_torn_lines_are_read(vault):
    (vault / "Daily/.activity").mkdir(parents=True)
    (vault / "Daily/.activity/2026-11-23.jsonl").write_text(
        '{"ts": "2026-11-23T08:00:00Z", "summary": "older", "exchange_number": "x"}\nrubbish\n[1]\n'
    )
    log = ActivityLog(VaultRoot(vault))
    (vault / FOLDER).mkdir(parents=True)
    (vault / FOLDER / "2026-11-23.jsonl").write_text('{"ts": "cut o')
    log.append(ONE)

    assert [one.summary for one in log.read("2026-11-23")] == ["older", "Talked about beans"]


@pytest.mark.parametrize(
    "day", ["", "today", "2026-13-01", "2026-1-1", "../../etc/passwd", "20261123"]
)
def test_what_is_not_a_day_is_refused(vault, day):
    with pytest.raises(EditRefusedError, match="not a day"):
        ActivityLog(VaultRoot(vault)).read(day)


def test_no_link_is_followed(vault, tmp_path):
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside/2026-11-23.jsonl").write_text('{"ts": "", "summary": "outside"}\n')
    (vault / ".parachute").mkdir()
    (vault / FOLDER).symlink_to(tmp_path / "outside")
    log = ActivityLog(VaultRoot(vault))
    with pytest.raises(StorageFailedError):
        log.append(ONE)
    with pytest.raises(StorageFailedError):
        log.read("2026-11-23")

    (vault / FOLDER).unlink()
    (vault / FOLDER).mkdir()
    (vault / FOLDER / "2026-11-23.jsonl").symlink_to(tmp_path / "outside/2026-11-23.jsonl")
    with pytest.raises(StorageFailedError):
        log.append(ONE)
    assert "Talked" not in (tmp_path / "outside/2026-11-23.jsonl").read_text()


def test_a_summary_has_its_limit(vault):
    with pytest.raises(EditRefusedError, match="at most"):
        ActivityLog(VaultRoot(vault)).append(Activity(ts="", summary="x" * 5_000))
