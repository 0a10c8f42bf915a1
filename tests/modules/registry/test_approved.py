"""The values that others build on cannot be changed by whom they are given to."""

from __future__ import annotations

from dataclasses import FrozenInstanceError
from pathlib import Path

import pytest

from parachuted.modules.registry.approved import LEVELS, ModuleEntry


def test_an_entry_is_as_it_was_made():
    entry = ModuleEntry(
        name="bot",
        folder=Path("/v/Modules/bot"),
        source="local",
        version="",
        trust="untrusted",
        enabled=False,
        approved_digest=None,
        found_digest=None,
        state="missing",
    )
    with pytest.raises(FrozenInstanceError):
        entry.enabled = True
    assert (entry.problem, entry.is_dev) == (None, False)
    assert LEVELS == ("verified", "trusted", "untrusted")
