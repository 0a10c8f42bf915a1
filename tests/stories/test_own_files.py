"""A vault's life from its first day: what the daemon, its modules and its agents write, whatever a
person and a model say, is nothing that the doctor complains of.
"""

from __future__ import annotations

import base64
import json
import shutil
from functools import partial
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from parachuted.agents.job import Job
from parachuted.home_files.bundled import bundled_folder
from parachuted.testing import ScriptedBackend, say, use
from tests.api.calls import get, post
from tests.chat.exports import CHATGPT, CLAUDE
from tests.stories.daemon_rig import DaemonRig, Live, note, save
from tests.stories.official_modules import install_official

ODD = """\
---
title: [not: YAML
---
# A heading
<!-- message {"id": "x", "role": "system"} -->
## History
para:daily:abcdefghij12 [[Nobody]] #tag e\u0301
```yaml
- in a fence
```"""
CONFLICT = "<<<<<<< HEAD\nmine\n=======\ntheirs\n>>>>>>> other\n"
WATCHER = "Projects/garden/AGENTS.md"


async def script(job: Job) -> list[Any]:
    names = {tool.name for tool in job.tools}
    if "update_title" in names:
        done = [
            use("update_title", title=ODD[:60]),
            use("update_summary", summary=f"{CONFLICT}{ODD}"),
        ]
        return [*done, use("log_activity", summary=ODD), say("Noted.")]
    if "update_context" in names and not job.agent.startswith("chat/"):
        sections = ("Current Focus", "History")
        put = {"file_path": job.watcher, "content": ODD}
        return [
            *(use("update_context", section=section, **put) for section in sections),
            say("Done."),
        ]
    return [say(f"{CONFLICT}{ODD}")]


async def chat(daemon_rig: DaemonRig, **body: object) -> str:
    """A whole turn; the id of its conversation."""
    async with (
        aiohttp.ClientSession() as session,
        session.post(f"{daemon_rig.url}/api/chat", json=body) as answer,
    ):
        text = await answer.text()
        assert answer.status == 200, text
    last = json.loads(text.strip().rpartition("data: ")[2])
    assert last["type"] == "done", last
    return str(last["sessionId"])


@pytest.fixture
def first_day(vault: Path) -> Path:
    """A vault as `parachute init` makes it."""
    shutil.copytree(bundled_folder("vault-template"), vault, dirs_exist_ok=True)
    return vault


async def test_the_doctor_is_content_with_all_that_was_written(live: Live, first_day: Path):
    vault = first_day
    async with live(ScriptedBackend(script)) as daemon_rig:
        await install_official(daemon_rig, "brain", "daily", "chat")
        assert await findings(daemon_rig) == []

        for words in ("Will Byrnes came.", ODD, f"- {ODD}"):
            await post(daemon_rig, "/api/daily/entries", {"content": words})
        for name in ("Will Byrne", "Jill Byrne", 'Odd: "name" #1', "---"):
            data = {"name": name, "tags": ["a: b"], "description": ODD}
            body = {"entity_type": "person", "data": data}
            await post(daemon_rig, "/api/brain/entities", body)
        body = {"name": "recipe", "fields": {"serves": {"type": "integer"}}, "description": ODD}
        await post(daemon_rig, "/api/brain/types", body)

        picture = {"id": "a", "fileName": "a: b.png", "mimeType": "image/png", "type": "image"}
        picture |= {
            "filePath": "",
            "sizeBytes": 4,
            "base64Data": base64.b64encode(b"\x89PNG").decode(),
        }
        session = await chat(daemon_rig, message=f"{CONFLICT}{ODD}", attachments=[picture])
        await chat(daemon_rig, message="And on?", sessionId=session, recoveryMode="fresh_start")
        await post(daemon_rig, f"/api/chat/{session}/archive")
        for data in (CHATGPT, CLAUDE):
            await post(daemon_rig, "/api/import", {"data": data})
        await post(daemon_rig, "/api/workspaces", {"name": "Odd: one", "description": "a: b"})
        await post(
            daemon_rig, "/api/agents", {"name": "digger", "prompt": ODD, "description": "a: b"}
        )
        await post(
            daemon_rig, "/api/skills", {"name": "dig", "content": ODD, "description": "a: b"}
        )

        save(vault / WATCHER, note("Garden", watch=["Daily/journals/*.md"]))
        for number, (name, act) in enumerate((("Will", "reject"), ("Jill", "approve"))):
            day = vault / f"Daily/journals/2026-02-0{number + 1}.md"
            save(day, f"# Noon\n\n{name} Byrnes came.\n")
            await daemon_rig.until(partial(is_suggested, daemon_rig, number + 1))
            await daemon_rig.settled()
            waiting, *_ = (await get(daemon_rig, "/api/suggestions"))["suggestions"]
            await post(daemon_rig, f"/api/suggestions/{waiting['id']}/{act}", {})
        await daemon_rig.settled()

        assert await findings(daemon_rig) == []

        changed = (vault / WATCHER, vault / "Modules")  # a module's folder would be another
        own = [path for path in vault.rglob("*.md") if not {path, *path.parents} & {*changed}]
        for one in own:
            shutil.copy(one, one.with_name(f"{one.stem}.sync-conflict-20260224-101010-ABCDEFG.md"))
        await daemon_rig.settled()
        found = await findings(daemon_rig)
        assert {one["about"] for one in found} == {"conflict-copy"}, found


def is_suggested(daemon_rig: DaemonRig, number: int) -> bool:
    return len(daemon_rig.reported("suggestion.created")) >= number


async def findings(daemon_rig: DaemonRig) -> list[dict[str, Any]]:
    return (await get(daemon_rig, "/api/doctor"))["findings"]
