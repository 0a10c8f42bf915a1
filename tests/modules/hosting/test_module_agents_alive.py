"""Module agents in a running daemon: the specification's bot answers over HTTP, in the daemon's
process and in one of its own.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from parachuted.testing import ScriptedBackend, say, use
from tests.api.calls import call, get, key_of
from tests.api.routes.test_modules import EXAMPLES, install
from tests.stories.daemon_rig import Live, save


@pytest.mark.parametrize("trust", ["trusted", "untrusted"])
async def test_the_bot_answers_with_what_its_agent_may_read(live: Live, vault: Path, trust: str):
    save(vault / "Brain/projects/client-x.md", "# Client X\n\nThey pay on Fridays.\n")
    save(vault / "Private/secret.md", "heliotrope\n")
    backend = ScriptedBackend(
        [
            use("read_note", path="Brain/projects/client-x.md"),
            use("read_note", path="Private/secret.md"),
            use("write_note", path="Brain/n.md", text="x"),
            say("On Fridays."),
        ]
    )
    async with live(backend) as daemon_rig:
        reported = await install(daemon_rig, EXAMPLES / "telegram-bot", trust)
        assert reported["status"] == "running", reported["problem"]
        await call(
            daemon_rig, "PUT", "/api/modules/telegram-bot/prompt", json={"content": "Be brief."}
        )

        status, answer = await call(
            daemon_rig,
            "POST",
            "/api/telegram-bot/webhook",
            json={"message": {"text": "When do they pay?"}},
        )
        assert (status, answer) == (200, {"reply": "On Fridays."})
        assert backend.jobs[0].prompt == "Answer this question: When do they pay?"
        assert backend.jobs[0].system_prompt.endswith("\nBe brief.\n")
        (run,) = (await get(daemon_rig, "/api/runs"))["runs"]
        assert (run["agent"], run["outcome"], run["watcher"]) == (
            "telegram-bot/responder",
            "unchanged",
            "Modules/telegram-bot",
        )
        steps = (await get(daemon_rig, f"/api/runs/{run['id']}"))["steps"]
        assert [step["error"] for step in steps if "called" in step] == [False, True, True]


@pytest.mark.parametrize("trust", ["trusted", "untrusted"])
async def test_a_key_with_paths_bounds_the_bots_agent_too(live: Live, vault: Path, trust: str):
    save(vault / "Brain/projects/client-x.md", "# Client X\n")
    save(vault / "Brain/other.md", "# Other\n")
    backend = ScriptedBackend(
        [
            use("read_note", path="Brain/other.md"),
            use("write_note", path="Brain/projects/n.md", text="x"),
            use("write_note", path="Brain/n.md", text="x"),
            say("Done."),
        ]
    )
    async with live(backend) as daemon_rig:
        await install(daemon_rig, EXAMPLES / "telegram-bot", trust)
        key = key_of(daemon_rig, "telegram-bot:admin", paths=["Brain/projects/**"])

        status, answer = await call(
            daemon_rig,
            "POST",
            "/api/telegram-bot/admin",
            json={"text": "Look around."},
            headers=key,
        )
        assert (status, answer) == (200, {"reply": "Done."})
        (run,) = (await get(daemon_rig, "/api/runs"))["runs"]
        steps = (await get(daemon_rig, f"/api/runs/{run['id']}"))["steps"]
        assert [step["error"] for step in steps if "called" in step] == [True, False, True]
        (write,) = daemon_rig.daemon.watched.history.writes_by(run["id"])
        assert (write.path, write.author.by) == ("Brain/projects/n.md", "module:telegram-bot/admin")
