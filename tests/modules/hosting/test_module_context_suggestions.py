"""What a module suggests is filed under its name, for files that it may read, and its own folder of
permissions decides nothing on it.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from parachuted.access.caller import Caller, CurrentRun, WorkChain, WorkRequest, acting
from parachuted.access.grant import CallerGrant, Grant
from parachuted.errors import ActRefusedError, EditRefusedError, NotFoundError, PathRefusedError
from parachuted.keys import EVERYWHERE, NOWHERE, AccessGrant, PathGlob
from parachuted.modules.hosting.module_context import ModuleContext
from parachuted.suggestions import Proposal, Suggestions
from tests.modules.module_rig import ModuleRig

MANIFEST = """
permissions:
  read: ["Work/**", "Suggestions/**"]
  write: ["**"]
"""
AGENT = Grant(agent="a", reads=EVERYWHERE, writes=EVERYWHERE, tainted_writes=NOWHERE)


@pytest.fixture
def module_rig(module_rig: ModuleRig) -> ModuleRig:
    module_rig.save("Work/a.md", "# A\n")
    module_rig.save("Private/diary.md", "# Diary\n")
    return module_rig


@pytest.fixture
def suggestions(module_rig, tmp_path) -> Suggestions:
    home = tmp_path / "home"
    home.mkdir(mode=0o700)
    return Suggestions(
        module_rig.store,
        state=module_rig.state,
        bus=module_rig.bus,
        audit=module_rig.audit,
    )


@pytest.fixture
def given(module_rig, suggestions) -> ModuleContext:
    agents = module_rig.agents(suggestions=suggestions)
    return module_rig.given(module_rig.approve(MANIFEST), agents)


async def test_it_is_filed_under_the_modules_name_with_what_led_to_it(
    module_rig, suggestions, given
):
    with acting(Caller(chain=WorkChain(run="r-1"), causes=("c-1",))):
        seen = {"key": "seen", "value": True}
        name = await given.suggest("update", "Work/a.md", seen, "it was seen")
    made = suggestions.get(name)
    assert (made.source_agent, made.origin) == ("module:telegram-bot", "agent")
    assert (made.causes, made.run) == (("c-1",), "r-1")
    assert module_rig.text("Work/a.md") == "# A\n"
    await suggestions.approve(name)
    assert module_rig.text("Work/a.md") == "---\nseen: true\n---\n# A\n"

    asked = ("update", "Work/a.md", {"text": "x\n"}, "x")
    untrusted = replace(module_rig.approve(MANIFEST), trust="untrusted")
    agents = module_rig.agents(suggestions=suggestions)
    name = await module_rig.given(untrusted, agents).suggest(*asked)
    assert suggestions.get(name).origin == "stranger"


async def test_for_what_it_may_not_read_there_is_nothing_to_suggest(suggestions, given):
    for path in ("Private/diary.md", "Private/none.md"):
        with pytest.raises(
            NotFoundError, match="is not among the files that the module telegram-bot may read"
        ):
            await given.suggest("update", path, {"text": "x"}, "x")
    with (
        acting(limited(AccessGrant(alternatives=(((PathGlob("Other/**"),),),)))),
        pytest.raises(NotFoundError),
    ):
        await given.suggest("update", "Work/a.md", {"text": "x"}, "x")
    for path in ("Modules/telegram-bot/module.py", ".parachute/x", "Suggestions/x.md"):
        with pytest.raises((NotFoundError, PathRefusedError)):
            await given.suggest("create", path, {"text": "x"}, "x")
    with pytest.raises(EditRefusedError, match="is not one of create"):
        await given.suggest("destroy", "Work/a.md", {}, "x")
    assert suggestions.all() == []


async def test_no_module_writes_where_suggestions_are_ticked(module_rig, suggestions, given):
    name = await given.suggest("update", "Work/a.md", {"text": "x\n"}, "x")
    path = suggestions.record(name).file
    ticked = module_rig.text(path).replace("- [ ] approve", "- [x] approve")
    for act in (
        given.vault.write(path, ticked),
        given.vault.create("Suggestions/new.md", "x"),
        given.vault.delete(path),
    ):
        with pytest.raises((ActRefusedError, PathRefusedError)):
            await act


async def test_a_module_decides_on_a_suggestion_only_for_a_person(module_rig, suggestions):
    approved = module_rig.approve(f"{MANIFEST}  people: true\n")
    agents = module_rig.agents(suggestions=suggestions)
    given = module_rig.given(approved, agents)
    plain = module_rig.given(module_rig.approve(MANIFEST), agents)
    own, others, hidden, second = [
        (
            await suggestions.propose(
                Proposal(
                    source_agent=by, action="update", path=path, payload=payload, reasoning="x"
                )
            )
        ).id
        for by, path, payload in (
            ("module:telegram-bot", "Work/a.md", {"text": "own\n"}),
            ("gardener", "Work/a.md", {"key": "seen", "value": True}),
            ("gardener", "Private/diary.md", {"text": "x\n"}),
            ("gardener", "Work/a.md", {"text": "second\n"}),
        )
    ]
    ana = Caller().for_person("Telegram 1")
    of_run = replace(ana, chain=WorkChain(within=CurrentRun(grant=AGENT)))
    for context, caller, name, error in (
        (given, Caller(), others, ActRefusedError),
        (given, Caller(request=WorkRequest(by="person")), others, ActRefusedError),
        (given, Caller().for_person("Telegram 1", is_strangers=True), others, ActRefusedError),
        (given, of_run, others, ActRefusedError),
        (plain, ana, others, ActRefusedError),
        (given, ana, own, ActRefusedError),
        (given, ana, hidden, NotFoundError),
        (given, ana, "s0000000000", NotFoundError),
    ):
        with acting(caller), pytest.raises(error):
            await context.resolve_suggestion(name, "approve")
    with acting(ana), pytest.raises(EditRefusedError, match="neither approve nor reject"):
        await given.resolve_suggestion(others, "perhaps")
    with acting(Caller()), given.on_behalf_of("Telegram 1"):
        assert await given.resolve_suggestion(others, "approve") == "approved"
        assert await given.resolve_suggestion(second, "reject") == "rejected"
        with pytest.raises(EditRefusedError, match="already"):
            await given.resolve_suggestion(others, "reject")
    assert module_rig.text("Work/a.md") == "---\nseen: true\n---\n# A\n"


def limited(paths: AccessGrant) -> Caller:
    return Caller(grant=CallerGrant(reads=paths, writes=paths))
