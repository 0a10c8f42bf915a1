from __future__ import annotations

from parachuted.access.grant import build_grant
from parachuted.runs.agent_runner import maintenance


def test_it_writes_chat_daily_and_brain_reaches_no_network_and_needs_a_person():
    one = maintenance(lambda _taint: ())
    grant = build_grant(
        one.config,
        agent=one.name,
        bounds_read=one.bounds.reads,
        bounds_write=one.bounds.writes,
        entry="maintenance",
    )
    paths = (
        "Chat/a.md",
        "Daily/a.md",
        "Brain/a.md",
        "Projects/a.md",
        ".parachute/audit/x.jsonl",
        "Modules/x/module.py",
        "a.md",
    )

    assert [path for path in paths if grant.may_write(path)] == [
        "Chat/a.md",
        "Daily/a.md",
        "Brain/a.md",
    ]
    assert [path for path in paths if grant.may_read(path)] == [
        "Chat/a.md",
        "Daily/a.md",
        "Brain/a.md",
    ]
    assert (grant.network, grant.bash, grant.sandbox.memory, grant.sandbox.cpus) == (
        "none",
        True,
        "1g",
        2.0,
    )
    assert one.config.requires_explicit_invocation
    assert one.does_without_shell
