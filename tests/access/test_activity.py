"""A line of the activity log as a value."""

from __future__ import annotations

import subprocess
import sys

from parachuted.access.notes import Activity


def test_a_line_says_what_it_must_and_may_leave_out_the_rest():
    found = Activity(ts="2026-11-23T12:00:00Z", summary="beans")

    assert (found.session_id, found.exchange_number) == (None, 0)


def test_it_loads_no_vault():
    code = "import sys, parachuted.access.notes; print('parachuted.vault' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert done.stdout.strip() == "False"
