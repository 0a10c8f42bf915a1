"""Turns whose agent has a shell: the real CLI in a real container, with a scripted model."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Mapping
from pathlib import Path

from parachuted.testing import say, use
from tests.api.calls import code, get, post
from tests.chat.live_turns import Model, events, results_in, turn
from tests.module_files import install_official
from tests.stories.boxed import boxed, native


async def test_a_conversation_with_a_shell_works_in_a_container(
    engine: Mapping[str, str], home: Path, vault: Path
):
    (vault / "Work").mkdir()
    (vault / "Work/plan.md").write_text("# Plan\n\n- one\n")
    (vault / "Private.md").write_text("heliotrope\n")
    model = Model(
        [say("Hello.")],
        [native("Bash", command="ls -R /vault && id -u", description="look")],
        [
            native("Bash", command="sed -i s/one/ONE/ Work/plan.md", description="shout"),
            use("update_session_title", title="The plan"),
        ],
        [say("Done.", pieces=3)],
        [say("As I said.")],
    )
    async with boxed(engine, home, vault) as box:
        daemon_rig = box.daemon_rig
        box.api.add(*[model] * 100)
        await install_official(daemon_rig, "chat")
        started = await turn(daemon_rig, "Good morning.", workingDirectory="Work")
        session = started[-1]["sessionId"]
        body = {"permissions": {"capabilities": ["Read", "Write", "Bash"]}}
        assert await code(daemon_rig, "PATCH", f"/api/chat/{session}", json=body) == 200

        found = await turn(daemon_rig, "Shout.", session)
        assert "".join(one["delta"] for one in found if one["type"] == "text") == "Done."
        used = [one["tool"]["name"] for one in found if one["type"] == "tool_use"]
        assert [name.rpartition("__")[2] for name in used] == [
            "Bash",
            "Bash",
            "update_session_title",
        ]
        listed, *_ = results_in(found)
        assert "plan.md" in listed
        assert str(os.getuid() or 1000) in listed
        assert "Private" not in listed
        assert (vault / "Work/plan.md").read_text() == "# Plan\n\n- ONE\n"
        assert (await get(daemon_rig, f"/api/chat/{session}"))["title"] == "The plan"

        found = await turn(daemon_rig, "What did I say first?", session)
        assert found[-1]["sessionResume"]["method"] == "context_injection"
        assert "Good morning." in model.asked[-1]

        history = daemon_rig.daemon.watched.history
        runs = (await get(daemon_rig, f"/api/chat/{session}/runs"))["runs"]
        (run,) = [
            one
            for one in runs
            if any(write.path == "Work/plan.md" for write in history.writes_by(one))
        ]
        await post(daemon_rig, f"/api/runs/{run}/undo")
        assert (vault / "Work/plan.md").read_text() == "# Plan\n\n- one\n"


async def test_a_turn_stopped_in_its_container_ends_and_others_have_no_shell(
    engine: Mapping[str, str], home: Path, vault: Path
):
    (vault / "Work").mkdir()
    (vault / "Work/plan.md").write_text("# Plan\n")
    model = Model(
        [native("Bash", command="touch Work/started.md && cat /dev/zero", description="hang")],
        [say("I am here.")],
    )
    async with boxed(engine, home, vault) as box:
        daemon_rig, session = box.daemon_rig, "a-session"
        box.api.add(*[model] * 100)
        folder = vault / "Chat/sessions"
        folder.mkdir(parents=True)
        (folder / "a.md").write_text(
            f'---\nid: "{session}"\nmode: workspace\nworking_directory: Work\n'
            "capabilities: [Bash]\n---\n"
        )
        await install_official(daemon_rig, "chat")
        await daemon_rig.settled()  # Chat knows the file
        body = {"message": "Hang.", "sessionId": session}
        async with asyncio.TaskGroup() as group:
            asked = group.create_task(events(daemon_rig, "POST", "/api/chat", body))
            await daemon_rig.until(lambda: len(model.asked) == 1, 60)
            assert await code(daemon_rig, "POST", f"/api/chat/{session}/abort") == 200
        assert asked.result()[-1][1]["type"] == "aborted"
        found = await turn(daemon_rig, "Are you there?", session)
        assert found[-1]["response"] == "I am here."

        for level in ("sandboxed", "direct"):
            await turn(daemon_rig, "Hello.", workingDirectory="Work", trustLevel=level)
        sandboxed, direct = (
            {tool["name"].rpartition("__")[2] for tool in json.loads(asked)["tools"]}
            for asked in model.asked[-2:]
        )
        assert "Bash" not in sandboxed | direct
        assert "write_note" not in sandboxed
