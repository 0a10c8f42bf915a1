"""Given: what a module is handed carries its own name, its own rights and no one else's."""

from __future__ import annotations

from dataclasses import replace

import pytest

from parachuted.access.caller import Caller, WorkChain, WorkRequest, acting
from parachuted.access.grant import CallerGrant, grant_of
from parachuted.errors import ActRefusedError
from parachuted.modules import CurrentCall
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
