from __future__ import annotations

from parachuted.access.grant import build_grant
from parachuted.runs.agent_runner import maintenance


def test_it_writes_chat_daily_and_brain_reaches_no_network_and_needs_a_person():
    agent = maintenance(lambda _taint: ())
    grant = build_grant(
        agent.config,
        agent=agent.name,
        bounds_read=agent.bounds.reads,
        bounds_write=agent.bounds.writes,
        entry="maintenance",
    )
    kept = ["Chat/a.md", "Daily/a.md", "Brain/a.md"]
    others = ["Projects/a.md", ".parachute/audit/x.jsonl", "Modules/x/module.py", "a.md"]

    assert [path for path in kept + others if grant.may_write(path)] == kept
    assert [path for path in kept + others if grant.may_read(path)] == kept
    assert (grant.network, grant.bash) == ("none", True)
    assert (grant.sandbox.memory, grant.sandbox.cpus) == ("1g", 2.0)
    assert agent.config.requires_explicit_invocation
    assert agent.does_without_shell
