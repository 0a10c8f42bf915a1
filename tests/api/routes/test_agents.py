"""Agents over HTTP: what each may do, what one could see, and trusting a
note.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.api.calls import expect, get, key_of, noticed, post
from tests.api.routes.test_modules import install
from tests.stories.daemon_rig import DaemonRig, note, save

MANIFEST = """\
name: keeper
version: 1.0.0
module: module.py
description: Keeps the work in order.
permissions:
  read: ["Work/**", "Inbox/**"]
  write: ["Work/**"]
agents:
  tidy: {description: Tidies., paths: ["Work/**", "Inbox/**"], capabilities: [read, write], system_prompt: You tidy.}
  sender: {paths: ["Work/**", "Inbox/**"], capabilities: [read, Bash], network: [example.org], lane: ["Work/log.md"]}
"""  # noqa: E501
MODULE = "from parachuted.modules import Module\n\n\nclass Keeper(Module):\n    pass\n"


@pytest.fixture
def module(tmp_path: Path) -> Path:
    folder = tmp_path / "keeper"
    save(folder / "manifest.yaml", MANIFEST)
    save(folder / "module.py", MODULE)
    return folder


async def started(daemon_rig: DaemonRig, module: Path) -> None:
    await install(daemon_rig, module)
    await noticed(daemon_rig)


async def test_every_agent_is_reported_with_the_fields_that_the_app_reads(
    vault, module, daemon_rig: DaemonRig
):
    save(vault / "Work/AGENTS.md", note("Work", watch=["*.md"]))
    await started(daemon_rig, module)
    agents = {one["name"]: one for one in (await get(daemon_rig, "/api/agents"))["agents"]}

    assert list(agents) == ["curator", "maintenance", "keeper/tidy", "keeper/sender"]
    tidy, sender = agents["keeper/tidy"], agents["keeper/sender"]
    fields = {"description": "Tidies.", "type": "agent", "source": "keeper"}
    assert tidy == tidy | fields | {"path": "Modules/keeper", "system_prompt": None}
    assert tidy["permissions"]["read"] == [["Work/**", "Inbox/**"]]
    assert tidy["system_prompt_preview"].startswith("You tidy.")
    assert "write_note" in tidy["tools"]
    assert sender["permissions"]["network"] == ["example.org"]
    assert sender["constraints"]["max_turns"] > 0
    assert agents["curator"]["permissions"]["write"] == [["Work/AGENTS.md"]]
    whole = await get(daemon_rig, "/api/agents/keeper/tidy")
    assert whole["system_prompt"].startswith("You tidy.")
    await expect(daemon_rig, 404, "GET", "/api/agents/keeper/none")

    reader, writer = (key_of(daemon_rig, words) for words in ("*:read", "*:read,write"))
    seen = (await expect(daemon_rig, 200, "GET", "/api/agents", headers=reader))["agents"]
    assert {one["system_prompt_preview"] for one in seen} == {None}
    await expect(daemon_rig, 403, "GET", "/api/sandbox/explain?agent=curator", headers=writer)


async def test_what_an_agent_could_reach_is_explained(vault, module, daemon_rig: DaemonRig):
    for number in range(25):
        save(vault / f"Work/{number:02}.md", "x\n")
    save(vault / "Inbox/mail.md", "# Mail\n")
    save(vault / "Private/diary.md", "x\n")
    await started(daemon_rig, module)
    reported = await get(daemon_rig, "/api/sandbox/explain?agent=keeper/sender")
    files = reported["files"]
    assert files == files | {"reads": 26, "writes": 0, "strangers": 1}
    assert (len(files["first"]), "Private/diary.md" in files["first"]) == (20, False)
    assert reported["agent"]["runs_here"] == (reported["agent"]["problem"] is None)
    assert any(".parachute/" in one for one in reported["always_refused"])
    ours = await get(daemon_rig, "/api/sandbox/explain?agent=keeper/tidy")
    assert ours["files"]["writes"] == 25
    assert "needs a model" in ours["agent"]["problem"]
    await expect(daemon_rig, 404, "GET", "/api/sandbox/explain?agent=nobody")


async def test_trust_takes_the_mark_off_and_nothing_else(vault, daemon_rig: DaemonRig):
    save(vault / "Inbox/mail.md", "# Mail\n")
    save(vault / "Work/clip.md", "---\ntitle: Clip\nOrigin: [web]\n---\n# Clip\n")
    save(vault / "Work/odd.md", "---\norigin: web\n# Never closed\n")
    await noticed(daemon_rig)

    trust, body = "/api/agents/trust", {"path": "Work/clip.md"}
    assert await post(daemon_rig, trust, body) == body | {"before": "web"}
    assert (vault / "Work/clip.md").read_text() == "---\ntitle: Clip\n---\n# Clip\n"
    assert (await post(daemon_rig, trust, body))["before"] == "you"
    for path, status in {
        "Work/odd.md": 422,  # its frontmatter cannot be read
        "Inbox/mail.md": 422,
        "Inbox/none.md": 404,
    }.items():
        await expect(daemon_rig, status, "POST", trust, json={"path": path})
