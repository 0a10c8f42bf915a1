"""The journal's scheduled agents: the routes of the existing app, and the tools that they call."""

from __future__ import annotations

import datetime as dt
from contextlib import suppress
from typing import Annotated, Final

from pydantic import Field

from parachuted.errors import ActRefusedError, NotFoundError
from parachuted.modules import Finding, Module, mcp_tool, reading, route, visible_to_agents

from .agent_files import JournalAgent
from .agent_shapes import (
    AgentOnDay,
    AgentPage,
    AgentReset,
    AgentToday,
    DayOfAgents,
    ScheduledAgent,
    ScheduledAgents,
    Transcript,
    agent_shape,
    scheduled_agent,
    transcript,
)
from .agents import AgentOutcome, Agents
from .reflection import quoted_entries, session_lines

_AGENTS: Final = "/api/modules/daily/agents"


class AgentRoutes(Module):
    """What the app and the agents call; `journal_agents` is made in `on_enable`."""

    journal_agents: Agents

    async def run_scheduled_agent(self, name: str) -> None:
        """Let an agent work on yesterday, as its schedule says."""
        await self.journal_agents.run(name)

    @route("GET", "/agents")
    async def scheduled_agents(self) -> ScheduledAgents:
        """The scheduled agents with their days and whether each is approved."""
        agents = self.journal_agents
        return {"agents": [await self._scheduled(one) for one in await agents.all()]}

    async def _scheduled(self, agent: JournalAgent) -> ScheduledAgent:
        agents = self.journal_agents
        kept, text = await agents.kept(agent), await agents.text_of(agent)
        return scheduled_agent(agent, kept, text, is_approved=await agents.is_approved(agent))

    @route("GET", "/", prefix=_AGENTS, tolerant=True)
    async def list_agents(self) -> AgentPage:
        """The journal's scheduled agents."""
        agents = await self.journal_agents.all()
        return {"agents": [agent_shape(one, await self.journal_agents.kept(one)) for one in agents]}

    @route("GET", "/status", prefix=_AGENTS, tolerant=True)
    async def agents_on(self, date: dt.date | None = None) -> DayOfAgents:
        """Which scheduled agents wrote on a day, by default today."""
        day = date or today()
        agents = [await self._agent_on(one, day) for one in await self.journal_agents.all()]
        return {"date": day.isoformat(), "agents": agents}

    @route("GET", "/{name}", prefix=_AGENTS, tolerant=True)
    async def get_agent(self, name: str) -> AgentToday:
        """One scheduled agent."""
        agent = await self.journal_agents.get(name)
        on_today = await self._agent_on(agent, today())
        return {
            **agent_shape(agent, await self.journal_agents.kept(agent)),
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
        told = f"What {name} did is forgotten."
        return {"agent": name, "reset": True, "previousSessionId": None, "message": told}

    @route("GET", "/{name}/transcript", prefix=_AGENTS, tolerant=True)
    async def agent_transcript(
        self, name: str, limit: Annotated[int, Field(ge=1, le=200)] = 50
    ) -> Transcript:
        """What was said in an agent's last run."""
        return transcript(await self.journal_agents.kept_words(name), limit)

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
        path, found = f"Daily/chat-log/{day.isoformat()}.md", list[Finding]()
        with reading(path, found), suppress(NotFoundError, ActRefusedError):
            return visible_to_agents(await self.vault.read(path))
        return found[0].problem if found else "There is no chat log of that day."

    @mcp_tool("read_recent_sessions", in_runs_only=True)
    async def read_recent_sessions(self, days: Annotated[int, Field(ge=1, le=31)] = 7) -> str:
        """What the last days' sessions of conversation were about."""
        last = dt.datetime.now(dt.UTC).date()
        said: list[str] = []
        for number in reversed(range(days)):
            day = (last - dt.timedelta(days=number)).isoformat()
            found: list[Finding] = []
            with reading(f"The activity of {day}", found):
                try:
                    said += session_lines(day, await self.activity.read(day))
                except ActRefusedError:  # it may quote any note, so a limited key reads none of it
                    break
            said += (f"{one.path} could not be read: {one.problem}" for one in found)
        return "\n".join(said) or "There are no sessions."

    @mcp_tool("write_output", in_runs_only=True, writes=True)
    async def write_output(self, agent: str, day: dt.date, content: str) -> str:
        """Write a scheduled agent's output of a day; returns its path."""
        return await self.journal_agents.write(await self.journal_agents.get(agent), day, content)

    async def _agent_on(self, agent: JournalAgent, day: dt.date) -> AgentOnDay:
        path, kept = agent.output_path(day), await self.journal_agents.kept(agent)
        is_there = await self.vault.exists(path)
        return {
            "name": agent.name,
            "displayName": agent.display_name,
            "hasOutput": is_there,
            "outputPath": path if is_there else None,
            "lastRunAt": kept.get("last_run_at"),
            "lastProcessedDate": kept.get("last_processed_date"),
        }

    async def _text_of(self, last: dt.date, days: int) -> str:
        entries = await self.journal_agents.entries(last, days)
        return quoted_entries(entries) or "There are no entries."


def today() -> dt.date:
    """The date here and now."""
    return dt.datetime.now().astimezone().date()
