"""Load guard: hooks may object to a module's code being loaded."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from parachuted.errors import ActRefusedError
from parachuted.hooks import HookDecision, HookEvent
from parachuted.modules.hosting.hosted_module import ask_to_load
from tests.modules.small_modules import approve, write_module


class Guard:
    """Objects to all that it is asked about."""

    def __init__(self, *, wants: bool) -> None:
        self._wants, self.asked = wants, list[HookEvent]()

    def wants(self, event: str) -> bool:
        return self._wants and event == "module.load.before"

    async def ask(self, occurrence: HookEvent) -> HookDecision:
        self.asked.append(occurrence)
        return HookDecision(allowed=False, reason="not today")


async def test_a_hook_that_objects_is_named_with_its_reason(tmp_path: Path):
    guard, approved = Guard(wants=True), approve(write_module(tmp_path / "daily", "pass"))

    with pytest.raises(ActRefusedError, match="objects to the module daily: not today"):
        await ask_to_load(guard, approved, datetime.now(UTC), tmp_path)

    assert guard.asked[0].data["hash"] == approved.digest


async def test_no_one_is_asked_where_no_hook_is(tmp_path: Path):
    guard = Guard(wants=False)

    await ask_to_load(
        guard, approve(write_module(tmp_path / "daily", "pass")), datetime.now(UTC), tmp_path
    )

    assert guard.asked == []
