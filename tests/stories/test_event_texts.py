"""Event texts: an untrusted module and a key that may read some notes hear of these files alone,
whatever is told.
"""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import aiohttp

from tests.api.calls import call, get, key_of
from tests.api.routes.test_modules import EXAMPLES, install, run_module
from tests.stories.daemon_rig import DaemonRig, Live, note, save

CANARY = "the canary sings"
HEARD = (
    "file.created",
    "file.deleted",
    "daily.entry.created",
    "daily.reflection.completed",
    "session.start",
    "chat.session.created",
    "run.undone",
    "run.finished",
    "hook.failed",
    "vault.problem",
    "tool.after",
    "permission.requested",
    "module.failed",
)
LISTENS = "hooks:\n" + "".join(
    f"  - {{event: {name}, handler: hear, async: false}}\n" for name in HEARD
)
LISTENER = """
from parachuted.modules import Module, route

class ListenerModule(Module):
    heard = ()

    async def hear(self, data: dict):
        self.heard = [*self.heard, data]

    @route("GET", "/heard")
    async def list_heard(self):
        return list(self.heard)
"""


def tell_secrets(daemon_rig: DaemonRig) -> None:
    """What the daemon tells of notes below Private/, as its parts do."""
    publish = daemon_rig.daemon.watched.bus.publish
    publish(
        "run.undone",
        run="r",
        runs=["r"],
        paths=["Work/a.md"],
        kept={"Private/x.md": [CANARY]},
        undo="u",
    )
    publish("run.undone", run="r", runs=["r"], paths=[], kept={"Private/x.md": [CANARY]}, undo="u")
    publish(
        "run.finished",
        run="r",
        watcher="Work/a.md",
        outcome="changed",
        reason=CANARY,
        paths=["Work/a.md"],
        cost_usd=0.0,
    )
    publish(
        "daily.reflection.completed",
        date="2026-01-01",
        agent="daily",
        output_path=f"Private/{CANARY}.md",
        status="completed",
    )
    publish("session.start", session_id="s", module="chat", working_directory=f"Private/{CANARY}")
    publish(
        "chat.session.created",
        session_id="s",
        title=CANARY,
        module="chat",
        source="app",
        working_directory=f"Private/{CANARY}",
    )
    publish("hook.failed", hook="on-file.py", event="file.created", error=f"ended with 1: {CANARY}")
    publish("module.failed", name="x", version="1.0.0", error=f"ValueError: {CANARY}")
    publish(
        "tool.after",
        tool_name="read_note",
        tool_input={"path": CANARY},
        tool_use_id="u",
        tool_response=CANARY,
        duration_ms=1,
    )
    publish(
        "permission.requested",
        id="p",
        run="r",
        session=None,
        agent="a",
        kind="read",
        what=CANARY,
        why=CANARY,
        until="2026-01-01",
    )
    daemon_rig.daemon.watched.problems.set("test", CANARY)


async def stream_of(daemon_rig: DaemonRig, headers: dict[str, str], last: str) -> list[dict]:
    """The data of the events that a key hears, until that event, which is one of them."""
    found = []
    async with (
        aiohttp.ClientSession() as session,
        session.get(
            daemon_rig.url + "/api/events", headers={**headers, "Last-Event-ID": "0-0"}
        ) as answer,
    ):
        assert answer.status == 200
        async for line in answer.content:
            if line.startswith(b'data: {"event"'):
                found.append(json.loads(line[6:]))
                if last in json.dumps(found[-1]):
                    return found
    return found


async def test_a_module_and_a_key_for_some_notes_hear_nothing_of_the_others(
    live: Live, vault: Path, tmp_path: Path
):
    async with live() as daemon_rig:
        await install(daemon_rig, EXAMPLES / "daily")
        manifest = f"permissions:\n  read: [Work/**]\n{LISTENS}"
        await run_module(daemon_rig, tmp_path, "listener", LISTENER, "untrusted", manifest)
        narrow = key_of(daemon_rig, "*:read", paths=["Work/**"])

        status, _ = await call(
            daemon_rig, "POST", "/api/daily/entries", json={"content": CANARY, "entry_id": "monday"}
        )
        assert status == 201
        tell_secrets(daemon_rig)
        save(vault / "Work/last.md", note("Last"))
        async with asyncio.timeout(30):
            while "Work/last.md" not in json.dumps(
                heard := await get(daemon_rig, "/api/listener/heard")
            ):
                await asyncio.sleep(0.02)
            streamed = await stream_of(daemon_rig, narrow, "Work/last.md")

        assert {data["path"] for data in heard} == {"Work/last.md"}
        assert {(one["event"], one["data"]["path"]) for one in streamed} == {
            ("file.created", "Work/last.md")
        }
        assert any(CANARY in json.dumps(one.data) for one in daemon_rig.daemon.watched.bus.since(0))
