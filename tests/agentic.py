"""Agentic test: an agent walks through the API of a new vault's daemon and reports what is wrong.

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

from parachuted.agent_choice import choose_agent
from parachuted.agents import Backend, Job, OfflineBackend, RunLimits, Tool, ToolResult
from parachuted.config import load_settings
from parachuted.errors import AgentFailedError
from parachuted.vault_state import state_folder
from tests.cli import forked
from tests.cli.command_line import CommandLine

LONGEST_ANSWER = 8_000
NO_MODEL = 3
METHODS = ["GET", "POST", "PUT", "PATCH", "DELETE"]
SYSTEM = """You test the HTTP API of a program that keeps notes. You have three tools: call_api,
save_note (saves a note as a person's editor does) and report. Report each thing that you tried,
once, with what you saw; it is a problem if it is not as GET /api/openapi.json says, or if a person
would be surprised. Do not report what you did not see."""
PROMPT = """Walk through the API as an app would: read GET /api/openapi.json; list the notes and
read one; create a note, change one section of it, read it again; search for a word of it; save a
change of another note with save_note and see that it is noticed and who is woken by it; look at
what ran, undo it, and see that the text is back; ask for what does not exist, outside the vault,
and with a body that is no JSON. Report as you go; end with one sentence."""


@dataclass
class AgenticWalk:
    """A daemon to walk through, and what was reported: a sentence, and whether it is a problem."""

    url: str
    key: str
    vault: Path
    findings: list[tuple[str, bool]] = field(default_factory=list)
    calls: list[str] = field(default_factory=list)

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
        return await asyncio.to_thread(self._ask, method, path, arguments.get("body"))

    def _ask(self, method: str, path: str, body: object) -> ToolResult:
        request = urllib.request.Request(  # noqa: S310  our own daemon
            self.url + path,
            method=method,
            data=None if body is None else str(body).encode(),
            headers={"Authorization": f"Bearer {self.key}", "Content-Type": "application/json"},
        )
        try:
            with urllib.request.urlopen(request, timeout=20) as answer:  # noqa: S310
                status, data = answer.status, answer.read(LONGEST_ANSWER)
        except urllib.error.HTTPError as refused:
            with refused:
                status, data = refused.code, refused.read(LONGEST_ANSWER)
        except (OSError, ValueError) as error:
            return ToolResult(text=str(error), is_error=True)
        return ToolResult(text=f"{status}\n{data.decode(errors='replace')}")

    async def _save(self, arguments: Mapping[str, object]) -> ToolResult:
        file = (self.vault / str(arguments["path"])).resolve()
        if not file.is_relative_to(self.vault.resolve()):
            return ToolResult(text="that is not in the vault", is_error=True)
        file.parent.mkdir(parents=True, exist_ok=True)
        await asyncio.to_thread(file.write_text, str(arguments["text"]), "utf-8")
        return ToolResult(text="saved")

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
    """A new vault, its daemon with the offline agent, and a key that may read and write."""
    command_line.does("init", str(command_line.vault))
    key = command_line.json("keys", "create", "agentic")["key"]
    command_line.does("start", "--port", "0")
    try:
        record = json.loads((command_line.home / "run/daemon.json").read_bytes())
        yield AgenticWalk(
            url=f"http://127.0.0.1:{record['port']}", key=key, vault=command_line.vault
        )
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
    finally:
        await choice.backend.close()
        if choice.gateway is not None:
            await choice.gateway.close()
    for finding, is_problem in walk.findings:
        print(f"{'PROBLEM' if is_problem else 'ok     '} {finding}")
    print(f"{len(walk.calls)} calls, {len(walk.findings)} findings; {why or 'it ended by itself'}")
    return int(why is not None or not walk.findings or any(bad for _, bad in walk.findings))


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
