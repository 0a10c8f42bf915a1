"""Module agents: a module asks one of its agents, which works within its paths, the budgets and
what hooks say, and is remembered.
"""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from parachuted.access.caller import Caller, WorkChain, WorkRequest, acting
from parachuted.access.grant import CallerGrant
from parachuted.errors import ActRefusedError, AgentUnavailableError, NotFoundError
from parachuted.history import Undo
from parachuted.keys import AccessGrant, PathGlob
from parachuted.modules import AgentConfig
from parachuted.modules.hosting.module_agents import AgentService
from parachuted.modules.registry.declaration import ToolSpec
from parachuted.runs.agent_runner import NAME, maintenance
from parachuted.testing import ScriptedBackend, say, use
from tests.modules.module_rig import ModuleRig

BOT = """
permissions:
  read: ["Brain/**", "Work/**"]
  write: ["Brain/**"]
  mcp: [brain_search]
agents:
  responder:
    description: Answers questions.
    system_prompt: prompts/responder.md
    paths: ["Brain/projects/client-x.md", "Work/client-x/"]
    capabilities: [read]
    allow_workspace_skills: true
  admin:
    paths: ["Brain/**", "Private/**"]
    capabilities: [read, write]
  shell:
    bash: [git]
"""
CLI = Caller(request=WorkRequest(by="person", entry="cli"))
PROMPTS = {"prompts__responder": "You answer for client X."}


@pytest.fixture
def module_rig(module_rig: ModuleRig) -> ModuleRig:
    module_rig.save(
        "Brain/projects/client-x.md", "# Client X\n\nThey pay on Fridays.\n\n## Facts\n\n- blue\n"
    )
    module_rig.save("Brain/other.md", "# Other\n")
    module_rig.save("Private/secret.md", "heliotrope\n")
    return module_rig


def documents(module_rig: ModuleRig) -> list[dict[str, object]]:
    return module_rig.history.runs()


def calls(document: dict[str, Any]) -> list[bool]:
    """Of each call of that run, whether it failed."""
    return [step["error"] for step in document["steps"] if "called" in step]


async def test_an_agent_answers_from_what_it_was_given_and_reaches_nothing_else(module_rig):
    backend = ScriptedBackend(
        [
            use("read_note", path="Brain/projects/client-x.md"),
            use("read_note", path="Brain/other.md"),
            use("read_note", path="Private/secret.md"),
            use("write_note", path="Brain/n.md", text="x"),
            say("On Fridays."),
        ]
    )
    given = module_rig.given(
        module_rig.approve(BOT, **PROMPTS),
        module_rig.agents(backend, said={"telegram-bot": "Be brief."}.get),
    )

    assert await given.runs.run("responder", "When do they pay?", {}) == "On Fridays."
    (job,) = backend.jobs
    assert job.prompt == "When do they pay?"
    assert job.system_prompt.startswith("You answer for client X.")
    assert job.system_prompt.endswith("\nBe brief.\n")
    tools = ["read_note", "list_notes", "search_notes", "suggest_change"]
    assert [tool.name for tool in job.tools] == tools
    steps = [
        (step["arguments"]["path"], step["error"])
        for step in documents(module_rig)[0]["steps"]
        if "called" in step
    ]
    assert steps == [
        ("Brain/projects/client-x.md", False),
        ("Brain/other.md", True),
        ("Private/secret.md", True),
        ("Brain/n.md", True),
    ]
    assert not (module_rig.vault / "Brain/n.md").exists()


async def test_a_run_is_recorded_reported_and_undone_like_any_other(module_rig):
    backend = ScriptedBackend(
        [
            use("edit_section", path="Brain/projects/client-x.md", section="Facts", text="- green"),
            say("Done."),
        ],
        cost_usd=0.1,
    )
    given = module_rig.given(module_rig.approve(BOT), module_rig.agents(backend))
    before = module_rig.text("Brain/projects/client-x.md")
    with acting(Caller(chain=WorkChain(run="r-before"), causes=("c-1",))):
        await given.runs.run("admin", "Make it green.", {})

    (document,) = documents(module_rig)
    reported = {
        key: document[key]
        for key in ("watcher", "agent", "backend", "outcome", "cost_usd", "parents", "undone")
    }
    assert reported == {
        "watcher": "Modules/telegram-bot",
        "agent": "telegram-bot/admin",
        "backend": "scripted",
        "outcome": "changed",
        "cost_usd": 0.1,
        "parents": ["r-before"],
        "undone": None,
    }
    assert [cause["id"] for cause in document["causes"]] == ["c-1"]
    (write,) = module_rig.history.writes_by(str(document["id"]))
    assert (write.author.by, write.author.causes, write.path) == (
        "module:telegram-bot/admin",
        ("c-1",),
        "Brain/projects/client-x.md",
    )
    assert [
        (event.event, event.data["outcome"])
        for event in module_rig.events
        if event.event == "run.finished"
    ] == [("run.finished", "changed")]

    undo = Undo(module_rig.store, module_rig.bus)
    undone = await undo.undo(str(document["id"]))
    assert undone.paths == ("Brain/projects/client-x.md",)
    assert module_rig.text("Brain/projects/client-x.md") == before


async def test_what_an_agent_cannot_have_is_said_before_anything_begins(module_rig):
    """One that the class declares works too, and the manifest has the first word."""
    declared = {
        "guest": AgentConfig(paths=["Private/**", "Work/**"]),
        "admin": AgentConfig(paths=["**"]),
    }
    backend = ScriptedBackend([use("read_note", path="Private/secret.md"), say("ok")])
    agents = module_rig.agents(backend, declared=lambda _module: declared)
    given = module_rig.given(module_rig.approve(BOT, **PROMPTS), agents)
    with pytest.raises(NotFoundError, match="no agent 'root'; it has guest, admin, responder, "):
        await given.runs.run("root", "x", {})
    with pytest.raises(ActRefusedError, match="longer than"):
        await given.runs.run("responder", "x" * (2 << 20), {})
    assert documents(module_rig) == []
    await given.runs.run("guest", "x", {})
    assert calls(documents(module_rig)[0]) == [True]


async def test_a_cause_has_its_own_budget_so_modules_that_wake_each_other_halt(module_rig):
    given = module_rig.given(
        module_rig.approve(BOT, **PROMPTS),
        module_rig.agents(ScriptedBackend([say("ok")]), runs_per_cause=2),
    )
    with acting(Caller(causes=("c-1",))):
        for _ in range(2):
            await given.runs.run("responder", "x", {})
        with pytest.raises(AgentUnavailableError, match="2 runs per cause"):
            await given.runs.run("responder", "x", {})
    await given.runs.run("responder", "x", {})


async def test_agents_that_call_agents_come_to_an_end(module_rig):
    async def call(_module, _tool, _arguments, caller):
        with acting(caller):
            return await given.runs.run("admin", "again", {})

    tool = ToolSpec(
        name="brain_search", description="Asks.", handler="ask", schema={"type": "object"}
    )
    backend = ScriptedBackend([use("brain_search"), say("ok")])
    agents = module_rig.agents(
        backend, tools=lambda: [("brain", tool)], call_tool=call, concurrency=1
    )
    given = module_rig.given(module_rig.approve(BOT), agents)

    assert await asyncio.wait_for(given.runs.run("admin", "x", {}), 30) == "ok"
    assert len(backend.jobs) == 3
    runs = documents(module_rig)
    after = {tuple(run["parents"]): run["id"] for run in runs}
    first = after[()]
    second = after[first,]
    assert set(after) == {(), (first,), (second,)}
    assert len({cause["id"] for run in runs for cause in run["causes"]}) == 1


async def test_skills_are_offered_as_the_agent_may_have_them(module_rig):
    for folder, name in (
        (module_rig.vault, "weekly"),
        (module_rig.vault / "Work/client-x", "invoices"),
        (module_rig.folder / "person", "own"),
    ):
        (folder / ".claude/skills").mkdir(parents=True)
        (folder / f".claude/skills/{name}.md").write_text(f"# About {name}\n")
    backend = ScriptedBackend([use("use_skill", name="weekly"), say("ok")])
    given = module_rig.given(module_rig.approve(BOT, **PROMPTS), module_rig.agents(backend))
    await given.runs.run("responder", "x", {"working_directory": "Work/client-x"})
    await given.runs.run("responder", "x", {"working_directory": "Private"})
    await given.runs.run("admin", "x", {})

    offered = [
        [name for name in ("weekly", "invoices", "own") if f"- {name}:" in job.system_prompt]
        for job in backend.jobs
    ]
    assert offered == [["weekly", "invoices"], ["weekly"], []]
    assert ["use_skill" in [tool.name for tool in job.tools] for job in backend.jobs] == [
        True,
        True,
        False,
    ]


def service(module_rig: ModuleRig, backend: ScriptedBackend) -> AgentService:
    found, agents = [module_rig.approve(BOT)], module_rig.agents(backend)
    core = {NAME: maintenance(lambda _taint: ())}
    return AgentService(agents.runner, lambda: found, agents.of, core)


async def test_a_modules_agent_and_the_daemons_own_are_asked_for_by_name(module_rig: ModuleRig):
    backend = ScriptedBackend([say("ok")])
    for name in ("telegram-bot/admin", NAME):
        ran = await service(module_rig, backend).run(name, "x", {}, CLI)
        assert (ran.text, module_rig.history.run(ran.run_id)["agent"]) == ("ok", name)
    for name in ("admin", "telegram-bot", "other/admin", "", "/", "telegram-bot/../admin"):
        with pytest.raises(NotFoundError, match="no agent"):
            await service(module_rig, backend).run(name, "x", {}, CLI)


async def test_its_key_bounds_what_is_asked_for_and_its_options_narrow(module_rig: ModuleRig):
    backend = ScriptedBackend([use("read_note", path="Brain/other.md"), say("ok")])
    asked = service(module_rig, backend)
    key = AccessGrant(alternatives=(((PathGlob("Brain/projects/**"),),),))
    limited = Caller(grant=CallerGrant(reads=key, writes=key))
    options = {"max_turns": 3}
    ran = await asked.run("telegram-bot/admin", "x", options, limited)
    assert calls(module_rig.history.run(ran.run_id)) == [True]
    assert backend.jobs[0].limits.max_turns == 3
    with pytest.raises(ActRefusedError, match="does not take bash"):
        await asked.run(NAME, "x", {"bash": True}, CLI)
