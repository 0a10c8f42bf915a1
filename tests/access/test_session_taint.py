from __future__ import annotations

from pathlib import Path

from parachuted.access.origin import Taint
from parachuted.access.session_taint import SessionTaints
from parachuted.state import open_state


def test_what_a_session_has_read_it_has_read_when_it_is_resumed_after_a_restart_too(tmp_path: Path):
    state = open_state(tmp_path / "journal")
    taint = Taint()
    taint.read("Inbox/mail.md", "imported")
    SessionTaints(state).keep("s-1", taint, agent="bot/a")
    SessionTaints(state).keep("s-2", Taint(), agent="bot/a")
    state.close()

    state = open_state(tmp_path / "journal")
    resumed, other = Taint(), Taint()
    SessionTaints(state).recall("s-1", resumed)
    SessionTaints(state).recall("s-2", other)
    SessionTaints(state).recall("never heard of", other)
    owners = [SessionTaints(state).owner(one) for one in ("s-1", "s-2", "never heard of")]
    state.close()
    assert owners == ["bot/a", "bot/a", None]
    assert resumed.sources == {"Inbox/mail.md": "imported"}
    assert not other
