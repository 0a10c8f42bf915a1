"""Brain and Daily together, each without the other, and Brain switched off and on."""

from __future__ import annotations

from pathlib import Path

from parachuted.home_files.bundled import bundled_folder
from tests.api.calls import call, get, post
from tests.api.routes.test_modules import install
from tests.stories.daemon_rig import Live, save

KIM = "Brain/entities/people/kim-lee.md"
DAY = "Daily/journals/2026-02-24.md"
ENTRY = "# Noon\n\nHad lunch with Kim Lee in Bern.\n"


async def test_an_entry_typed_in_an_editor_is_linked_to_whom_it_names(live: Live, vault: Path):
    save(vault / KIM, "# Kim Lee\n\nGrows beans.\n")
    async with live() as daemon_rig:
        await install(daemon_rig, bundled_folder("modules") / "brain", "trusted")
        await install(daemon_rig, bundled_folder("modules") / "daily", "trusted")
        save(vault / DAY, ENTRY)
        await daemon_rig.until(lambda: daemon_rig.reported("brain.mention.detected"))
        await daemon_rig.until(lambda: "mentions:" in (vault / DAY).read_text())

        (reported,) = daemon_rig.reported("brain.mention.detected")
        assert f"para_id: {reported['para_id']}\n" in (vault / KIM).read_text()
        assert str(reported["para_id"]) in (vault / DAY).read_text()
        assert (vault / DAY).read_text().endswith(ENTRY)
        await daemon_rig.settled()  # the index follows a write within moments
        found = await get(daemon_rig, f"/api/brain/context?entity={reported['para_id']}")
        assert DAY in found["text"]


async def test_brain_works_without_daily_and_daily_without_brain(live: Live, vault: Path):
    save(vault / KIM, "# Kim Lee\n")
    async with live() as daemon_rig:
        await install(daemon_rig, bundled_folder("modules") / "brain", "trusted")
        found = await get(daemon_rig, "/api/brain/resolve?q=kim")
        assert found["match"] is not None
        await install(daemon_rig, bundled_folder("modules") / "daily", "trusted")
        await post(daemon_rig, "/api/modules/brain/disable")
        status, _ = await call(daemon_rig, "GET", "/api/brain/types")
        assert status == 404
        save(vault / DAY, ENTRY)
        await daemon_rig.until(lambda: daemon_rig.reported("daily.entry.created"))
        assert (vault / DAY).read_text() == ENTRY

        await post(daemon_rig, "/api/modules/brain/enable")
        assert (await get(daemon_rig, "/api/brain/resolve?q=Kim Lee"))["match"]["path"] == KIM


async def test_a_link_that_somebody_typed_is_a_mention_and_one_in_code_is_none(
    live: Live, vault: Path
):
    save(vault / KIM, "# Kim Lee\n")
    save(vault / "Brain/entities/people/bo.md", "# Bo Berg\n")
    async with live() as daemon_rig:
        await install(daemon_rig, bundled_folder("modules") / "brain", "trusted")
        await install(daemon_rig, bundled_folder("modules") / "daily", "trusted")
        save(vault / DAY, "# Noon\n\nMet [[Kim Lee|her]], not `[[Bo Berg]]`.\n")
        await daemon_rig.until(lambda: "mentions:" in (vault / DAY).read_text())

        (reported,) = daemon_rig.reported("brain.mention.detected")
        assert f"para_id: {reported['para_id']}\n" in (vault / KIM).read_text()


async def test_a_suggested_mention_of_an_entity_that_is_deleted_is_withdrawn(
    live: Live, vault: Path
):
    will = vault / "Brain/entities/people/will-byrne.md"
    save(will, "# Will Byrne\n")
    async with live() as daemon_rig:
        await install(daemon_rig, bundled_folder("modules") / "brain", "trusted")
        await install(daemon_rig, bundled_folder("modules") / "daily", "trusted")
        save(vault / DAY, "# Noon\n\nWill Byrnes came.\n")
        await daemon_rig.until(lambda: daemon_rig.reported("suggestion.created"))
        will.unlink()
        await daemon_rig.until(lambda: daemon_rig.reported("suggestion.resolved"))

        (resolved,) = daemon_rig.reported("suggestion.resolved")
        assert (resolved["path"], resolved["status"]) == (DAY, "superseded")
        assert "mentions" not in (vault / DAY).read_text()
