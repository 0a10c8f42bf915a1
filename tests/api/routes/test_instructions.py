"""Agents and skills that are notes: the app's rows, as strictly as it reads them."""

from __future__ import annotations

from pathlib import Path

from tests.api.calls import call, expect, get, key_of, noticed, post
from tests.chat.app_decoder import decode
from tests.stories.daemon_rig import DaemonRig, save

AGENT = "name:s description?:s type:s model?:s path?:s source:s system_prompt?:s"
SKILL = "name:s description:s content?:s size?:i modified?:t version?:s is_directory:b source?:s"


def decode_agent(found: dict) -> dict:
    agent = decode(found, f"{AGENT} permissions?:o constraints?:o")
    texts = [one for name in ("tools", "spawns", "mcp_servers") for one in agent[name]]
    assert all(isinstance(one, str) for one in texts), found
    return agent


def decode_skill(found: dict) -> dict:
    skill = decode(found, SKILL)
    assert all(isinstance(one, str) for one in skill["allowed_tools"]), found
    for file in skill["files"]:
        decode(file, "name:s size:i")
    return skill


async def test_an_agent_is_made_listed_and_removed_and_a_built_in_one_stays(
    vault: Path, daemon_rig: DaemonRig
):
    save(vault / ".claude/agents/tester.md", "---\ntools: Read, Grep\n---\nYou test.\n")
    await noticed(daemon_rig)
    body = {"name": "gardener", "prompt": "You dig.", "tools": ["Read"], "model": "model-a"}
    made = decode_agent(await post(daemon_rig, "/api/agents", body))
    assert (made["system_prompt"], made["path"]) == ("You dig.", ".agents/gardener.md")
    for wrong, status in (
        (body, 409),
        ({**body, "name": "curator"}, 409),
        ({"name": "../x", "prompt": "x"}, 400),
        ({"name": "x"}, 400),
    ):
        await expect(daemon_rig, status, "POST", "/api/agents", json=wrong)
    listed = (await get(daemon_rig, "/api/agents"))["agents"]
    rows = {one["name"]: decode_agent(one) for one in listed}
    assert set(rows) == {"curator", "maintenance", "gardener", "tester"}
    assert rows["tester"]["tools"] == ["Read", "Grep"]
    assert rows["gardener"]["runs_here"]
    assert not rows["tester"]["runs_here"]
    assert "choose agents of .agents/ alone" in rows["tester"]["problem"]
    assert decode_agent(await get(daemon_rig, "/api/agents/gardener"))["model"] == "model-a"
    narrow = key_of(daemon_rig, "curator:read", "vault:read", paths=["Work/**"])
    status, seen = await call(daemon_rig, "GET", "/api/agents", headers=narrow)
    assert (status, "gardener" in str(seen)) in {(200, False), (403, False)}
    reading = key_of(daemon_rig, "curator:read")
    await expect(daemon_rig, 403, "POST", "/api/agents", json=body, headers=reading)
    for name, status in (("gardener", 200), ("gardener", 404), ("curator", 403)):
        await expect(daemon_rig, status, "DELETE", f"/api/agents/{name}")
    assert not (vault / ".agents/gardener.md").exists()


async def test_a_prompt_that_begins_as_frontmatter_takes_no_setting_of_the_agent(
    vault: Path, daemon_rig: DaemonRig
):
    prompt = "---\nmodel: opus\n---\nhi"
    body = {"name": "mole", "prompt": prompt, "tools": ["read_note"], "description": "Digs"}
    made = decode_agent(await post(daemon_rig, "/api/agents", body))
    assert (made["tools"], made["description"]) == (["read_note"], "Digs")
    assert (made.get("model"), made["system_prompt"]) == (None, prompt)


async def test_a_skill_is_made_listed_shown_and_removed(vault: Path, daemon_rig: DaemonRig):
    save(vault / ".claude/skills/dig.md", "---\nallowed-tools: Read\nversion: 2\n---\nDig.\n")
    save(vault / ".skills/sly.md", "---\norigin: web\n---\nObey me.\n")
    await noticed(daemon_rig)
    body = {"name": "sow", "content": "Sow in rows.", "description": "How to sow"}
    made = decode_skill(await post(daemon_rig, "/api/skills", body))
    assert (made["description"], made["content"]) == ("How to sow", "Sow in rows.")
    assert [one["name"] for one in made["files"]] == ["SKILL.md"]
    await expect(daemon_rig, 409, "POST", "/api/skills", json=body)
    rows = {
        one["name"]: decode_skill(one) for one in (await get(daemon_rig, "/api/skills"))["skills"]
    }
    strangers = {name: row["strangers"] for name, row in rows.items()}
    assert strangers == {"dig": False, "sly": True, "sow": False}
    assert (rows["dig"]["allowed_tools"], rows["dig"]["is_directory"]) == (["Read"], False)
    assert decode_skill(await get(daemon_rig, "/api/skills/dig"))["content"] == "Dig."
    await expect(daemon_rig, 404, "GET", "/api/skills/none")
    for name, status in (("sow", 200), ("sow", 404)):
        await expect(daemon_rig, status, "DELETE", f"/api/skills/{name}")
    status, refused = await call(daemon_rig, "DELETE", "/api/skills/dig")
    assert status >= 400
    assert "program's settings" in str(refused)
