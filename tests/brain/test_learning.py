"""What Brain learns and offers: answers to suggestions, types that are suggested, and what else
links to an entity.
"""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from parachuted.errors import EditRefusedError
from tests.brain.brain_of import a_vault, brain, write
from tests.module_files import brain_file

unknown = brain_file("mentioning")
TODAY = datetime.now(UTC).date()
DAY = f"Daily/journals/{TODAY}.md"
OLD = f"Daily/journals/{TODAY - timedelta(days=200)}.md"
TARA = "Brain/entities/people/tara.md"
TARA_ID = "para:brain:taratarataro"


@pytest.mark.parametrize(("status", "kept"), [("rejected", False), ("approved", True)])
async def test_what_becomes_of_dailys_suggestions_is_learned_too(
    tmp_path: Path, status: str, *, kept: bool
):
    write(tmp_path, TARA, f"---\npara_id: {TARA_ID}\ntype: person\n---\n# Tara\n")
    write(tmp_path, DAY, "Then met Tara-Lou.\n")
    answer = {"id": "s9", "path": DAY, "source_agent": "module:daily", "status": status}
    async with brain(tmp_path) as module:
        api = module.interface("BrainInterface")
        ((first),) = await api.detect_mentions(DAY, "Then met Tara-Lou.", "para:daily:abc")
        assert 0.5 <= first["confidence"] <= 0.8
        if kept:
            write(tmp_path, DAY, f"---\nmentions: [{TARA_ID}]\n---\nThen met Tara-Lou.\n")
        await module.event("suggestion.resolved", **answer)
        again = await api.suggest("Then met Tara-Lou.")
        assert bool(again) is kept
        if kept:
            assert again[0]["confidence"] > first["confidence"]


async def test_what_is_suggested_for_an_entry_has_a_para_id(tmp_path: Path):
    write(tmp_path, TARA, "# Tara\n")
    async with brain(tmp_path) as module:
        api = module.interface("BrainInterface")
        (found,) = await api.detect_mentions(DAY, "Then met Tara-Lou.", "para:daily:abc")
        assert found["confidence"] <= 0.8
        assert found["para_id"].startswith("para:brain:")
        assert found["para_id"] in (tmp_path / TARA).read_text()


async def test_a_type_can_be_suggested_and_waits_for_a_person(empty_brain, tmp_path: Path):
    api = empty_brain.interface("BrainInterface")
    made = await api.suggest_type("recipe", {"serves": "integer"}, "Food", "Three soups.")
    assert made == "s0000000001"
    await empty_brain.request("POST", "/types/suggest", body={"name": "plant"})
    await empty_brain.tool("brain-types", action="suggest", name="person", fields=["born"])

    assert not (tmp_path / "Brain/types.yaml").exists()
    assert [one[:2] for one in empty_brain.suggested] == [("create", "Brain/types.yaml")] * 3
    text = str(empty_brain.suggested[0][2]["text"])
    over = str(
        empty_brain.suggested[1][2]["over"]
    )  # to which both add, whichever is approved first
    assert text.startswith(over)
    assert str(empty_brain.suggested[1][2]["text"]).startswith(over)
    write(tmp_path, "Brain/types.yaml", text)
    await empty_brain.event("file.created", path="Brain/types.yaml")
    shown = {one["name"]: one for one in await empty_brain.request("GET", "/types")}
    assert shown["recipe"]["fields"] == [{"name": "serves", "type": "integer", "required": False}]
    with pytest.raises(EditRefusedError, match="not a name of a type"):
        await api.suggest_type("No Type")


async def test_notes_link_to_an_entity_too(tmp_path: Path):
    write(tmp_path, "Notes/day.md", "# A day\n\nSaw [[kim]] twice: [[kim]].\n")
    write(tmp_path, "Brain/bo.md", "# Bo\n\n[[kim]]\n")
    async with brain(a_vault(tmp_path)) as module:
        found = await module.request("GET", "/backlinks", query={"entity": "kim"})
        assert [(one["type"], one["name"], one["path"]) for one in found["results"]] == [
            ("", "Bo", "Brain/bo.md"),
            ("", "A day", "Notes/day.md"),
        ]


async def test_a_projects_instructions_are_read_where_they_are_or_said_not_to_be(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    home, vault = tmp_path / "home", tmp_path / "vault"
    monkeypatch.setenv("HOME", str(home))
    write(home, "Projects/garden/AGENTS.md", "Water it.\n")
    write(home, "Else/shed/AGENTS.md", "SECRET\n")
    write(vault, "Work/fence/CLAUDE.md", "Paint it.\n")
    places = {
        "garden": "work_path: ~/Projects/garden",
        "shed": "agents_path: ~/Else/shed/AGENTS.md",
        "fence": "work_path: Work/fence/",
        "gone": "work_path: ~/Projects/gone",
    }
    for name, line in places.items():
        write(vault, f"Brain/entities/projects/{name}.md", f"---\n{line}\n---\n# {name}\n")
    async with brain(vault) as module:
        texts = {name: await module.tool("brain-context", entity=name) for name in places}
        assert "Water it." in texts["garden"]
        assert "(not read: " in texts["shed"]
        assert "permissions.folders does not name it" in texts["shed"]
        assert "SECRET" not in texts["shed"]
        assert "Paint it." in texts["fence"]
        assert "not read" not in texts["gone"]


async def test_a_person_and_a_topic_without_a_file_are_suggested_once(small_brain):
    text = (
        "Met with Zuzana Prokop and Kim Lee. Asked Monday, told `Ana`, called home. "
        "She adds a module on prompt engineering."
    )
    api = small_brain.interface("BrainInterface")
    for path in (DAY, OLD):
        await api.detect_mentions(path, text, "para:daily:abc")
    await api.detect_mentions("Notes/other.md", "Met with Ota Novak.")  # that is no entry

    assert [(action, path) for action, path, _payload in small_brain.suggested] == [
        ("create", "Brain/entities/people/zuzana-prokop.md"),
        ("create", "Brain/entities/topics/prompt-engineering.md"),
    ]
    made = str(small_brain.suggested[0][2]["text"])
    assert made.startswith("---\npara_id: para:brain:")
    assert made.endswith("type: person\n---\n\n# Zuzana Prokop\n")


async def test_two_events_about_one_entry_suggest_its_names_once(small_brain):
    api = small_brain.interface("BrainInterface")
    text = "Met with Zuzana Prokop."
    both = (api.detect_mentions(DAY, text, f"para:daily:{one}") for one in ("abc", "bcd"))
    await asyncio.gather(*both)

    assert [path for _, path, _ in small_brain.suggested] == [
        "Brain/entities/people/zuzana-prokop.md"
    ]


@given(st.text(alphabet="aAbB metwith'\u2019.\n-`", max_size=60))
def test_a_name_is_a_piece_of_the_text(text: str):
    for name, kind in unknown.names_in(text):
        assert name in text
        assert kind in {"person", "topic"}
