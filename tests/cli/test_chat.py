"""`parachute chat`, as typed."""

from __future__ import annotations

import asyncio
import json
import subprocess
from pathlib import Path

from parachuted.testing import ScriptedBackend, say, use
from tests.cli.command_line import PARACHUTE, CommandLine
from tests.stories.daemon_rig import Live

QUESTION = {"question": "Which bed?", "options": [{"label": "North"}, {"label": "South"}]}


async def test_a_conversation_in_the_terminal_from_its_installation_on(
    live: Live, home: Path, vault: Path
):
    command_line = CommandLine(home=home, vault=vault, folder=home.parent)
    command_line.environ["PARACHUTE_VAULT"] = str(vault)
    heard = []

    async def script(job):
        heard.append((job.prompt, job.session_id))
        if "dig" in job.prompt:
            return [use("AskUserQuestion", questions=[QUESTION]), say("South it is.")]
        return [say("Hello to you.")]

    def run(words: tuple[str, ...], stdin: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*PARACHUTE, *words],
            env=command_line.env(),
            input=stdin,
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )

    async def type_(*words: str, stdin: str = "") -> tuple[int, str]:
        done = await asyncio.to_thread(run, words, stdin)
        assert "Traceback" not in done.stderr, done.stderr
        return done.returncode, done.stdout + done.stderr

    assert (await type_("chat", "hello"))[0] == 3
    async with live(ScriptedBackend(script)):
        code, said = await type_("chat", "hello")
        assert (code, "modules install parachute://chat" in said) == (1, True), said
        assert (await type_("modules", "install", "parachute://chat", "--yes"))[0] == 0
        assert (await type_("chat", "--continue", "hello"))[0] == 1

        code, said = await type_("chat", "hello")
        assert (code, said.strip()) == (0, "Hello to you."), said
        code, said = await type_("chat", "")
        assert (code, "a message is needed" in said) == (2, True), said
        assert await type_("chat", stdin="exit\nhello\n") == (0, "")
        code, said = await type_("chat", stdin="/help\nquit\nhello\n")
        assert (code, "`exit` or Ctrl-D leaves" in said, "Hello" in said) == (0, True, False), said
        code, said = await type_("chat", "--continue", stdin="dig\n2\n")
        assert (code, "? Which bed?" in said, "South it is." in said) == (0, True, True), said
        assert "  - AskUserQuestion" in said
        assert (await type_("chat", "--session", "nothing", "hello"))[0] == 1

        code, said = await type_("chat", "--list", "--json")
        assert [session["messageCount"] for session in json.loads(said)["sessions"]] == [4]
        code, said = await type_("chat", "--list")
        assert (code, "MESSAGES" in said) == (0, True), said
    sessions = list((vault / "Chat/sessions").glob("**/*.md"))
    assert len(sessions) == 1
    assert "Hello to you." in sessions[0].read_text()
    assert "South it is." in sessions[0].read_text()
