"""Narrowed: one run has at most what its narrowing leaves of the grant."""

from __future__ import annotations

import pytest

from parachuted.access.agent_config import WIDEST, AgentNarrowing
from parachuted.access.grant import Grant, grant_of, narrowing_configs, restricted_grant

GRANT = Grant(
    agent="a",
    reads=grant_of(["Projects/**"]),
    writes=grant_of(["Projects/**"]),
    tainted_writes=grant_of(["Projects/**"]),
    outside=("~/Work",),
    tools=("brain-search", "daily-today"),
)


def test_without_a_narrowing_the_grant_stays():
    found = restricted_grant(GRANT, WIDEST)

    assert found.may_read("Projects/a.md")
    assert found.may_write("Projects/a.md")
    assert (found.outside, found.tools) == (GRANT.outside, GRANT.tools)
    assert narrowing_configs(WIDEST) == ()


def test_paths_and_tools_are_those_that_both_have():
    narrowing = AgentNarrowing(
        read=("Projects/a/**", "Daily/**"), write=("Projects/a/log.md",), tools=("daily-today", "x")
    )
    found = restricted_grant(GRANT, narrowing)

    assert found.may_read("Projects/a/b.md")
    assert not found.may_read("Projects/b.md")
    assert not found.may_read("Daily/today.md"), "the agent may not read that anyway"
    assert found.may_write("Projects/a/log.md")
    assert not found.may_write("Projects/a/b.md")
    assert (found.outside, found.tools) == ((), ("daily-today",))


def test_a_folder_outside_stays_where_the_narrowing_names_it():
    assert restricted_grant(GRANT, AgentNarrowing(read=("~/Work",))).outside == ("~/Work",)


def test_capabilities_and_sandbox_narrow_as_a_persons_overrides_do():
    (config,) = narrowing_configs(
        AgentNarrowing(capabilities=("read",), sandbox={"network": "none"})
    )

    assert (config.may_read, config.may_write, config.network) == (True, False, False)
    with pytest.raises(ValueError, match="fly"):
        narrowing_configs(AgentNarrowing(capabilities=("fly",)))
