"""Changes: what a client hears, and what `changed_since` lists."""

from __future__ import annotations

from pathlib import Path

from parachuted.mcp.resources import address_of, path_at
from tests.api.calls import key_of
from tests.mcp.peers import call, client, refused
from tests.stories.daemon_rig import Live, save


def test_an_address_names_any_path():
    for path in ("a.md", "Work/b c.md", "Ä/ö?#%.md", "a/b/c.md"):
        assert path_at(address_of(path)) == path
    assert path_at("file:///etc/passwd") == ""


async def test_changes_are_listed_since_a_cursor(live: Live, vault: Path):
    save(vault / "a.md", "# A\n")
    async with live() as daemon_rig, client(daemon_rig) as peer:
        await daemon_rig.settled()
        first = await call(peer, "changed_since")
        save(vault / "a.md", "# A again\n")
        save(vault / "b.md", "# B\n")
        save(vault / "Inbox/mail.md", "# Mail\n")
        await daemon_rig.settled()
        (vault / "b.md").rename(vault / "c.md")
        await daemon_rig.settled()

        reported = await call(peer, "changed_since", cursor=first["cursor"])
        assert reported["complete"] is True
        kinds = {one["path"]: (one["kind"], one.get("from")) for one in reported["changes"]}
        assert kinds == {
            "a.md": ("modified", None),
            "b.md": ("created", None),
            "c.md": ("moved", "b.md"),
        }
        again = await call(peer, "changed_since", cursor=reported["cursor"])
        assert (again["changes"], again["complete"]) == ([], True)
        assert "invalid cursor" in await refused(peer, "changed_since", cursor="nonsense")


async def test_a_cursor_of_another_daemon_finds_what_was_modified_since(live: Live, vault: Path):
    save(vault / "a.md", "# A\n")
    async with live() as daemon_rig, client(daemon_rig) as peer:
        await daemon_rig.settled()
        reported = await call(peer, "changed_since", cursor="abc-7-1000")
        assert reported["complete"] is False
        assert [one["path"] for one in reported["changes"]] == ["a.md"]
        later = await call(peer, "changed_since", cursor="abc-7-4000000000")
        assert (later["changes"], later["complete"]) == ([], False)


async def test_a_key_with_paths_hears_of_its_notes_alone(live: Live, vault: Path):
    (vault / "Private").mkdir()
    async with live() as daemon_rig:
        key = key_of(daemon_rig, "vault:read", paths=["Work/**"])
        daemon_rig.daemon.authenticator.look()
        async with client(daemon_rig, headers=key) as peer:
            first = await call(peer, "changed_since")
            save(vault / "Work/a.md", "# A\n")
            save(vault / "Private/b.md", "# B\n")
            await daemon_rig.settled()
            (vault / "Private/b.md").rename(vault / "Work/b.md")
            await daemon_rig.settled()
            reported = await call(peer, "changed_since", cursor=first["cursor"])
            assert {one["path"]: one["kind"] for one in reported["changes"]} == {
                "Work/a.md": "created",
                "Work/b.md": "created",
            }
