"""Ignored notes: what `.parachuteignore` hides is given to no agent and to no key with paths, by
whatever name it is asked for; its owner opens it.
"""

from __future__ import annotations

from pathlib import Path

from parachuted.suggestions import Proposal
from parachuted.testing import ScriptedBackend, say
from tests.api.calls import call, get, key_of, refused
from tests.mcp import peers
from tests.stories.daemon_rig import Live, note, save

WHY = ".parachuteignore"
TEXT = "# S\n\n## Facts\n\nsecret\n"


CALLS = (
    ("read_note", {}),
    ("read_note", {"section": "Facts"}),
    ("write_note", {"text": "x"}),
    ("edit_section", {"section": "Facts", "text": "x", "append": True}),
    ("set_key", {"key": "a", "value": "b"}),
    ("move_note", {"to": "b.md"}),
    ("history", {}),
    ("why", {"line": 5}),
)


async def test_an_mcp_client_is_given_none_moves_none_there_and_learns_why(live: Live, vault: Path):
    for path in ("Secret/s.md", "a.md"):
        save(vault / path, TEXT)
    save(vault / ".parachuteignore", "Secret/\n")
    async with live() as daemon_rig, peers.client(daemon_rig) as peer:
        await daemon_rig.settled()
        for tool, more in CALLS:
            for path in ("Secret/s.md", "Secret/none.md"):
                assert WHY in await peers.refused(peer, tool, path=path, **more), (tool, path)
        suggested = {"action": "create", "path": "Secret/n.md", "payload": {"text": "x"}}
        await peers.refused(peer, "suggest", **suggested, reasoning="r")
        assert WHY in await peers.refused(peer, "move_note", path="a.md", to="Secret/a.md")
        assert WHY in await peers.refused(peer, "write_note", path="Secret/a.md", text="x")
    assert (vault / "Secret/s.md").read_text() == (vault / "a.md").read_text() == TEXT
    assert [file.name for file in (vault / "Secret").iterdir()] == ["s.md"]


async def test_a_key_with_paths_is_as_an_agent_and_its_owner_opens_it(live: Live, vault: Path):
    save(vault / "Secret/s.md", TEXT)
    save(vault / ".parachuteignore", "Secret/\n")
    (vault / "link.md").symlink_to("Secret/s.md")
    async with live() as daemon_rig:
        await daemon_rig.settled()
        key = key_of(daemon_rig, "vault:read,write", "curator:read", paths=["**"])
        for method, path, body in (
            ("GET", "notes/Secret/s.md", None),
            ("PUT", "notes/Secret/s.md", {"content": "x"}),
            ("DELETE", "notes/Secret/s.md", None),
            ("POST", "notes/Secret/s.md/move", {"to": "b.md"}),
            ("GET", "files/Secret/s.md", None),
            ("GET", "history?path=Secret/s.md", None),
        ):
            status, said = await refused(daemon_rig, method, f"/api/{path}", json=body, headers=key)
            assert (status, WHY in str(said)) == (404, True), (method, path, said)
        status, said = await refused(daemon_rig, "GET", "/api/notes/link.md", headers=key)
        assert status == 404
        status, said = await call(daemon_rig, "GET", "/api/notes/Secret/s.md")
        assert (status, "secret" in str(said)) == (200, True)
    assert (vault / "Secret/s.md").read_text() == TEXT


async def test_what_becomes_ignored_leaves_search_watches_and_prompts(live: Live, vault: Path):
    save(vault / "Secret/s.md", TEXT)
    save(vault / "Secret/w.md", note("W", watch=["../Open.md"]))
    save(vault / "Open.md", "# Open\n")
    save(vault / "Areas/AGENTS.md", note("Areas", watch=["Secret/*.md", "Open.md"]))
    backend = ScriptedBackend([say("-")])
    async with live(backend, bubble__quiet_s=0.5) as daemon_rig:
        await daemon_rig.settled()
        payload = {"section": "Facts", "content": "unseen"}
        proposal = Proposal(
            source_agent="a", action="update", path="Secret/s.md", payload=payload, reasoning="r"
        )
        await daemon_rig.daemon.vault.suggestions.propose(proposal)
        save(vault / "Secret/s.md", TEXT.replace("secret", "secret, unseen"))
        save(vault / ".parachuteignore", "Secret/\n")
        await daemon_rig.settled()
        await daemon_rig.daemon.approvals.quiet()
        await daemon_rig.until(lambda: not daemon_rig.daemon.vault.search.is_behind)
        watches = (await get(daemon_rig, "/api/watches"))["watches"]
        assert [watch["watcher"] for watch in watches] == ["Areas/AGENTS.md"]
        assert not (await get(daemon_rig, "/api/search?q=unseen"))["results"]
        begun = len(backend.jobs)
        save(vault / "Open.md", "# Open\n\nmore\n")
        save(vault / "Secret/s.md", "# S\n\nsecret, other\n")
        await daemon_rig.settled()
        assert begun < len(backend.jobs)
        assert not any("secret" in f"{job.prompt}{job.changes}" for job in backend.jobs)
    assert (vault / "Secret/s.md").read_text() == "# S\n\nsecret, other\n"
