"""Identity: names for runs."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

from parachuted.vault.write_journal import new_id

AT = datetime(2026, 11, 21, 23, 15, 2, 417_999, tzinfo=UTC)


def test_an_id_says_what_it_names_and_when_it_was_made():
    assert re.fullmatch(r"r-20261121-231502-417-[0-9a-f]{4,}", new_id("r", AT))


def test_ids_of_one_moment_differ():
    assert len({new_id("r", AT) for _ in range(20)}) > 1


def test_ids_sort_by_time():
    ids = [
        new_id("r", AT + timedelta(milliseconds=step))
        for step in (0, 1, 999, 60_000, 86_400_000, 40 * 86_400_000)
    ]
    assert ids == sorted(ids)


def test_early_milliseconds_keep_their_zeros():
    assert "-231502-007-" in new_id("r", AT.replace(microsecond=7_000))
