"""Run watch: what a run tells and asks is a value that no one changes on the way.

How it is used is tested beside `runs/bounded_vault.py`.
"""

from __future__ import annotations

import dataclasses

import pytest

from parachuted.access.run_watch import ProposedChange


def test_a_change_that_was_refused_is_carried_as_it_would_have_been():
    change = ProposedChange(path="a.md", action="update", base="sha256:1", data=b"new")

    with pytest.raises(dataclasses.FrozenInstanceError):
        change.data = b"other"  # type: ignore[misc]
