"""The context of folders in a conversation's prompt: as much as its agent may read."""

from __future__ import annotations

import pytest

from parachuted.testing import ScriptedBackend, say
from tests.modules.module_rig import ModuleRig

MANIFEST = """
permissions:
  read: ["AGENTS.md", "Work/**"]
agents:
  chat:
    paths: ["Work/a/**"]
"""


@pytest.fixture
def module_rig(module_rig: ModuleRig) -> ModuleRig:
    module_rig.save("AGENTS.md", "# The vault\n")
    module_rig.save("Work/a/AGENTS.md", "# A\n\nDig.\n")
    module_rig.save("Work/b/CLAUDE.md", "# B\n\n" + "Water. " * 1_000)
    module_rig.save("Private/AGENTS.md", "# Secret\n")
    return module_rig


async def test_a_conversation_has_in_its_prompt_what_its_agent_may_read(module_rig):
    backend = ScriptedBackend([say("x")])
    runs = module_rig.given(module_rig.approve(MANIFEST), module_rig.agents(backend)).runs
    options = {"conversation": True, "context_folders": ["Work/a", "Work/b", "Private"]}
    await runs.result(await runs.start("chat", "x", options))

    prompt = backend.jobs[0].system_prompt
    assert "Dig." in prompt
    assert "Water." not in prompt
    assert "Secret" not in prompt
