from __future__ import annotations

from pathlib import Path

from tests.modules.module_rig import ModuleRig


def test_without_more_there_is_no_container_and_nobody_to_ask_or_suggest_to(tmp_path: Path):
    module_rig = ModuleRig(tmp_path)
    parts = module_rig.agents()
    assert (parts.boxes, parts.permissions, parts.suggestions, parts.origins, parts.taints) == (
        None,
    ) * 5
    assert parts.at_work.all() == []
    module_rig.close()
