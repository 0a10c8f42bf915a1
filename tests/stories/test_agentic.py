"""The agentic test with a scripted model: what agents report is kept, and a random walk through
the journal, Brain, AGENTS.md and Chat breaks none of the promises.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from parachuted.agents.job import Job, RunResult, Step
from parachuted.testing import (
    Block,
    RecordedRequest,
    Reply,
    ScriptedBackend,
    ScriptedMessages,
    say,
    use,
)
from tests.agentic import (
    ABOVE,
    GARDEN,
    KIM,
    MODULES,
    NO_MODEL,
    NOTES,
    AgenticWalk,
    walk_and_report,
)
from tests.api.calls import key_of
from tests.cli.command_line import CommandLine
from tests.promises import broken, undo_all
from tests.stories.daemon_rig import Live
from tests.stories.official_modules import install_official

ROOT = Path(__file__).resolve().parents[2]
DAY = "Daily/journals/2026-02-24.md"
DEAR = 1_000
NEW_DAY = b"# Noon\n"
JUDGED = json.dumps({"judgment": "enrich", "queries": ["Kim beans"]})


class Conversing(ScriptedBackend):
    """Each conversation has a transcript of its own, as with a real agent."""

    async def run(self, job: Job) -> AsyncIterator[Step]:
        async for step in super().run(job):
            is_last = isinstance(step, RunResult)
            yield replace(step, session_id=job.session_id or job.id) if is_last else step


def agent() -> ScriptedBackend:
    """Adds a line to each context file that it is woken for, and what it is told to a person."""
    numbers = count(1)

    async def answers(job: Job) -> list[Block]:
        fact = f"Fact {next(numbers)} about the beans."
        if job.agent == "chat/observer":
            line = use("update_context", file_path=GARDEN, section="History", content=fact)
            return [use("update_title", title=f"Beans, {fact[:6].lower()}"), line]
        if job.watcher in (GARDEN, ABOVE):
            return [use("update_context", file_path=job.watcher, section="History", content=fact)]
        if "judgment" in job.system_prompt:
            return [say(JUDGED)]
        if job.agent == "chat/question":
            told = {"entity_type": "person", "name": "Kim Lee", "fact": fact}
            return [say(json.dumps({"facts": [told]}))]
        return [say("So it is.")]

    return Conversing(answers, cost_usd=0.01)


class Person:
    """Does this and that, by chance. `by_hand` is what there would be without any agent."""

    def __init__(self, walk: AgenticWalk, seed: str) -> None:
        self._walk, self._chance = walk, random.Random(seed)  # noqa: S311  nothing secret
        self._count = count(1)
        self._sessions: list[str] = []
        self.by_hand = dict(walk.saved)

    def act(self) -> None:
        """Do one thing."""
        acts = [self.note, self.talk] * 2
        acts += [self.keep_journal, self.post_entry, self.add_person, self.undo]
        self._chance.choice(acts)()

    def note(self) -> None:
        """Add a line below the notes of a file, in an editor."""
        path = self._chance.choice(list(NOTES))
        self._save(path, lambda data, line: data.replace(b"## Notes", b"## Notes" + line, 1))

    def keep_journal(self) -> None:
        self._save(DAY, lambda data, line: data + line.replace(b"- ", b"Kim Lee came: "))

    def post_entry(self) -> None:
        self._post("/api/daily/entries", content=f"{self._words()}, said Kim Lee.")

    def add_person(self) -> None:
        name = f"Ada {next(self._count)}"
        self._post("/api/brain/entities", entity_type="person", data={"name": name})

    def talk(self) -> None:
        """Say something in a new conversation, or in an earlier one."""
        earlier = self._chance.choice([None, *self._sessions])
        more = {} if earlier is None else {"sessionId": earlier}
        said = f"{self._words()}: Kim Lee takes over the beans in the garden."
        answer = self._post("/api/chat", message=said, contexts=["Projects/garden"], **more)
        done = json.loads(answer.rpartition("data: ")[2])
        assert done["type"] == "done", answer
        self._sessions.append(done["sessionId"])

    def undo(self) -> None:
        """Take back the newest run of a curator, if it is not."""
        runs = self._walk.ask("GET", "/api/runs")["runs"]
        found = [run["id"] for run in runs if run["agent"] == "curator" and run["wrote"]]
        if found:
            assert self._walk.call("POST", f"/api/runs/{found[0]}/undo", "{}").text[0] in "24"

    def waits(self) -> bool:
        """Whether the person lets the daemon finish before going on."""
        return self._chance.random() < 0.3

    def _save(self, path: str, change: Callable[[bytes, bytes], bytes]) -> None:
        file, text = self._walk.vault / path, f"\n- {self._words()}\n"
        line = text.replace("\n", "\r\n" if path == KIM else "\n").encode()
        there = file.read_bytes() if file.exists() else NEW_DAY
        self._walk.save(path, change(there, line).decode())
        self.by_hand[path] = change(self.by_hand.get(path, NEW_DAY), line)

    def _post(self, path: str, **body: object) -> str:
        said = self._walk.call("POST", path, json.dumps(body)).text
        assert said.startswith("20"), (path, body, said)
        return said

    def _words(self) -> str:
        return f"Thought {next(self._count)}"


@pytest.mark.parametrize("seed", range(2))
async def test_the_promises_hold_whatever_a_person_does_and_over_a_restart(
    seed: int, live: Live, vault: Path, torture
):
    walk = AgenticWalk(url="", key="", vault=vault)
    for path, text in NOTES.items():
        walk.save(path, text)
    person = Person(walk, str(seed))
    many = {"budget.runs_per_hour": 10_000, "budget.runs_per_day": 10_000}
    async with live(agent(), **many) as daemon_rig:
        await install_official(daemon_rig, *MODULES)
        key = key_of(daemon_rig, "*:read,write", local=True)
        walk.url, walk.key = daemon_rig.url, key["Authorization"].removeprefix("Bearer ")
        for _ in range(200 if torture else 15):
            await asyncio.to_thread(person.act)
            if person.waits():
                await daemon_rig.settled()
    async with live(agent(), **many) as daemon_rig:
        walk.url = daemon_rig.url
        await daemon_rig.settled()

        assert await asyncio.to_thread(broken, walk.ask, vault, walk.saved) == []
        assert await asyncio.to_thread(undo_all, walk.ask, vault) == []
        assert {path: (vault / path).read_bytes() for path in person.by_hand} == person.by_hand


class Model:
    """Answers the agent that walks by its script, and the daemon's own as they are asked."""

    def __init__(self, walk: list[list[Block]]) -> None:
        self._walk, self.walked = iter(walk), ""

    def __call__(self, request: RecordedRequest) -> Reply:
        asked = json.dumps(request.body)
        tools: Any = request.body.get("tools") or []
        named = {str(tool["name"]).rpartition("__")[2] for tool in tools}
        usage = {"output_tokens": min(DEAR, int(str(request.body["max_tokens"])))}
        if "call_api" in named:
            self.walked = asked
            return Reply(blocks=tuple(next(self._walk)))
        if "update_context" in named and "tool_result" not in asked:
            path = ABOVE if f"`{ABOVE}`" in asked else GARDEN
            line = use("update_context", file_path=path, section="History", content="Beans.")
            return Reply(blocks=(line,), usage=usage)
        return Reply(blocks=(say("So it is."),), usage=usage)


async def test_an_agents_program_walks_the_day_reports_and_keeps_to_its_money(
    tmp_path, capsys, monkeypatch
):
    command_line = CommandLine(home=tmp_path / "home", vault=tmp_path / "vault", folder=tmp_path)
    command_line.home.mkdir(mode=0o700)
    body = json.dumps({"message": "Who has the beans?", "contexts": ["Projects/garden"]})
    talk = use("call_api", method="POST", path="/api/chat", body=body)
    model = Model(
        [
            [use("call_api", method="GET", path="/api/openapi.json")],
            [use("save_note", path=DAY, text="# Noon\n\nKim Lee brought black beans.\n")],
            [use("save_note", path="../outside.md", text="no")],
            *([talk] for _ in range(3)),
            [use("report", finding="the document is there", is_problem=False)],
            [say("done")],
        ]
    )
    async with ScriptedMessages([model] * 100) as api:
        monkeypatch.setenv("PARACHUTE_AGENT_BASE_URL", api.url)
        monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-ant-api03-test")
        monkeypatch.setenv("PARACHUTE_BUBBLE_QUIET_S", "0.05")
        monkeypatch.setenv("PARACHUTE_CONVERSATION_USD_PER_DAY", "0.013")
        code = await walk_and_report(command_line, os.environ, tmp_path / "user")

    assert capsys.readouterr().out.splitlines() == [
        "ok      the document is there",
        "4 calls, 1 findings; it ended by itself",
    ]
    assert "openapi" in model.walked
    assert "So it is." in model.walked
    assert "conversation.usd_per_day" in model.walked
    assert not (tmp_path / "outside.md").exists()
    assert code == 0


def test_without_a_login_it_says_so():
    done = subprocess.run(
        [sys.executable, "-m", "tests.agentic"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )

    assert (done.returncode, done.stdout.startswith("No model: ")) == (NO_MODEL, True), done
