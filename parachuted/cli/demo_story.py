"""Demo story: the specification's own story in the demo's vault, with its files and a model that
answers from a script.
"""

from __future__ import annotations

import asyncio
import json
import os
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from parachuted.cli.client import ask
from parachuted.cli.demo_daemon import (
    DemoEvents,
    demo_daemon,
    demo_environment,
    demo_events,
    save_note,
    wait_for_modules,
)
from parachuted.cli.demo_steps import DemoSteps
from parachuted.cli.show import say, say_lines

if TYPE_CHECKING:
    from parachuted.testing import Block, RecordedRequest

TYPES = """\
types:
  person:
    icon: "👤"
    folder: "people"
    fields: [aliases, tags, relationships]

  project:
    icon: "📁"
    folder: "projects"
    fields: [status, work_path, aliases, tags, relationships]
"""
PROJECT = """\
---
para_id: project-parachute
type: project
status: active
work_path: ~/Projects/parachute    # External folder
agents_path: ~/Projects/parachute/CLAUDE.md
aliases:
  - Parachute
  - parachute project
  - the vault app
tags:
  - open-source
  - flutter
  - python
---

# Parachute

Open & interoperable extended mind technology.

## Quick Context
- Flutter app + Python base server
- Working on modular architecture restructure

## Relationships
- [[kevin-regen-hub]] - Advisor on distribution
"""
NAME = "Kevin Regen Hub"
KEVIN = "Brain/entities/people/kevin-regen-hub.md"
GUIDE = "# Parachute\n\nRun the tests before each commit.\n"
OUTSIDE = "Projects/parachute/CLAUDE.md"
CONTEXT, ABOVE = "Projects/parachute/AGENTS.md", "AGENTS.md"
DAY = "Daily/journals/2026-02-24.md"
ENTRY = f"# Noon\n\nMet with {NAME} about the LVB curriculum. He suggested a module on prompts.\n"
FACT = "Brings the curriculum to the hub in May."
MET = "Kevin was met about the curriculum."
LINE = "Kevin brings the curriculum to the hub."
OVERVIEW = "Parachute: there is a plan for its curriculum."
SAID = f"So {NAME} brings the curriculum to the hub from May on, we agreed."
FILES = {
    "Brain/types.yaml": TYPES,
    "Brain/entities/projects/parachute.md": PROJECT,
    KEVIN: f"---\ntype: person\n---\n# {NAME}\n\nTeaches.\n\n## Facts\n- Is kind\n",
    CONTEXT: '---\nwatch:\n  - "Brain/entities/people/*.md"\n---\n# Parachute\n\n## History\n',
}


class StoryModel:
    """Answers as the agent that is asked; `asked` are the requests, as JSON."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def __call__(self, request: RecordedRequest) -> Sequence[Block]:
        from parachuted.testing import ToolUse
        from parachuted.testing import say as answer

        asked = json.dumps(request.body)
        self.asked.append(asked)
        tools: Any = request.body.get("tools") or []
        named = {str(one["name"]).rpartition("__")[2]: str(one["name"]) for one in tools}
        if "tool_result" in asked:
            return [answer("Then Kevin has the curriculum from May on.")]
        if "AskUserQuestion" in named:
            return [ToolUse(name=named["brain-context"], input={"entity": "project-parachute"})]
        if "update_context" in named:
            line = self._line(asked, is_observer="update_title" in named)
            if line is not None:
                put = {"file_path": line[0], "section": "History", "content": line[1]}
                return [ToolUse(name=named["update_context"], input=put)]
        if '\\"judgment\\"' in asked:
            return [answer(json.dumps({"judgment": "enrich", "queries": [NAME]}))]
        if '\\"facts\\"' in asked:
            fact = {"entity_type": "person", "name": NAME, "fact": FACT}
            return [answer(json.dumps({"facts": [fact]}))]
        return [answer("Nothing to change.")]

    def _line(self, asked: str, *, is_observer: bool) -> tuple[str, str] | None:
        """The context file that the curator has to add a line to, and the line."""
        if is_observer:
            return CONTEXT, LINE
        if KEVIN in asked:
            return None if MET in asked else (CONTEXT, MET)
        return (ABOVE, OVERVIEW) if MET in asked and OVERVIEW not in asked else None


def run_story(vault: Path, home: Path) -> None:
    person = vault.parent
    backups = person / "backup-script.sh"
    for path, text in FILES.items():
        (vault / path).parent.mkdir(parents=True, exist_ok=True)
        (vault / path).write_text(text, "utf-8")
    (person / OUTSIDE).parent.mkdir(parents=True)
    (person / OUTSIDE).write_text(GUIDE, "utf-8")
    backups.write_text("#!/bin/sh\ncat >> ~/backup.log\n")
    backups.chmod(0o700)
    home.mkdir(mode=0o700)
    hooks = {"daily.entry.created": [{"type": "command", "command": str(backups), "async": True}]}
    (home / "hooks.yaml").write_text(json.dumps({"hooks": hooks}))
    (home / "hooks.yaml").chmod(0o600)
    model = StoryModel()
    with _served(model) as url:
        story = _Story(
            vault,
            demo_environment(
                home,
                HOME=os.fspath(person),
                TMPDIR=os.fspath(home),
                PARACHUTE_AGENT_BACKEND="claude",
                PARACHUTE_AGENT_BASE_URL=url,
                ANTHROPIC_API_KEY="sk-ant-scripted",
            ),
        )
        say(
            f"A person's home in {person}: the vault in Parachute/, a project's code in "
            "Projects/parachute/. The model answers from a script: no network, no account, no "
            "cost. Each line after $ is a command that you can type; what it prints is below it."
        )
        story.prepare()
        with demo_daemon(vault, home, story.environment) as record, demo_events(record) as events:
            wait_for_modules()
            story.entry(events)
            story.bubbling()
            session = story.chat(person)
            story.explained(session)
    say("\nFor this with notes of your own: `parachute init --with daily,brain,chat`.")


class _Story(DemoSteps):
    """What the person does in the vault, step by step, and the files' lines that follow."""

    def prepare(self) -> None:
        say("\n1. The project's note names its folder outside the vault. You say that it is yours:")
        self.show_lines("Brain/entities/projects/parachute.md", "_path:")
        self.type_command("config", "set", "agent.own_folders", "~/Projects/parachute")
        say("   You install the journal, what knows people and projects, and the conversation:")
        for name in ("brain", "daily", "chat"):
            self.type_command(
                "modules", "install", f"parachute://{name}", "--trust", "trusted", "--yes", last=1
            )

    def entry(self, events: DemoEvents) -> None:
        say(f"\n2. entry      You type into {DAY}:")
        (self.vault / DAY).parent.mkdir(parents=True, exist_ok=True)
        save_note(self.vault / DAY, ENTRY)
        say_lines(f"     {line}" for line in ENTRY.splitlines() if line)
        events.wait("daily.entry.created")
        say("   Your hook of daily.entry.created, from hooks.yaml, is run:")
        self.type_command("hooks", "list")
        mention = events.wait("brain.mention.detected")
        say(f"\n3. mention    Brain knows who that is: {mention['para_id']}")
        self.until_it_says(DAY, "mentions:")
        self.show_lines(DAY, "mentions:", "para:")
        say(f"\n4. entity     {KEVIN} has its id, and is a change for what watches it:")
        self.until_it_says(KEVIN, "para_id: ")
        self.show_lines(KEVIN, "para_id: ")
        say("   Whom a change of it wakes, and what that costs at most:")
        self.type_command("bubble", "plan", KEVIN)

    def bubbling(self) -> None:
        say(f"\n5. project    {CONTEXT} watches Brain/entities/people/*.md; its curator adds:")
        self.until_it_says(CONTEXT, MET)
        self.show_lines(CONTEXT, "Added by", MET)
        say(f"\n6. parent     {ABOVE} watches Projects/*; its curator adds:")
        self.until_it_says(ABOVE, OVERVIEW)
        self.show_lines(ABOVE, "Added by", OVERVIEW)

    def chat(self, person: Path) -> str:
        say("\n7. chat       You talk about the project. These agents can answer:")
        self.type_command("agents", "list", only=("AGENT", "chat/"))
        say(f"   The one that answers reads the project's file outside, ~/{OUTSIDE}:")
        say_lines(f"     {line}" for line in (person / OUTSIDE).read_text().splitlines() if line)
        self.type_command("chat", "--context", "Projects/parachute", SAID)
        say("\n8. write-back What you agreed on is kept: a fact about Kevin, a line of the project")
        self.until_it_says(KEVIN, FACT)
        self.show_lines(KEVIN, FACT)
        self.until_it_says(CONTEXT, LINE)
        self.show_lines(CONTEXT, LINE)
        self.until(self._is_at_rest)
        return str(ask("GET", "/api/chat")["sessions"][0]["id"])

    def explained(self, session: str) -> None:
        say("\n9. why        You ask where a line is from:")
        for path, text in ((KEVIN, FACT), (CONTEXT, MET)):
            lines = (self.vault / path).read_text("utf-8").splitlines()
            number = next(n for n, line in enumerate(lines, 1) if text in line)
            self.type_command("why", f"{path}:{number}")
        say("\n10. undo      You take back what the chat left; the entry and what it led to stay:")
        self.type_command("undo", "--session", session, "--yes")
        self.show_lines(CONTEXT, MET)

    def _is_at_rest(self) -> bool:
        runs = ask("GET", "/api/runs")["runs"]
        return not ask("GET", "/api/tasks")["tasks"] and all(
            one["outcome"] != "running" for one in runs
        )


@contextmanager
def _served(model: StoryModel) -> Iterator[str]:
    """The address of the model, which answers on a loop of its own."""
    from parachuted.testing import ScriptedMessages

    loop, api = asyncio.new_event_loop(), ScriptedMessages([model] * 500)
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    try:
        asyncio.run_coroutine_threadsafe(api.__aenter__(), loop).result()
        yield api.url
    finally:
        asyncio.run_coroutine_threadsafe(api.__aexit__(None, None, None), loop).result()
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()
