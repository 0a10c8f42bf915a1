"""Agent grant: what a run may do, asked path by path; how one is built is tested beside
granting.py.
"""

from __future__ import annotations

import pytest

from parachuted.access.grant import Grant, exactly
from parachuted.keys import EVERYWHERE, NOWHERE

ALL = Grant(agent="a", reads=EVERYWHERE, writes=EVERYWHERE, tainted_writes=exactly(["log.md"]))


@pytest.mark.parametrize(
    "path",
    [
        ".parachute/x",
        "a/.git/config",
        "Modules/x.py",
        "MODULES",
        ".claude",
        ".mcp.json",
        "a/.mcp.json",
    ],
)
def test_no_grant_reaches_control_files_however_wide(path):
    assert not ALL.may_read(path)
    assert not ALL.may_write(path)


def test_who_has_read_strangers_text_writes_the_files_named_for_that_alone():
    assert [ALL.may_write(path, tainted=True) for path in ("log.md", "a.md")] == [True, False]
    assert ALL.may_write("a.md")


def test_a_lane_is_no_way_to_write_what_was_not_granted():
    grant = Grant(agent="a", reads=EVERYWHERE, writes=NOWHERE, tainted_writes=EVERYWHERE)

    assert not grant.may_write("a.md", tainted=True)


def test_only_the_clis_own_tools_need_a_container():
    assert not ALL.needs_container
    assert Grant(
        agent="a", reads=NOWHERE, writes=NOWHERE, tainted_writes=NOWHERE, native=("Bash",)
    ).needs_container
