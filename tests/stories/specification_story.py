"""The files of the specification's own story, and a model that answers by a script."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from parachuted.testing import Block, RecordedRequest, ToolUse, say

NAME = "Kevin Regen Hub"
KEVIN = "Brain/entities/people/kevin-regen-hub.md"
PROJECT = "Brain/entities/projects/parachute.md"
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
    "Brain/types.yaml": """\
types:
  person: {icon: "👤", folder: people, fields: [aliases, tags, relationships]}
  project: {icon: "📁", folder: projects, fields: [status, work_path, aliases, tags, relationships]}
""",
    PROJECT: """\
---
para_id: project-parachute
type: project
status: active
work_path: ~/Projects/parachute    # External folder
agents_path: ~/Projects/parachute/CLAUDE.md
aliases: [Parachute, parachute project, the vault app]
tags: [open-source, flutter, python]
---

# Parachute

Open & interoperable extended mind technology.

## Relationships
- [[kevin-regen-hub]] - Advisor on distribution
""",
    KEVIN: f"---\ntype: person\n---\n# {NAME}\n\nTeaches.\n\n## Facts\n- Is kind\n",
    CONTEXT: '---\nwatch:\n  - "Brain/entities/people/*.md"\n---\n# Parachute\n\n## History\n',
}


class StoryModel:
    """Answers as the agent that is asked; `asked` are the requests, as JSON."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def __call__(self, request: RecordedRequest) -> Sequence[Block]:
        asked = json.dumps(request.body)
        self.asked.append(asked)
        tools: Any = request.body.get("tools") or []
        named = {str(tool["name"]).rpartition("__")[2]: str(tool["name"]) for tool in tools}
        if "tool_result" in asked:
            return [say("Then Kevin has the curriculum from May on.")]
        if "AskUserQuestion" in named:
            return [ToolUse(name=named["brain-context"], input={"entity": "project-parachute"})]
        line = _line(asked, is_observer="update_title" in named)
        if "update_context" in named and line is not None:
            put = {"file_path": line[0], "section": "History", "content": line[1]}
            return [ToolUse(name=named["update_context"], input=put)]
        if "update_context" not in named and '\\"judgment\\"' in asked:
            return [say(json.dumps({"judgment": "enrich", "queries": [NAME]}))]
        if "update_context" not in named and '\\"facts\\"' in asked:
            fact = {"entity_type": "person", "name": NAME, "fact": FACT}
            return [say(json.dumps({"facts": [fact]}))]
        return [say("Nothing to change.")]


def _line(asked: str, *, is_observer: bool) -> tuple[str, str] | None:
    """The context file that the curator has to add a line to, and the line."""
    if is_observer:
        return CONTEXT, LINE
    if KEVIN in asked:
        return None if MET in asked else (CONTEXT, MET)
    return (ABOVE, OVERVIEW) if MET in asked and OVERVIEW not in asked else None
