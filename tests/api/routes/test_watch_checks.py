"""What is said where a person looks, of a `watch:` that cannot be read or matches nothing: watches,
doctor, and the event at its saving.
"""

from __future__ import annotations

from pathlib import Path

from tests.api.calls import get, post
from tests.stories.daemon_rig import Live, note, save


async def test_a_pattern_that_matches_nothing_is_told_at_its_saving_and_later(
    live: Live, vault: Path
):
    save(vault / "Projects/garden/AGENTS.md", note("Garden"))
    async with live() as daemon_rig:
        save(vault / "W.md", note("W", watch=["Projects/*", "Projcts/*"]))
        await daemon_rig.until(lambda: daemon_rig.reported("watch.declared"))
        says = '"Projcts/*" matches nothing: there is no folder Projcts; did you mean Projects?'

        assert daemon_rig.reported("watch.declared")[0]["unmatched"] == [says]
        (watch,) = (await get(daemon_rig, "/api/watches"))["watches"]
        assert watch["unmatched"] == [says]
        (found,) = (await get(daemon_rig, "/api/doctor"))["findings"]
        assert (found["path"], found["problem"]) == ("W.md", says)


WRONG = {
    "map": ("watch: {a: b}", "`watch:` takes texts; one that is a list or a map was ignored"),
    "list": ("watch: [[Ann]]", "`watch:` takes texts"),
    "number": ("watch: 5", "`watch:` takes texts; one that is a number"),
    "pairs": ("watch:\n  - status: open", "`watch:` takes texts"),
    "open": ("watch: [", "frontmatter"),
    "absolute": ("watch: /etc/*", "The pattern is absolute"),
}


async def test_a_watch_that_cannot_be_read_is_reported_at_its_saving_and_later(
    live: Live, vault: Path
):
    async with live() as daemon_rig:
        for name, (watch, _) in WRONG.items():
            save(vault / f"{name}.md", f"---\n{watch}\n---\n# W\n")
        await daemon_rig.until(lambda: len(daemon_rig.reported("watch.declared")) >= len(WRONG))
        declared = {one["watcher"]: one for one in daemon_rig.reported("watch.declared")}
    async with live() as daemon_rig:
        await daemon_rig.settled()
        watches = (await get(daemon_rig, "/api/watches"))["watches"]
        found = {one["watcher"]: one for one in watches}
        notes = (await get(daemon_rig, "/api/doctor"))["findings"]
        for name, (_, says) in WRONG.items():
            path = f"{name}.md"
            assert says in declared[path]["problems"][0]
            assert says in found[path]["problems"][0]
            assert any(says in one["problem"] for one in notes if one["path"] == path)
            save(vault / path, "# W\n")
        await daemon_rig.until(lambda: len(daemon_rig.reported("watch.removed")) >= len(WRONG))
        assert (await get(daemon_rig, "/api/watches"))["watches"] == []


async def test_a_look_that_is_asked_for_counts_the_run_of_the_watcher_itself(
    live: Live, vault: Path
):
    save(vault / "Projects/garden/AGENTS.md", note("Garden"))
    save(vault / "W.md", note("W", watch=["Projects/*"]))
    async with live() as daemon_rig:
        plan = await post(daemon_rig, "/api/bubble/run", {"path": "W.md"})

        assert (plan["most_runs"], plan["runs"][0]["watcher"], len(plan["tasks"])) == (1, "W.md", 1)
