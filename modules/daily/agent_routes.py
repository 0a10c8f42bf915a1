"""The journal's scheduled agents: the routes of the existing app, and the tools that they call."""

from __future__ import annotations

import datetime as dt
from contextlib import suppress
from typing import Annotated, Final

from pydantic import Field
from typing_extensions import TypedDict

from parachuted.errors import ActRefusedError, NotFoundError
from parachuted.modules import Finding, Module, mcp_tool, reading, route, visible_to_agents

from .agents import FOLDER, WEEKDAYS, AgentOutcome, Agents, JournalAgent
from .reflection import quoted_entries, session_lines

_AGENTS: Final = "/api/modules/daily/agents"


class ScheduleShape(TypedDict):
    """When an agent runs, as `HH:MM` in local time; `day` where it is once a week."""

    enabled: bool
    time: str
    day: str | None


class StateShape(TypedDict):
    """What an agent did."""

    lastRunAt: str | None
    lastProcessedDate: str | None
    runCount: int


class AgentShape(TypedDict):
    """One agent; `outputPath` is a pattern with `{date}`, `text` the file's, or what one would
    begin with (`shipped`).
    """

    name: str
    displayName: str
    description: str
    schedule: ScheduleShape
    outputPath: str
    state: StateShape
    approved: bool
    file: str
    shipped: bool
    text: str


class AgentToday(AgentShape):
    """One agent, and whether it wrote today."""

    hasTodayOutput: bool
    todayOutputPath: str | None


class AgentPage(TypedDict):
    """All agents, by name."""

    agents: list[AgentShape]


class AgentOnDay(TypedDict):
    """Whether an agent wrote on a day."""

    name: str
    displayName: str
    hasOutput: bool
    outputPath: str | None
    lastRunAt: str | None
    lastProcessedDate: str | None


class DayOfAgents(TypedDict):
    """All agents on a day (YYYY-MM-DD)."""

    date: str
    agents: list[AgentOnDay]


class AgentReset(TypedDict):
    """An agent whose state was forgotten."""

    agent: str
    reset: bool
    previousSessionId: str | None
    message: str


class TranscriptMessage(TypedDict):
    """What was said to an agent, or by it."""

    type: str
    timestamp: str | None
    content: str


class Transcript(TypedDict):
    """An agent's last run."""

    hasTranscript: bool
    sessionId: str | None
    totalMessages: int
    message: str | None
    messages: list[TranscriptMessage]


class AgentRoutes(Module):
    journal_agents: Agents

    async def run_scheduled_agent(self, name: str) -> None:
        await self.journal_agents.run(name)

    @route("GET", "/", prefix=_AGENTS, tolerant=True)
    async def list_agents(self) -> AgentPage:
        """The journal's scheduled agents."""
        return {"agents": [await self._shape(agent) for agent in await self.journal_agents.all()]}

    @route("GET", "/status", prefix=_AGENTS, tolerant=True)
    async def agents_on(self, date: dt.date | None = None) -> DayOfAgents:
        """Which scheduled agents wrote on a day, by default today."""
        day = date or today()
        agents = [await self._agent_on(agent, day) for agent in await self.journal_agents.all()]
        return {"date": day.isoformat(), "agents": agents}

    @route("GET", "/{name}", prefix=_AGENTS, tolerant=True)
    async def get_agent(self, name: str) -> AgentToday:
        """One scheduled agent."""
        agent = await self.journal_agents.get(name)
        on_today = await self._agent_on(agent, today())
        return {
            **await self._shape(agent),
            "hasTodayOutput": on_today["hasOutput"],
            "todayOutputPath": on_today["outputPath"],
        }

    @route("POST", "/{name}/run", prefix=_AGENTS, tolerant=True, timeout_s=170)
    async def run_journal_agent(
        self, name: str, date: dt.date | None = None, *, force: bool = False
    ) -> AgentOutcome:
        """Let an agent work on a day, by default yesterday; `force` also where it wrote already."""
        return await self.journal_agents.run(name, date, force=force)

    @route("POST", "/{name}/reset", prefix=_AGENTS, tolerant=True)
    async def reset_agent(self, name: str) -> AgentReset:
        """Forget what an agent did. Its output stays."""
        await self.journal_agents.reset(name)
        message = f"What {name} did is forgotten."
        return {"agent": name, "reset": True, "previousSessionId": None, "message": message}

    @route("GET", "/{name}/transcript", prefix=_AGENTS, tolerant=True)
    async def agent_transcript(
        self, name: str, limit: Annotated[int, Field(ge=1, le=200)] = 50
    ) -> Transcript:
        """What was said in an agent's last run."""
        state = await self.journal_agents.state_of((await self.journal_agents.get(name)).name)
        at, said = (
            state.get("last_run_at"),
            {"user": state.get("prompt"), "assistant": state.get("words")},
        )
        messages: list[TranscriptMessage] = [
            {"type": kind, "timestamp": at, "content": words}
            for kind, words in said.items()
            if words
        ]
        return {
            "hasTranscript": bool(messages),
            "sessionId": None,
            "totalMessages": len(messages),
            "message": None if messages else "The agent has not asked a model yet.",
            "messages": messages[-limit:],
        }

    @mcp_tool("read_journal", in_runs_only=True)
    async def read_journal(self, day: dt.date) -> str:
        """The journal of a day as text."""
        return await self._text_of(day, 1)

    @mcp_tool("read_recent_journals", in_runs_only=True)
    async def read_recent_journals(self, days: Annotated[int, Field(ge=1, le=31)] = 7) -> str:
        """The journal of the last days as text."""
        return await self._text_of(today(), days)

    @mcp_tool("read_chat_log", in_runs_only=True)
    async def read_chat_log(self, day: dt.date) -> str:
        """What was talked about on a day."""
        path, findings = f"Daily/chat-log/{day.isoformat()}.md", list[Finding]()
        with reading(path, findings), suppress(NotFoundError, ActRefusedError):
            return visible_to_agents(await self.vault.read(path))
        return findings[0].problem if findings else "There is no chat log of that day."

    @mcp_tool("read_recent_sessions", in_runs_only=True)
    async def read_recent_sessions(self, days: Annotated[int, Field(ge=1, le=31)] = 7) -> str:
        """What the last days' sessions of conversation were about."""
        last = dt.datetime.now(dt.UTC).date()
        said: list[str] = []
        for number in reversed(range(days)):
            day = (last - dt.timedelta(days=number)).isoformat()
            findings: list[Finding] = []
            with reading(f"The activity of {day}", findings):
                try:
                    said += session_lines(day, await self.activity.read(day))
                except ActRefusedError:  # it may quote any note, so a limited key reads none of it
                    break
            said += (f"{finding.path} could not be read: {finding.problem}" for finding in findings)
        return "\n".join(said) or "There are no sessions."

    @mcp_tool("write_output", in_runs_only=True, writes=True)
    async def write_output(self, agent: str, day: dt.date, content: str) -> str:
        """Write a scheduled agent's output of a day; returns its path."""
        return await self.journal_agents.write(await self.journal_agents.get(agent), day, content)

    async def _shape(self, agent: JournalAgent) -> AgentShape:
        agents = self.journal_agents
        state = await agents.state_of(agent.name)
        return {
            "name": agent.name,
            "displayName": agent.display_name,
            "description": agent.description,
            "schedule": {
                "enabled": agent.is_enabled,
                "time": f"{agent.at:%H:%M}",
                "day": None if agent.weekday is None else WEEKDAYS[agent.weekday],
            },
            "outputPath": agent.output,
            "state": {
                "lastRunAt": state.get("last_run_at"),
                "lastProcessedDate": state.get("last_processed_date"),
                "runCount": state.get("run_count", 0),
            },
            "approved": await agents.is_approved(agent),
            "file": f"{FOLDER}{agent.name}.md",
            "shipped": agent.is_shipped,
            "text": await agents.text_of(agent),
        }

    async def _agent_on(self, agent: JournalAgent, day: dt.date) -> AgentOnDay:
        path, state = agent.output_path(day), await self.journal_agents.state_of(agent.name)
        is_there = await self.vault.exists(path)
        return {
            "name": agent.name,
            "displayName": agent.display_name,
            "hasOutput": is_there,
            "outputPath": path if is_there else None,
            "lastRunAt": state.get("last_run_at"),
            "lastProcessedDate": state.get("last_processed_date"),
        }

    async def _text_of(self, last: dt.date, days: int) -> str:
        entries = await self.journal_agents.entries(last, days)
        return quoted_entries(entries) or "There are no entries."


def today() -> dt.date:
    return dt.datetime.now().astimezone().date()
