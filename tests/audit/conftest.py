"""The audit of a vault, closed at the end."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.audit.audit_rig import AuditRig


@pytest.fixture
def rig(vault: Path, home: Path):
    made = AuditRig(vault=vault, home=home)
    yield made
    for log in made.logs:
        log.close()
