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


async def test_the_rights_are_those_of_the_approved_manifest(module_rig):
    given = module_rig.given(module_rig.approve(MANIFEST))
    await given.vault.append("Work/log.md", "Today", "- seen")

    assert (await given.vault.list(), given.name) == (["Work/a.md", "Work/log.md"], "telegram-bot")
    with pytest.raises(ActRefusedError, match="the module telegram-bot may not write"):
        await given.vault.append("Work/a.md", "Today", "- seen")
    assert [write.author.by for write in module_rig.history.writes_of("Work/log.md")] == [
        "module:telegram-bot"
    ]


async def test_the_state_of_one_module_is_not_anothers(module_rig):
    approved = module_rig.approve(MANIFEST)
    await module_rig.given(approved).state.put("seen", [1])

    assert await module_rig.given(approved).state.get("seen") == [1]
    assert [entry.name for entry in (module_rig.folder / "state/modules").iterdir()] == [
        "telegram-bot"
    ]


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


def test_a_module_acts_for_people_only_if_that_was_approved_and_it_began_the_work_itself(
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


def test_settings_are_to_be_read_and_logs_have_the_modules_name(module_rig, caplog):
    given = module_rig.given(module_rig.approve(MANIFEST, config={"chat": "t"}))
    with pytest.raises(TypeError):
        given.config["chat"] = "other"  # type: ignore[index]
    given.log.warning("odd")

    assert (given.config["chat"], caplog.records[0].name) == (
        "t",
        "parachuted.modules.telegram-bot",
    )


def test_only_an_interface_that_consent_showed_can_be_had(module_rig):
    approved = module_rig.approve(f"optional_requires: [BrainInterface, Lost]\n{MANIFEST}")
    given = module_rig.given(
        approved, interfaces={"BrainInterface": module_rig, "Other": module_rig}
    )

    assert (given.get_interface("BrainInterface"), given.get_interface("Lost")) == (
        module_rig,
        None,
    )
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


async def test_a_key_of_some_paths_and_one_that_has_ended_read_no_activity(module_rig):
    activity = module_rig.given(module_rig.approve(MANIFEST)).activity
    for caller, work in (
        (LIMITED, lambda: activity.read(DAY)),
        (ENDED, lambda: activity.read(DAY)),
        (ENDED, lambda: activity.log("x")),
    ):
        with acting(caller), pytest.raises(ActRefusedError):
            await work()
