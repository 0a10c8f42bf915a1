from __future__ import annotations

import pytest

from parachuted.access.caller import Caller
from parachuted.access.grant import CallerGrant
from parachuted.errors import ActRefusedError, NotFoundError
from parachuted.keys import AccessGrant, PathGlob
from parachuted.modules.hosting.module_agents import AgentService
from parachuted.runs.agent_runner import NAME, maintenance
from parachuted.testing import ScriptedBackend, say, use
from tests.modules.module_rig import ModuleRig

BOT = """
permissions:
  read: ["Brain/**"]
  write: ["Brain/**"]
agents:
  admin:
    paths: ["Brain/**"]
    capabilities: [read, write]
"""


@pytest.fixture
def module_rig(module_rig: ModuleRig) -> ModuleRig:
    module_rig.save("Brain/a.md", "# A\n")
    return module_rig


def desk(module_rig: ModuleRig, backend: ScriptedBackend) -> AgentService:
    found, agents = {"telegram-bot": module_rig.approve(BOT)}, module_rig.agents(backend)
    return AgentService(agents.runner, found.get, agents.of, {NAME: maintenance(lambda _taint: ())})


async def test_a_modules_agent_and_the_daemons_own_are_asked_for_by_name(module_rig: ModuleRig):
    backend = ScriptedBackend([say("ok")])
    for name in ("telegram-bot/admin", NAME):
        ran = await desk(module_rig, backend).run(name, "x", {}, caller=Caller(), entry="cli")
        assert (ran.text, module_rig.history.run(ran.run_id)["agent"]) == ("ok", name)
    for name in ("admin", "telegram-bot", "other/admin", "", "/", "telegram-bot/../admin"):
        with pytest.raises(NotFoundError, match="no agent"):
            await desk(module_rig, backend).run(name, "x", {}, caller=Caller(), entry="cli")


async def test_its_key_bounds_what_is_asked_for_and_its_options_narrow(module_rig: ModuleRig):
    backend = ScriptedBackend([use("read_note", path="Brain/a.md"), say("ok")])
    key = AccessGrant(alternatives=(((PathGlob("Brain/b.md"),),),))
    ran = await desk(module_rig, backend).run(
        "telegram-bot/admin",
        "x",
        {"max_turns": 3},
        entry="http",
        caller=Caller(grant=CallerGrant(reads=key, writes=key)),
    )
    assert [
        step["error"] for step in module_rig.history.run(ran.run_id)["steps"] if "called" in step
    ] == [True]
    assert backend.jobs[0].limits.max_turns == 3
    with pytest.raises(ActRefusedError, match=r"max_turns, .*and not bash"):
        await desk(module_rig, backend).run(
            NAME, "x", {"bash": True}, caller=Caller(), entry="http"
        )
