"""The values that a job is made of."""

from __future__ import annotations

from dataclasses import FrozenInstanceError, fields

import pytest

from parachuted.agents import Called, ChangedNote, Finished, Job, Limits, Said, Tool, ToolResult


def test_a_job_and_its_steps_cannot_be_changed_by_who_reads_them(job):
    with pytest.raises(FrozenInstanceError):
        job().prompt = "something else"

    assert all(
        kind.__slots__ == tuple(field.name for field in fields(kind))
        for kind in (Called, ChangedNote, Finished, Job, Limits, Said, Tool, ToolResult)
    )
