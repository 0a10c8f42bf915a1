"""Shipped hooks: each is copied into a home, as a person would, and run by the real runner."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import pytest

from parachuted.hooks import HookDecision, HookEvent, Hooks
from parachuted.hooks.records import HookRunRecord
from tests.hooks.serving import running_hooks

SHIPPED = Path(__file__).resolve().parents[2] / "hooks"
NOON = datetime(2026, 1, 6, 12, tzinfo=UTC)


@dataclass
class ShippedHooks:
    """A vault, and a home in which shipped hooks were put."""

    vault: Path
    home: Path
    hooks: Hooks

    def put(self, name: str) -> None:
        """`cp` it into the home's hooks folder."""
        (self.home / "hooks").mkdir(exist_ok=True, mode=0o700)
        shutil.copy(SHIPPED / name, self.home / "hooks" / name)
        self.hooks.look()

    async def happens(
        self,
        event: str,
        *,
        transcript: Path | None = None,
        session: str | None = "s1",
        **data: object,
    ) -> HookDecision:
        """The event, and what its hooks say."""
        hook_event = HookEvent(
            event=event,
            at=NOON,
            data=data if transcript is None else {**data, "transcript_path": str(transcript)},
            vault=self.vault,
            session_id=session,
            module="daily",
        )
        return await self.hooks.ask(hook_event)

    def message(self) -> str | None:
        """What the last run says to the person."""
        return json.loads(self.ran().stdout or "{}").get("systemMessage")

    def ran(self) -> HookRunRecord:
        """The last run, which ended well."""
        record = self.hooks.recorder.last(1)[0]
        assert (record.exit_code, record.problem, record.timed_out) == (0, None, False), record
        return record


@pytest.fixture
async def shipped(vault: Path, home: Path) -> AsyncIterator[ShippedHooks]:
    env = {name: os.environ[name] for name in ("PATH", "HOME")}
    async with running_hooks(home, vault, clock=lambda: NOON, env=env) as hooks:
        yield ShippedHooks(vault, home, hooks)


def write(vault: Path, path: str, text: str) -> None:
    """A file of the vault."""
    place = vault / path
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_text(text, "utf-8", newline="")
