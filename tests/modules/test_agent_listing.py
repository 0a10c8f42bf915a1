"""Agent listing: what is said of an agent is the very grant that a run of it gets."""

from __future__ import annotations

import pytest

from parachuted.access.strangers import Strangers
from parachuted.agents.offline import OfflineBackend
from parachuted.bubbling import WatchRegistry
from parachuted.errors import NotFoundError
from parachuted.modules.hosting.module_agents import AgentService
from parachuted.modules.listed_agents import AgentListing
from parachuted.runs.agent_runner import maintenance
from tests.modules.module_rig import ModuleRig

MANIFEST = """
permissions:
  read: ["Work/**", "Inbox/**"]
  write: ["Work/**"]
  mcp: [send_message]
agents:
  responder: {description: Answers., paths: ["Work/**", "Inbox/**", "Private/**"], capabilities: [read, write]}
  builder: {paths: ["Work/**"], capabilities: [Read, Bash], network: [example.org]}
"""  # noqa: E501


@pytest.fixture
def module_rig(module_rig: ModuleRig) -> ModuleRig:
    for path in (
        "Work/plan.md",
        "Work/log.md",
        "Inbox/mail.md",
        "Private/diary.md",
        "Modules/x/module.py",
    ):
        module_rig.save(path, "text\n")
    return module_rig


def listing(
    module_rig: ModuleRig,
    *,
    overrides: dict[str, object] | None = None,
    backend: OfflineBackend | None = None,
) -> AgentListing:
    approved = [module_rig.approve(MANIFEST, agents=overrides)]
    index, agents = module_rig.library.index, module_rig.agents(*filter(None, [backend]))
    core = {"maintenance": maintenance(lambda _taint: ())}
    return AgentListing(
        AgentService(agents.runner, lambda: approved, agents.of, core),
        WatchRegistry(module_rig.state, index, module_rig.clock),
        index,
        Strangers(),
    )


async def test_all_agents_are_listed_each_with_the_grant_that_its_run_gets(module_rig):
    agents = listing(module_rig)
    known = await agents.all()

    assert [(one.name, one.runs_here) for one in known] == [
        ("curator", True),
        ("maintenance", True),
        ("telegram-bot/responder", True),
        ("telegram-bot/builder", False),
    ]
    assert "no container: a shell" in str(known[1].problem)
    notes = "read_note list_notes search_notes write_note edit_section set_key move_note"
    assert known[2].tools == [*notes.split(), "suggest_change", "send_message"]
    assert known[3].tools[-5:] == ["Read", "Glob", "Grep", "Bash", "send_message"]

    _responder, grant = await agents.get("telegram-bot/responder")
    seen = agents.reachable(grant)
    assert (seen.reads, seen.writes, seen.strangers) == (3, 2, 1)
    assert set(seen.first) == {"Inbox/mail.md", "Work/log.md", "Work/plan.md"}
    assert set(seen.first_writes) == {"Work/log.md", "Work/plan.md"}


async def test_a_mistake_in_modules_yaml_is_a_problem_of_that_agent_alone(module_rig):
    agents = listing(module_rig, overrides={"responder": {"paths": 7}})
    known = await agents.all()

    (wrong,) = [one for one in known if one.name == "telegram-bot/responder"]
    assert "modules.yaml" in str(wrong.problem)
    assert (wrong.runs_here, wrong.permissions, wrong.tools) == (False, None, [])
    assert len(known) == 4
    for name in ("nobody", "telegram-bot/none", "not-approved/x", ""):
        with pytest.raises(NotFoundError):
            await agents.get(name)


async def test_without_a_model_no_agent_of_a_module_is_said_to_run_here(module_rig):
    agents = listing(module_rig, backend=OfflineBackend())
    known = {one.name: one for one in await agents.all()}

    assert {name for name, one in known.items() if one.runs_here} == {"curator"}
    assert "needs a model" in str(known["telegram-bot/responder"].problem)
