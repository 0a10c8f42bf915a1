"""Agentic test: an agent walks through the API of a new vault's daemon and reports what is wrong;
what holds whatever it did (promises.py) is looked for when it has ended.

`python -m tests.agentic`, where there is a login for Claude (`parachute auth status` says so) or
PARACHUTE_AGENT_BASE_URL names a model. Prints what it reports. Exit code 0: it ended and found no
problem; 1: it found some, or did not end; 3: no model. tests/stories/test_agentic.py does the same
with a scripted model.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
import tempfile
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import aclosing, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from parachuted.agents.choice import choose_agent
from parachuted.agents.job import Backend, Job, RunLimits, Tool, ToolResult
from parachuted.agents.offline import OfflineBackend
from parachuted.config import load_settings
from parachuted.errors import AgentFailedError
from parachuted.home_files.bundled import bundled_folder
from parachuted.home_files.vault_state import state_folder
from tests.cli import forked
from tests.cli.command_line import CommandLine
from tests.promises import broken, undo_all
from tests.stories.daemon_rig import save

LONGEST_ANSWER = 8_000
NO_MODEL = 3
METHODS = ["GET", "POST", "PUT", "PATCH", "DELETE"]
SYSTEM = """You test the HTTP API of a program that keeps notes. You have three tools: call_api,
save_note (saves a note as a person's editor does) and report. Report each thing that you tried,
once, with what you saw; it is a problem if it is not as GET /api/openapi.json says, or if a person
would be surprised. Do not report what you did not see."""
PROMPT = """Walk through the API as an app would: read GET /api/openapi.json; list the notes and
read one; create a note, change one section of it, read it again; search for a word of it; save a
change of another note with save_note and see that it is noticed and who is woken by it. Then live
a day: write an entry of the journal that names Kim Lee (POST /api/daily/entries) and save one with
save_note in Daily/journals; see whom Brain links, add a person and a fact about Kim; see what the
AGENTS.md of Projects/garden and of the vault say of it; talk with Chat about the garden
(POST /api/chat, with contexts ["Projects/garden"]) and see what the conversation leaves in notes.
Look at what ran, ask why a line is there, undo a run, and see that the text is back; ask for what
does not exist, outside the vault, and with a body that is no JSON. Report as you go; end with one
sentence."""
KIM, GARDEN = "Brain/entities/people/kim-lee.md", "Projects/garden/AGENTS.md"
ABOVE = "AGENTS.md"
TEXT = "# {}\n\n## Notes\n\nBeans are in the left bed.\n\n## History\n".format
WATCHED = "[Brain/entities/people/*.md, Daily/journals/*.md]"
NOTES = {
    KIM: f"---\ntype:   'person'  # by hand\n---\n{TEXT('Kim Lee')}".replace("\n", "\r\n"),
    GARDEN: f"\ufeff---\nwatch: {WATCHED}\n---\n{TEXT('Garden')}",
    ABOVE: f"---\nwatch: ['Projects/*']\n---\n{TEXT('All of it')}",
}
MODULES = ("brain", "daily", "chat")


@dataclass
class AgenticWalk:
    """A daemon to walk through, and what was reported: a sentence, and whether it is a problem.

    `saved` is what was last saved by hand, by path.
    """

    url: str
    key: str
    vault: Path
    findings: list[tuple[str, bool]] = field(default_factory=list)
    calls: list[str] = field(default_factory=list)
    saved: dict[str, bytes] = field(default_factory=dict)

    def tools(self) -> tuple[Tool, ...]:
        """What the agent may do."""
        text = {"type": "string"}
        api = {"method": {"type": "string", "enum": METHODS}, "path": text, "body": text}
        return (
            _tool(
                "call_api", "Call the API; `body` is sent as it is, as JSON.", api, self._call, 2
            ),
            _tool("save_note", "Save a note.", {"path": text, "text": text}, self._save, 2),
            _tool(
                "report",
                "Report what you tried and saw.",
                {"finding": text, "is_problem": {"type": "boolean"}},
                self._report,
                2,
            ),
        )

    async def _call(self, arguments: Mapping[str, object]) -> ToolResult:
        method, path = str(arguments["method"]), str(arguments["path"])
        self.calls.append(f"{method} {path}")
        if not path.startswith("/"):
            return ToolResult(text="the path begins with /", is_error=True)
        return await asyncio.to_thread(self.call, method, path, arguments.get("body"))

    def call(self, method: str, path: str, body: object) -> ToolResult:
        """The status and the beginning of the answer."""
        try:
            status, data = self._request(method, path, body, LONGEST_ANSWER)
        except (OSError, ValueError) as error:
            return ToolResult(text=str(error), is_error=True)
        return ToolResult(text=f"{status}\n{data.decode(errors='replace')}")

    def ask(self, method: str, path: str) -> Any:
        """The JSON of a call that succeeds."""
        status, data = self._request(method, path, None)
        assert status == 200, (method, path, status, data)
        return json.loads(data)

    def _request(
        self, method: str, path: str, body: object, longest: int = -1
    ) -> tuple[int, bytes]:
        request = urllib.request.Request(  # noqa: S310  our own daemon
            self.url + path,
            method=method,
            data=None if body is None else str(body).encode(),
            headers={"Authorization": f"Bearer {self.key}", "Content-Type": "application/json"},
        )
        try:
            with urllib.request.urlopen(request, timeout=20) as answer:  # noqa: S310
                return answer.status, answer.read(longest)
        except urllib.error.HTTPError as refused:
            with refused:
                return refused.code, refused.read(longest)

    async def _save(self, arguments: Mapping[str, object]) -> ToolResult:
        file = (self.vault / str(arguments["path"])).resolve()
        if not file.is_relative_to(self.vault.resolve()):
            return ToolResult(text="that is not in the vault", is_error=True)
        await asyncio.to_thread(self.save, str(arguments["path"]), str(arguments["text"]))
        return ToolResult(text="saved")

    def save(self, path: str, text: str) -> None:
        """Save a note as a person's editor does."""
        save(self.vault / path, text)
        self.saved[path] = text.encode()

    def broken_promises(self) -> list[str]:
        """What does not hold, first as it is, then while all of it is undone."""
        return [*broken(self.ask, self.vault, self.saved), *undo_all(self.ask, self.vault)]

    async def _report(self, arguments: Mapping[str, object]) -> ToolResult:
        self.findings.append((str(arguments["finding"]), arguments["is_problem"] is True))
        return ToolResult(text="noted")


def _tool(name: str, description: str, properties, call, required: int) -> Tool:
    return Tool(
        name=name,
        description=description,
        schema={
            "type": "object",
            "properties": properties,
            "required": list(properties)[:required],
            "additionalProperties": False,
        },
        call=call,
    )


@contextmanager
def daemon_to_walk(command_line: CommandLine) -> Iterator[AgenticWalk]:
    """A vault in which notes watch a person and a journal, its daemon with the official modules,
    and a key that may read and write.
    """
    walk = AgenticWalk(url="", key="", vault=command_line.vault)
    for path, text in NOTES.items():
        walk.save(path, text)
    command_line.does("init", str(command_line.vault))
    walk.key = command_line.json("keys", "create", "agentic")["key"]
    command_line.does("start", "--port", "0")
    try:
        for name in MODULES:
            source = str(bundled_folder("modules") / name)
            command_line.does("modules", "install", source, "--trust", "trusted", "--yes")
        record = json.loads((command_line.home / "run/daemon.json").read_bytes())
        walk.url = f"http://127.0.0.1:{record['port']}"
        yield walk
    finally:
        for pid in command_line.started():
            os.kill(pid, signal.SIGTERM)
        command_line.until(lambda: not command_line.started())


async def explore(backend: Backend, walk: AgenticWalk, limits: RunLimits) -> str | None:
    """Let the agent walk; why it did not end, or None."""
    job = Job(
        id="agentic",
        watcher="agentic",
        system_prompt=SYSTEM,
        prompt=PROMPT,
        tools=walk.tools(),
        changes=(),
        at=datetime.now(UTC),
        limits=limits,
    )
    try:
        async with aclosing(backend.run(job)) as steps:
            async for _step in steps:
                pass
    except AgentFailedError as error:
        return error.message
    return None


async def walk_and_report(
    command_line: CommandLine, environ: Mapping[str, str], user_home: Path
) -> int:
    """Choose the model by the environment, let it walk, print its report; the exit code."""
    command_line.vault.mkdir()
    settings = load_settings(command_line.home, environ, {"vault": str(command_line.vault)})
    folder = state_folder(command_line.home, command_line.vault)
    choice = choose_agent(settings, folder, environ, user_home)
    try:
        if isinstance(choice.backend, OfflineBackend):
            print(f"No model: {choice.reason}.")
            return NO_MODEL
        limits = RunLimits(timeout_s=1_200, max_turns=120, max_cost_usd=2.0)
        walked = CommandLine(
            home=command_line.folder / "walked-home",
            vault=command_line.folder / "v",
            folder=command_line.folder,
        )
        with daemon_to_walk(walked) as walk:
            why = await explore(choice.backend, walk, limits)
            broken = await asyncio.to_thread(walk.broken_promises)
    finally:
        await choice.backend.close()
        if choice.gateway is not None:
            await choice.gateway.close()
    for finding, is_problem in (*walk.findings, *((said, True) for said in broken)):
        print(f"{'PROBLEM' if is_problem else 'ok     '} {finding}")
    print(f"{len(walk.calls)} calls, {len(walk.findings)} findings; {why or 'it ended by itself'}")
    is_bad = bool(broken) or any(bad for _, bad in walk.findings)
    return int(why is not None or not walk.findings or is_bad)


def main() -> int:
    """Do it in a folder of its own."""
    environ = {name: value for name, value in os.environ.items() if name != "PARACHUTE_VAULT"}
    with tempfile.TemporaryDirectory(prefix="agentic-") as name:
        folder = Path(name)
        (folder / "home").mkdir(mode=0o700)
        command_line = CommandLine(home=folder / "home", vault=folder / "vault", folder=folder)
        try:
            return asyncio.run(walk_and_report(command_line, environ, Path.home()))
        finally:
            forked.end()


if __name__ == "__main__":
    sys.exit(main())
