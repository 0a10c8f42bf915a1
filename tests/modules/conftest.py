"""Fixtures for modules: isolation of each kind that this machine has."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from parachuted.modules.hosting.isolation import IsolationFactory, Sandbox
from parachuted.modules.hosting.isolation_rules import landlock_version
from parachuted.modules.hosting.seccomp import can_filter

MakeIsolation = Callable[..., IsolationFactory]


@pytest.fixture
def make_isolation(request: pytest.FixtureRequest, tmp_path: Path) -> MakeIsolation:
    """Cages of that kind; the test is skipped where the machine has none such."""

    def make(sandbox: Sandbox, **more: int) -> IsolationFactory:
        if sandbox == "landlock" and not (landlock_version() and can_filter()):
            pytest.skip(
                "this kernel has no Landlock, or the processor's system calls are not known"
            )
        env = request.getfixturevalue("engine") if sandbox in {"docker", "auto"} else {}
        return IsolationFactory(
            sandbox=sandbox,
            run=tmp_path / "run",
            secret=[tmp_path / "vault", tmp_path / "home"],
            env=env,
            **more,
        )

    return make
