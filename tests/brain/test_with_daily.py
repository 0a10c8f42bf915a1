"""Brain and Daily together, each without the other, and Brain switched off and on."""

from __future__ import annotations

from pathlib import Path

from tests.api.calls import call, get, post
from tests.module_files import install_official
from tests.stories.daemon_rig import Live, save

KIM = "Brain/entities/people/kim-lee.md"
DAY = "Daily/journals/2026-02-24.md"
ENTRY = "# Noon\n\nHad lunch with Kim Lee and [[Lou Day|her]], not `[[Bo Berg]]`.\n"


async def test_an_entry_typed_in_an_editor_is_linked_to_what_it_names(live: Live, vault: Path):
    people = {
        name: f"Brain/entities/people/{name}.md" for name in ("kim-lee", "lou-day", "bo-berg")
    }
    for name, path in people.items():
        save(vault / path, f"# {name.replace('-', ' ').title()}\n\nGrows beans.\n")
    async with live() as daemon_rig:
        await install_official(daemon_rig, "brain", "daily")
        save(vault / DAY, ENTRY)
        await daemon_rig.until(lambda: len(daemon_rig.reported("brain.mention.detected")) == 2)
        await daemon_rig.until(lambda: "mentions:" in (vault / DAY).read_text())

        named = [str(one["para_id"]) for one in daemon_rig.reported("brain.mention.detected")]
        assert f"para_id: {named[0]}\n" in (vault / KIM).read_text()
        assert f"para_id: {named[1]}\n" in (vault / people["lou-day"]).read_text()
        assert all(para_id in (vault / DAY).read_text() for para_id in named)
        assert (vault / DAY).read_text().endswith(ENTRY)
        await daemon_rig.settled()  # the index follows a write within moments
        found = await get(daemon_rig, f"/api/brain/context?entity={named[0]}")
        assert DAY in found["text"]


async def test_brain_works_without_daily_and_daily_without_brain(live: Live, vault: Path):
    save(vault / KIM, "# Kim Lee\n")
    async with live() as daemon_rig:
        await install_official(daemon_rig, "brain")
        found = await get(daemon_rig, "/api/brain/resolve?q=kim")
        assert found["match"] is not None
        await install_official(daemon_rig, "daily")
        await post(daemon_rig, "/api/modules/brain/disable")
        status, _ = await call(daemon_rig, "GET", "/api/brain/types")
        assert status == 404
        save(vault / DAY, ENTRY)
        await daemon_rig.until(lambda: daemon_rig.reported("daily.entry.created"))
        assert (vault / DAY).read_text() == ENTRY

        await post(daemon_rig, "/api/modules/brain/enable")
        assert (await get(daemon_rig, "/api/brain/resolve?q=Kim Lee"))["match"]["path"] == KIM
