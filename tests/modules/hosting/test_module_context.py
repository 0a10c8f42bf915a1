"""Given: what a module is handed carries its own name, its own rights and nobody else's."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from parachuted.access.authority import Authority, acting
from parachuted.errors import ActRefusedError
from parachuted.modules import Services
from parachuted.modules.hosting.module_context import ModuleContextSources, make_services
from tests.modules.yard import Yard

MANIFEST = """
permissions:
  read: ["Work/**"]
  write: ["Work/log.md"]
"""


@pytest.fixture
def yard(tmp_path) -> Iterator[Yard]:
    yard = Yard(tmp_path)
    yard.save("Work/log.md", "# Log\n")
    yard.save("Work/a.md", "# A\n")
    yield yard
    yard.close()


async def test_the_rights_are_those_of_the_approved_manifest(yard):
    given = yard.given(yard.approve(MANIFEST))
    await given.vault.append("Work/log.md", "Today", "- seen")

    assert (await given.vault.list(), given.name) == (["Work/a.md", "Work/log.md"], "telegram-bot")
    with pytest.raises(ActRefusedError, match="the module telegram-bot may not write"):
        await given.vault.append("Work/a.md", "Today", "- seen")
    assert [write.author.by for write in yard.history.writes_of("Work/log.md")] == [
        "module:telegram-bot"
    ]


async def test_the_state_of_one_module_is_not_anothers(yard):
    approved = yard.approve(MANIFEST)
    await yard.given(approved).state.put("seen", [1])

    assert await yard.given(approved).state.get("seen") == [1]
    assert [entry.name for entry in (yard.folder / "state/modules").iterdir()] == ["telegram-bot"]


def test_a_module_publishes_under_its_own_name_and_says_what_led_to_it(yard):
    given = yard.given(yard.approve(MANIFEST))
    given.publish("telegram-bot.message.came", {"text": "hello"})
    with acting(Authority(causes=("c-1",))):
        given.publish("telegram-bot.message.came", {"text": "hello"})
        given.publish("telegram-bot.message.came", {"causes": ["c-own"]})

    assert [data for _module, _event, data in yard.published] == [
        {"text": "hello"},
        {"text": "hello", "causes": ["c-1"]},
        {"causes": ["c-1"]},
    ]
    for event in ("daily.entry.created", "telegram-botnet.x", "telegram", "file.created", "", "."):
        with pytest.raises(ActRefusedError, match="whose name begins with telegram-bot"):
            given.publish(event, {})


def test_settings_are_to_be_read_and_logs_have_the_modules_name(yard, caplog):
    given = yard.given(yard.approve(MANIFEST, config={"chat": "t"}))
    with pytest.raises(TypeError):
        given.config["chat"] = "other"  # type: ignore[index]
    given.log.warning("odd")

    assert (given.config["chat"], caplog.records[0].name) == (
        "t",
        "parachuted.modules.telegram-bot",
    )


def test_only_an_interface_that_consent_showed_can_be_had(yard):
    approved = yard.approve(f"optional_requires: [BrainInterface, Lost]\n{MANIFEST}")
    given = yard.given(approved, interfaces={"BrainInterface": yard, "Other": yard})

    assert (given.get_interface("BrainInterface"), given.get_interface("Lost")) == (yard, None)
    with pytest.raises(ActRefusedError, match="does not name it in optional_requires"):
        given.get_interface("Other")


def test_it_is_what_the_manager_hands_on(yard):
    sources = ModuleContextSources(
        vault=yard.parts,
        agents=yard.agents(),
        state=yard.folder,
        clock=yard.clock,
        publish=lambda *_: None,
        wrote=lambda *_: None,
        interface=lambda *_: None,
    )
    services: Services = make_services(yard.approve(MANIFEST), sources)

    assert services.name == "telegram-bot"
