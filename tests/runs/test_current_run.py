from __future__ import annotations

import pytest

from parachuted.access.agent_config import AgentConfig, SandboxConfig
from parachuted.access.grant import Grant, build_grant
from parachuted.keys import EVERYWHERE
from parachuted.runs.run_request import CurrentRun


def granted(**config: object) -> Grant:
    made = AgentConfig(**{"capabilities": ["read", "write"], **config})
    return build_grant(
        made, agent="a", bounds_read=EVERYWHERE, bounds_write=EVERYWHERE, entry="cli"
    )


def test_an_agent_that_another_one_asks_for_help_may_no_more_than_that_one():
    outer = CurrentRun(grant=granted(paths=["Brain/**"], bash=["git"], network=["a.example"]))
    inner = outer.narrowed(
        granted(paths=["Brain/a/**", "Daily/**"], bash=True, network=["a.example", "b.example"])
    )

    assert (inner.bash, inner.network) == (("git",), ("a.example",))
    assert [inner.may_read(path) for path in ("Brain/a/x.md", "Brain/x.md", "Daily/x.md")] == [
        True,
        False,
        False,
    ]
    assert [inner.may_write(path) for path in ("Brain/a/x.md", "Daily/x.md")] == [True, False]


def test_the_interfaces_that_it_has_not_it_cannot_have_by_asking():
    outer = CurrentRun(grant=granted(allowed_interfaces=("A", "B")))

    assert outer.narrowed(granted()).interfaces == ("A", "B")
    assert outer.narrowed(granted(allowed_interfaces=("B", "C"))).interfaces == ("B",)


@pytest.mark.parametrize(
    ("outer", "inner"),
    [
        ({"paths": ["**"]}, {"paths": ["**"], "bash": True, "network": True}),
        (
            {"paths": ["**"], "bash": ["git"], "network": ["x.example"]},
            {"paths": ["**"], "bash": ["npm"], "network": ["y.example"]},
        ),
        (
            {"paths": ["**"]},
            {"paths": ["**"], "capabilities": ["Bash"], "sandbox": SandboxConfig(network="bridge")},
        ),
    ],
)
def test_a_shell_and_the_network_that_it_has_not_it_cannot_have_by_asking(
    outer: dict[str, object], inner: dict[str, object]
):
    narrowed = CurrentRun(grant=granted(**outer)).narrowed(granted(**inner))

    assert (narrowed.bash, narrowed.network) == (False, "none")
    assert not {"Bash", "WebFetch"} & set(narrowed.native)
