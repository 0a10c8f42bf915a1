"""Listed: how often a hook ran and how long it took, in this life of the daemon."""

from __future__ import annotations

from parachuted.hooks.hook import HookCounts


def test_a_tally_counts_runs_failures_and_the_slowest():
    tally = HookCounts()
    for took, is_failure in ((5.0, False), (9.0, True), (2.0, False)):
        tally.count(took, is_failure=is_failure)

    assert (tally.runs, tally.failures, tally.last_ms, tally.slowest_ms) == (3, 1, 2.0, 9.0)
