"""From an entry that is typed in an editor to the notes that watch whom it names, on real files."""

from __future__ import annotations

from pathlib import Path

from parachuted.bundled import bundled_folder
from tests.api.calls import get
from tests.api.routes.test_modules import install
from tests.stories.daemon_rig import Live, note, save

KIM = "Brain/entities/people/kim-lee.md"
DAY = "Daily/journals/2026-02-24.md"
GARDEN, ABOVE = "Projects/garden/AGENTS.md", "AGENTS.md"
ENTRY = "# Noon\n\nKim Lee brought seeds of black beans for the garden.\n"


async def test_an_entry_names_a_person_whose_project_wakes_and_then_its_parent(
    live: Live, vault: Path
):
    save(vault / KIM, "# Kim Lee\n\nGrows beans.\n")
    save(vault / GARDEN, note("Garden", watch=["Brain/entities/people/*.md"]))
    save(vault / ABOVE, note("All of it", watch=["Projects/*"]))
    before = {path: (vault / path).read_text() for path in (KIM, GARDEN, ABOVE)}
    async with live() as daemon_rig:
        for name in ("brain", "daily"):
            await install(daemon_rig, bundled_folder("modules") / name, "trusted")
        await daemon_rig.settled()
        save(vault / DAY, ENTRY)
        await daemon_rig.until(lambda: (vault / ABOVE).read_text() != before[ABOVE], 60)
        await daemon_rig.settled()

        (mention,) = daemon_rig.reported("brain.mention.detected")
        assert str(mention["para_id"]) in (vault / DAY).read_text()
        assert (vault / DAY).read_text().endswith(ENTRY)
        assert f"para_id: {mention['para_id']}\n" in (vault / KIM).read_text()
        assert [one["path"] for one in daemon_rig.reported("brain.entity.updated")][:1] == [KIM]
        runs = (await get(daemon_rig, "/api/runs"))["runs"]
        curated = [one for one in reversed(runs) if one["agent"] == "curator"]
        assert [(one["watcher"], one["outcome"]) for one in curated] == [
            (GARDEN, "changed"),
            (ABOVE, "changed"),
        ]
        first, second = [await get(daemon_rig, f"/api/runs/{one['id']}") for one in curated]
        assert [one["path"] for one in first["reviewed"]] == [KIM]
        assert [one["path"] for one in second["reviewed"]] == [GARDEN]
        assert second["parents"] == [first["id"]]
        assert [one["id"] for one in first["causes"]] == [one["id"] for one in second["causes"]]
