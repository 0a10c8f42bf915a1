"""Given: what a module is handed carries its own name, its own rights and no one else's."""

from __future__ import annotations

from dataclasses import replace

import pytest

from parachuted.access.caller import Caller, CurrentRun, WorkChain, WorkRequest, acting
from parachuted.access.grant import CallerGrant, Grant, grant_of
from parachuted.errors import ActRefusedError, EditRefusedError, NotFoundError, PathRefusedError
from parachuted.keys import EVERYWHERE, NOWHERE
from parachuted.modules import CurrentCall
from parachuted.modules.hosting.module_context import ModuleContext
from parachuted.suggestions import Proposal, Suggestions
from tests.modules.module_rig import ModuleRig

MANIFEST = """
permissions:
  read: ["Work/**"]
  write: ["Work/log.md"]
"""


@pytest.fixture
def module_rig(module_rig: ModuleRig) -> ModuleRig:
    module_rig.save("Work/log.md", "# Log\n")
    module_rig.save("Work/a.md", "# A\n")
    module_rig.save("Private/diary.md", "# Diary\n")
    return module_rig


async def test_rights_state_and_settings_are_those_of_what_was_approved(module_rig, caplog):
    approved = module_rig.approve(MANIFEST, config={"chat": "t"})
    given = module_rig.given(approved)
    await given.vault.append("Work/log.md", "Today", "- seen")

    assert (await given.vault.list(), given.name) == (["Work/a.md", "Work/log.md"], "telegram-bot")
    with pytest.raises(ActRefusedError, match="the module telegram-bot may not write"):
        await given.vault.append("Work/a.md", "Today", "- seen")
    (write,) = module_rig.history.writes_of("Work/log.md")
    assert write.author.by == "module:telegram-bot"

    await given.state.put("seen", [1])
    assert await module_rig.given(approved).state.get("seen") == [1]
    [kept] = (module_rig.folder / "state/modules").iterdir()
    assert kept.name == "telegram-bot"

    with pytest.raises(TypeError):
        given.config["chat"] = "other"  # type: ignore[index]
    given.log.warning("odd")
    assert given.config["chat"] == "t"
    assert caplog.records[-1].name == "parachuted.modules.telegram-bot"


def test_a_module_says_what_led_to_its_event(module_rig):
    given = module_rig.given(module_rig.approve(MANIFEST))
    given.publish("telegram-bot.message.came", {"text": "hello"})
    with acting(Caller(causes=("c-1",))):
        given.publish("telegram-bot.message.came", {"text": "hello"})
        given.publish("telegram-bot.message.came", {"causes": ["c-own"]})

    assert [data for _module, _event, data in module_rig.published] == [
        {"text": "hello"},
        {"text": "hello", "causes": ["c-1"]},
        {"causes": ["c-1"]},
    ]


def test_code_knows_which_run_called_it_and_whose_words_led_to_it(module_rig):
    given = module_rig.given(module_rig.approve(MANIFEST))
    assert given.current_call == CurrentCall(run=None)
    asked = Caller(request=WorkRequest(by="person"))
    with acting(asked):
        assert given.current_call == CurrentCall(run=None)
        asked.taint.read("Inbox/a.md")
        assert given.current_call == CurrentCall(run=None, is_strangers=True)
    with acting(Caller(chain=WorkChain(run="r-1"), request=WorkRequest(by="person"))):
        assert given.current_call == CurrentCall(run="r-1")
    with (
        acting(Caller(request=WorkRequest(is_valid=lambda: False))),
        pytest.raises(ActRefusedError),
    ):
        _ = given.current_call


def test_a_module_acts_for_people_only_if_approved_and_of_itself(
    module_rig,
):
    plain = module_rig.given(module_rig.approve(MANIFEST))
    given = module_rig.given(module_rig.approve(f"{MANIFEST}  people: true\n"))
    own = Caller()
    own.taint.read("Inbox/a.md")
    with acting(own), given.on_behalf_of("Matrix @ana:server"):
        assert not given.current_call.is_strangers
    with acting(own), given.on_behalf_of("Matrix @ana:server", is_strangers=True):
        assert given.current_call.is_strangers
    with acting(own), pytest.raises(ActRefusedError, match="people: true"):
        plain.on_behalf_of("Matrix @ana:server")
    for other in (
        Caller(request=WorkRequest(by="person")),
        Caller(request=WorkRequest(by="event")),
        Caller(request=WorkRequest(entry="schedule", by="clock")),
    ):
        with acting(other), pytest.raises(ActRefusedError, match="itself"):
            given.on_behalf_of("Matrix @ana:server")


def test_only_an_interface_that_consent_showed_can_be_had(module_rig):
    approved = module_rig.approve(f"optional_requires: [BrainInterface, Lost]\n{MANIFEST}")
    interfaces = {"BrainInterface": module_rig, "Other": module_rig}
    given = module_rig.given(approved, interfaces=interfaces)

    assert given.get_interface("BrainInterface") is module_rig
    assert given.get_interface("Lost") is None
    with pytest.raises(ActRefusedError, match="does not name it in optional_requires"):
        given.get_interface("Other")


ALL = "permissions: {read: ['**']}\n"
LIMITED = Caller(grant=CallerGrant(reads=grant_of(["Daily/**"])))
ENDED = Caller(request=WorkRequest(is_valid=lambda: False))
DAY = "2026-01-05"


async def test_an_untrusted_module_logs_activity_and_reads_it_if_it_may_read_all(module_rig):
    some, everything = (
        module_rig.given(replace(module_rig.approve(manifest), trust="untrusted")).activity
        for manifest in (MANIFEST, ALL)
    )
    await some.log("hello")
    with pytest.raises(ActRefusedError, match="quotes any note"):
        await some.read(DAY)
    assert [entry.summary for entry in await everything.read(DAY)] == ["hello"]
    for caller, work in (
        (LIMITED, lambda: everything.read(DAY)),
        (ENDED, lambda: everything.read(DAY)),
        (ENDED, lambda: everything.log("x")),
    ):
        with acting(caller), pytest.raises(ActRefusedError):
            await work()


SUGGESTING = """
permissions:
  read: ["Work/**", "Suggestions/**"]
  write: ["**"]
"""
AGENT = Grant(agent="a", reads=EVERYWHERE, writes=EVERYWHERE, tainted_writes=NOWHERE)


@pytest.fixture
def suggestions(module_rig) -> Suggestions:
    return Suggestions(
        module_rig.store,
        state=module_rig.state,
        bus=module_rig.bus,
        audit=module_rig.audit,
    )


@pytest.fixture
def suggesting(module_rig, suggestions) -> ModuleContext:
    agents = module_rig.agents(suggestions=suggestions)
    return module_rig.given(module_rig.approve(SUGGESTING), agents)


async def test_it_is_filed_under_the_modules_name_with_what_led_to_it(
    module_rig, suggestions, suggesting
):
    with acting(Caller(chain=WorkChain(run="r-1"), causes=("c-1",))):
        seen = {"key": "seen", "value": True}
        name = await suggesting.suggest("update", "Work/a.md", seen, "it was seen")
    made = suggestions.get(name)
    assert (made.source_agent, made.origin) == ("module:telegram-bot", "agent")
    assert (made.causes, made.run) == (("c-1",), "r-1")
    assert module_rig.text("Work/a.md") == "# A\n"
    await suggestions.approve(name)
    assert module_rig.text("Work/a.md") == "---\nseen: true\n---\n# A\n"

    asked = ("update", "Work/a.md", {"text": "x\n"}, "x")
    untrusted = replace(module_rig.approve(SUGGESTING), trust="untrusted")
    agents = module_rig.agents(suggestions=suggestions)
    name = await module_rig.given(untrusted, agents).suggest(*asked)
    assert suggestions.get(name).origin == "stranger"


async def test_for_what_it_may_not_read_there_is_nothing_to_suggest(suggestions, suggesting):
    for path in ("Private/diary.md", "Private/none.md"):
        with pytest.raises(
            NotFoundError, match="is not among the files that the module telegram-bot may read"
        ):
            await suggesting.suggest("update", path, {"text": "x"}, "x")
    with (
        acting(Caller(grant=CallerGrant(reads=grant_of(["Other/**"])))),
        pytest.raises(NotFoundError),
    ):
        await suggesting.suggest("update", "Work/a.md", {"text": "x"}, "x")
    for path in ("Modules/telegram-bot/module.py", ".parachute/x", "Suggestions/x.md"):
        with pytest.raises((NotFoundError, PathRefusedError)):
            await suggesting.suggest("create", path, {"text": "x"}, "x")
    with pytest.raises(EditRefusedError, match="is not one of create"):
        await suggesting.suggest("destroy", "Work/a.md", {}, "x")
    assert suggestions.all() == []


async def test_no_module_writes_where_suggestions_are_ticked(module_rig, suggestions, suggesting):
    name = await suggesting.suggest("update", "Work/a.md", {"text": "x\n"}, "x")
    path = suggestions.record(name).file
    ticked = module_rig.text(path).replace("- [ ] approve", "- [x] approve")
    for act in (
        suggesting.vault.write(path, ticked),
        suggesting.vault.create("Suggestions/new.md", "x"),
        suggesting.vault.delete(path),
    ):
        with pytest.raises((ActRefusedError, PathRefusedError)):
            await act


async def test_a_module_decides_on_a_suggestion_only_for_a_person(module_rig, suggestions):
    approved = module_rig.approve(f"{SUGGESTING}  people: true\n")
    agents = module_rig.agents(suggestions=suggestions)
    given = module_rig.given(approved, agents)
    plain = module_rig.given(module_rig.approve(SUGGESTING), agents)
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
