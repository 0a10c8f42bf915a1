"""The context of folders as a module gets it: chosen within what it may read, within a budget, with
age and taint.
"""

from __future__ import annotations

import pytest

from parachuted.access.caller import Caller, acting
from parachuted.access.grant import CallerGrant, grant_of
from parachuted.errors import PathRefusedError
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


async def test_what_is_chosen_and_readable_is_in_the_text_within_the_budget(module_rig):
    contexts = module_rig.given(module_rig.approve(MANIFEST)).contexts

    found = await contexts.preview(["Work/a", "Private"])
    assert "Dig." in found.text
    assert "Secret" not in found.text
    parts = {part.path: part for part in found.parts}
    assert "Private/AGENTS.md" not in parts
    assert parts["Work/a/AGENTS.md"].included
    assert not parts["AGENTS.md"].included, "a parent that nobody chose"
    assert not found.is_truncated
    assert (await contexts.preview([])).text == ""

    cut = await contexts.preview(["Work/a", "Work/b"], max_tokens=100)
    assert cut.is_truncated
    only = grant_of(["Work/b/**"])
    with acting(Caller(grant=CallerGrant(reads=only, writes=only))):
        found = await contexts.preview(["Work/a", "Work/b"])
    assert "Dig." not in found.text
    assert "Water." in found.text
    with pytest.raises(PathRefusedError):
        await contexts.preview(["../x"])


async def test_a_conversation_has_in_its_prompt_what_its_agent_may_read(module_rig):
    backend = ScriptedBackend([say("x")])
    runs = module_rig.given(module_rig.approve(MANIFEST), module_rig.agents(backend)).runs
    options = {"conversation": True, "context_folders": ["Work/a", "Work/b", "Private"]}
    await runs.result(await runs.start("chat", "x", options))

    prompt = backend.jobs[0].system_prompt
    assert "Dig." in prompt
    assert "Water." not in prompt
    assert "Secret" not in prompt
