"""Kept paths: places of the API that are one module's alone."""

from __future__ import annotations

import pytest

from parachuted.api import RESERVED
from parachuted.modules.registry.declaration import KEPT_PATHS, kept_path


@pytest.mark.parametrize(
    ("path", "kept"),
    [
        ("/api/import", "/api/import"),
        ("/api/bots/status", "/api/bots"),
        ("/api/modules/daily/agents/x/run", "/api/modules/daily/agents"),
        ("/api/modules/daily/agentsx", None),
        ("/api/modules/daily", None),
        ("/api/importer", None),
    ],
)
def test_a_place_is_kept_with_all_below_it(path, kept):
    assert kept_path(path) == kept


def test_no_module_can_take_such_a_place_by_its_name():
    others = {path.split("/")[2]: module for path, module in KEPT_PATHS.items()}
    assert {name for name, module in others.items() if name != module} <= RESERVED
