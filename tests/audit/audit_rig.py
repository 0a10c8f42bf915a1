"""Audits: a vault's audit as a test keeps it, with a clock that it sets."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from parachuted.audit.chain import AuditEvent
from parachuted.audit.files import AuditFolder, ChainHeadFile
from parachuted.audit.log import AuditLog
from parachuted.audit.reader import AuditReader, ChainVerification, verify
from parachuted.vault import VaultRoot

MACHINE = "laptop"
NOON = datetime(2026, 11, 22, 12, 0, tzinfo=UTC)


def event(endpoint: str = "GET /api/health", at: datetime = NOON, **more: object) -> AuditEvent:
    """An event like most."""
    fields = {
        "timestamp": at,
        "event_type": "api_call",
        "source_type": "local",
        "source_id": "this machine",
        "target_module": "system",
        "target_endpoint": endpoint,
        **more,
    }
    return AuditEvent(**fields)


@dataclass
class AuditRig:
    """One vault's audit, and the logs that were opened on it."""

    vault: Path
    home: Path
    now: datetime = NOON
    logs: list[AuditLog] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.folder = AuditFolder(VaultRoot(self.vault), MACHINE)
        self.head = ChainHeadFile(self.home / "audit.head")
        self.reader = AuditReader(self.folder)

    def open(self, *, keep_days: int = 0, gather_s: float = 0.005, **more: object) -> AuditLog:
        log = AuditLog(
            self.folder, self.head, lambda: self.now, keep_days=keep_days, gather_s=gather_s, **more
        )
        self.logs.append(log)
        log.start()
        return log

    def write(self, *events: AuditEvent, **more: object) -> None:
        """A whole life of a log, in which these are recorded."""
        log = self.open(**more)
        for one in events:
            log.record(one)
        log.close()

    def fill(self, days: int = 3, lines: int = 4) -> None:
        """Days with lines, the last of them the 22nd."""
        events = [
            event(f"GET /{day}/{number}", NOON.replace(day=22 - days + 1 + day, minute=number % 60))
            for day in range(days)
            for number in range(lines)
        ]
        self.write(*events)

    def file(self, day: str = "2026-11-22") -> Path:
        return self.vault / ".parachute" / "audit" / f"{day}.{MACHINE}.jsonl"

    def raw(self, day: str = "2026-11-22") -> list[bytes]:
        return self.file(day).read_bytes().splitlines(keepends=True)

    def lines(self, day: str = "2026-11-22") -> list[dict[str, object]]:
        return [json.loads(line) for line in self.raw(day)]

    def verdict(self) -> ChainVerification:
        return verify(self.folder, self.head)

    def until(self, condition: Callable[[], object]) -> None:
        deadline = time.monotonic() + 120
        while not condition():
            assert time.monotonic() < deadline
            time.sleep(0.002)
