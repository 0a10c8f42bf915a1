"""Capped log: what a module's container says is limited, and what is left out is counted."""

from __future__ import annotations

import logging

import pytest

from parachuted.modules.hosting import container_host
from parachuted.modules.hosting.container_host import CappedLog


def test_so_many_lines_a_second_and_no_more(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
):
    now = [10.0]
    monkeypatch.setattr(container_host.time, "monotonic", lambda: now[0])
    log = CappedLog(logging.getLogger("parachuted.test"))
    for number in range(150):
        log.say(logging.WARNING, f"line {number}")
    now[0] = 11.0
    log.say(logging.WARNING, "x" * 10_000 + "end\x1b[2J")

    said = [record.getMessage() for record in caplog.records]
    assert (len(said), said[99], said[100]) == (102, "line 99", "50 lines of its log were left out")
    assert len(said[101]) < 4_100
    assert "end" in said[101]
    assert "\x1b" not in said[101]
