"""The values that a job is made of."""

from __future__ import annotations

from dataclasses import FrozenInstanceError, fields

import pytest

from parachuted.agents import (
    ChangedNote,
    Job,
    RunLimits,
    RunResult,
    TextStep,
    Tool,
    ToolCallStep,
    ToolResult,
)


def test_a_job_and_its_steps_cannot_be_changed_by_who_reads_them(job):
    with pytest.raises(FrozenInstanceError):
        job().prompt = "something else"

    assert all(
        kind.__slots__ == tuple(field.name for field in fields(kind))
        for kind in (
            ToolCallStep,
            ChangedNote,
            RunResult,
            Job,
            RunLimits,
            TextStep,
            Tool,
            ToolResult,
        )
    )
