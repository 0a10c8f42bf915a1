"""From an entry that is typed in an editor to the notes that watch whom it names, on real files."""

from __future__ import annotations

from pathlib import Path

from tests.api.calls import call, get
from tests.stories.daemon_rig import Live, note, save
from tests.stories.official_modules import install_official

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
        await install_official(daemon_rig, "brain", "daily")
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
        curated = [run for run in reversed(runs) if run["agent"] == "curator"]
        assert [(one["watcher"], one["outcome"]) for one in curated] == [
            (GARDEN, "changed"),
            (ABOVE, "changed"),
        ]
        first, second = [await get(daemon_rig, f"/api/runs/{one['id']}") for one in curated]
        assert [one["path"] for one in first["reviewed"]] == [KIM]
        assert [one["path"] for one in second["reviewed"]] == [GARDEN]
        assert second["parents"] == [first["id"]]
        assert [one["id"] for one in first["causes"]] == [one["id"] for one in second["causes"]]


async def test_what_a_journal_tells_its_watcher_is_what_the_entries_say(live: Live, vault: Path):
    save(vault / KIM, "# Kim Lee\n\nGrows beans.\n")
    save(vault / GARDEN, note("Garden", watch=["Daily/journals/*.md"]))
    async with live() as daemon_rig:
        await install_official(daemon_rig, "brain", "daily")
        await daemon_rig.settled()
        for text, at in (
            ("Sowed the black beans.", "2026-02-24T14:08:00+00:00"),
            ("Kim Lee brought a hose.\n\n- [ ] water them", "2026-02-24T15:10:00+00:00"),
        ):
            posted = {"content": text, "created_at": at}
            status, _ = await call(daemon_rig, "POST", "/api/daily/entries", json=posted)
            assert status == 200
            await daemon_rig.settled()

        assert "mentions:" in (vault / DAY).read_text()  # which Daily wrote after the entry
        said = (vault / GARDEN).read_text()
        link = "[2026-02-24](../../Daily/journals/2026-02-24.md)"
        assert f": {link}: new: Sowed the black beans.\n" in said
        clock = (vault / DAY).read_text().rpartition("# para:")[2].splitlines()[0].split()[1]
        assert (
            f": {link}\n  - {clock}\n    - Kim Lee brought a hose.\n    - opened [ ] water them\n"
        ) in said
        assert f"- {link} — Sowed the black beans.\n" in said
        assert "para:" not in said
        assert "was changed" not in said
        assert (await get(daemon_rig, "/api/health?detailed=true"))["freshness"]["behind"] == []
