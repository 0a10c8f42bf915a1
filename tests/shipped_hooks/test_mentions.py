"""What an entry mentions, and what is loaded when a project is."""

from __future__ import annotations

from pathlib import Path

import pytest

from parachuted.home_files.bundled import bundled_folder
from tests.api.routes.test_modules import install
from tests.shipped_hooks.conftest import ShippedHooks, write
from tests.stories.daemon_rig import Live

ADA, LVB, IAN = "para:brain:aaaaaaaaaaaa", "para:brain:bbbbbbbbbbbb", "para:brain:cccccccccccc"


def brain(vault: Path) -> None:
    write(
        vault,
        "Brain/entities/people/ada.md",
        f"---\npara_id: {ADA}\nname: Ada Lovelace\naliases: [Ada, 'the countess']\n---\n# Ada\n",
    )
    write(
        vault,
        "Brain/entities/projects/lvb.md",
        f"---\npara_id: {LVB}\nname: Learn Vibe Build\n---\n",
    )
    write(vault, "Brain/entities/people/ian.md", f"---\npara_id: {IAN}\n---\n")
    write(vault, "Brain/notes.md", "# No entity\n")


async def test_an_entry_learns_what_it_mentions_by_link_name_or_alias(
    shipped: ShippedHooks, live: Live
):
    shipped.put("on-daily-entry.py")
    brain(shipped.vault)
    entry = "Daily/entries/2026-01-06-morning.md"
    text = "Saw the countess, wrote on [[lvb]]. Italian food."
    write(shipped.vault, entry, f"---\nentry_id: x\n---\n{text}\n")
    async with live():
        await shipped.happens(
            "daily.entry.created",
            entry_id="2026-01-06-morning",
            entry_path=str(shipped.vault / entry),
            content=text,
        )
        record = shipped.ran()
    saved = (shipped.vault / entry).read_text()

    assert shipped.message() == f"{entry} mentions {ADA}, {LVB}"
    assert saved.endswith(f"---\n{text}\n")
    assert saved.startswith("---\nentry_id: x\nmentions:")
    assert (ADA in saved, LVB in saved, IAN in saved) == (True, True, False)
    assert record.stderr == ""


async def test_an_entry_without_its_text_is_read_but_none_out_of_the_vault(
    shipped: ShippedHooks, live: Live, tmp_path: Path
):
    shipped.put("on-daily-entry.py")
    brain(shipped.vault)
    write(shipped.vault, "Daily/entries/e.md", "---\nentry_id: x\n---\nAda.\n")
    write(tmp_path, "outside.md", "Ada.\n")
    async with live():
        await shipped.happens("daily.entry.created", entry_path="Daily/entries/e.md")
        inside = shipped.message()
        await shipped.happens("daily.entry.created", entry_path=str(tmp_path / "outside.md"))

    assert inside == f"Daily/entries/e.md mentions {ADA}"
    assert shipped.message() is None
    assert (tmp_path / "outside.md").read_text() == "Ada.\n"


async def test_where_daily_is_installed_it_notes_mentions_and_the_hook_does_not(
    shipped: ShippedHooks, live: Live
):
    shipped.put("on-daily-entry.py")
    brain(shipped.vault)
    write(shipped.vault, "Daily/entries/e.md", "---\nentry_id: x\n---\nAda.\n")
    async with live() as daemon_rig:
        await install(daemon_rig, bundled_folder("modules") / "daily", "trusted")
        await shipped.happens("daily.entry.created", entry_path="Daily/entries/e.md")

    assert shipped.message() is None
    assert "mentions" not in (shipped.vault / "Daily/entries/e.md").read_text()


async def test_with_no_brain_no_daily_and_no_daemon_nothing_happens(shipped: ShippedHooks):
    shipped.put("on-daily-entry.py")
    decision = await shipped.happens("daily.entry.created", content="Ada.", entry_id="2026-01-06")

    assert (decision.allowed, shipped.message()) == (True, None)


@pytest.mark.parametrize(
    "way", ["the project's own id", "agents_path", "work_path", "name", "file name"]
)
async def test_a_project_that_is_mentioned_is_loaded(shipped: ShippedHooks, way: str):
    shipped.put("on-project-mention.py")
    own = f"---\npara_id: {LVB}\n---\n" if way == "the project's own id" else ""
    write(shipped.vault, "Projects/lvb/AGENTS.md", f"{own}# Learn Vibe Build\n")
    keys = {
        "agents_path": "agents_path: Projects/lvb/AGENTS.md\n",
        "work_path": 'work_path: "Projects/lvb"\n',
        "name": "name: lvb\n",
        "file name": "",
    }
    if way in keys:
        name = "lvb" if way == "file name" else "other"
        write(
            shipped.vault,
            f"Brain/entities/projects/{name}.md",
            f"---\npara_id: {LVB}\n{keys[way]}---\n",
        )
    decision = await shipped.happens(
        "brain.mention.detected", source_id="e", para_id=LVB, confidence=0.9
    )
    shipped.ran()

    assert decision.context == (f"## Projects/lvb/AGENTS.md\n\n{own}# Learn Vibe Build\n",)


async def test_what_is_not_sure_not_known_or_not_in_the_vault_loads_nothing(
    shipped: ShippedHooks, tmp_path: Path
):
    shipped.put("on-project-mention.py")
    write(tmp_path, "secret.md", "secret")
    write(shipped.vault, "Brain/a.md", f"---\npara_id: {LVB}\nagents_path: ../secret.md\n---\n")
    write(shipped.vault, "Projects/p/AGENTS.md", f"---\npara_id: {ADA}\n---\n")

    assert (
        await shipped.happens("brain.mention.detected", para_id=LVB, confidence=0.9)
    ).context == ()
    assert (
        await shipped.happens("brain.mention.detected", para_id=ADA, confidence=0.2)
    ).context == ()
    assert (
        await shipped.happens(
            "brain.mention.detected", para_id="para:brain:zzzzzzzzzzzz", confidence=1
        )
    ).context == ()
    assert (
        len((await shipped.happens("brain.mention.detected", para_id=ADA, confidence=1)).context)
        == 1
    )
    shipped.ran()


HEADS = {
    "a block "
    "list": f'para_id: {ADA}\nname: ~\naliases:\n  - The Countess\n  - "Ada, of Lovelace"\n',
    "a comment": f"para_id: {ADA}  # never changes\nname: The Countess # as they say\n",
    "a text over lines": f"para_id: {ADA}\nname: >-\n  The\n  Countess\n",
    "one alias": f"para_id: '{ADA}'\naliases: The Countess\n",
}


SPELLINGS = {
    "as Unix": lambda text: text,
    "Windows line ends": lambda text: text.replace("\n", "\r\n"),
    "a BOM": "\ufeff{}".format,
}


@pytest.mark.parametrize("spelling", SPELLINGS)
@pytest.mark.parametrize("head", HEADS)
async def test_what_an_entity_is_called_is_read_as_yaml_has_it(
    shipped: ShippedHooks, head: str, spelling: str
):
    shipped.put("on-daily-entry.py")
    write(
        shipped.vault, "Brain/entities/al.md", SPELLINGS[spelling](f"---\n{HEADS[head]}---\n# A\n")
    )
    write(shipped.vault, "Brain/entities/null.md", "---\npara_id: ~\nname: countess\n---\n")
    write(
        shipped.vault, "Brain/entities/template.md", "---\npara_id: {{id}}\nname: countess\n---\n"
    )
    script = shipped.home / "hooks/on-daily-entry.py"
    text = script.read_text().replace(
        "    main()\n",
        "    print(sorted(mentions('met the countess', "
        "Path(json.load(sys.stdin)['vault_path']))))\n",
    )
    script.write_text(text)
    shipped.hooks.approve()
    await shipped.happens("daily.entry.created", content="met the countess")

    assert shipped.ran().stdout == f"{[ADA]}\n"


@pytest.mark.parametrize("spelling", SPELLINGS)
async def test_a_projects_place_is_read_as_yaml_has_it(shipped: ShippedHooks, spelling: str):
    shipped.put("on-project-mention.py")
    write(shipped.vault, "Projects/lvb/AGENTS.md", "# Learn\n")
    entity = (
        f"---\npara_id: {LVB}  # mine\nagents_path: ~\nwork_path: Projects/lvb # where it "
        "lies\n---\n"
    )
    write(shipped.vault, "Brain/x.md", SPELLINGS[spelling](entity))

    decision = await shipped.happens("brain.mention.detected", para_id=LVB, confidence=0.9)

    assert decision.context == ("## Projects/lvb/AGENTS.md\n\n# Learn\n",)
    assert shipped.ran().stderr == ""
