from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

from parachuted.access.origin import SessionTaints, Taint
from parachuted.state import open_state

NOON = datetime(2026, 1, 5, 12, 0, tzinfo=UTC)


def test_what_a_session_has_read_it_has_read_when_it_is_resumed_after_a_restart_too(tmp_path: Path):
    state = open_state(tmp_path / "journal")
    taint = Taint()
    taint.read("Inbox/mail.md", "imported")
    SessionTaints(state, lambda: NOON).keep("s-1", taint, agent="bot/a")
    SessionTaints(state, lambda: NOON).keep("s-2", Taint(), agent="bot/a")
    state.close()

    state = open_state(tmp_path / "journal")
    resumed, other = Taint(), Taint()
    SessionTaints(state, lambda: NOON).recall("s-1", resumed)
    SessionTaints(state, lambda: NOON).recall("s-2", other)
    SessionTaints(state, lambda: NOON).recall("never heard of", other)
    owners = [
        SessionTaints(state, lambda: NOON).owner(one) for one in ("s-1", "s-2", "never heard of")
    ]
    state.close()
    assert owners == ["bot/a", "bot/a", None]
    assert resumed.sources == {"Inbox/mail.md": "imported"}
    assert not other


def test_sessions_that_no_one_went_on_with_for_months_go_and_one_in_use_stays_however_many_there_are(  # noqa: E501
    tmp_path: Path,
):
    now = [NOON]
    state = open_state(tmp_path / "journal")
    taints = SessionTaints(state, lambda: now[0])
    taint = Taint()
    taint.read("Inbox/mail.md", "imported")
    state.table("session_taint").put(
        "before", {"agent": "bot/a", "sources": {"x": "web"}}
    )  # as an earlier version kept it
    with state.batch():
        for number in range(1001):
            taints.keep(f"s-{number}", taint, agent="bot/a")
    for _ in range(10):
        now[0] += timedelta(days=80)
        taints.keep("s-7", Taint(), agent="bot/a")
        taints.keep("s-7", taint, agent="bot/a")
    for session in ("s-7", "before"):
        taints.recall(session, kept := Taint())
        assert bool(kept) is (session == "s-7")
    assert len(state.table("session_taint").items()) < 10
    state.close()
