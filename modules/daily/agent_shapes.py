"""What the existing app reads of scheduled agents; the names are its own, in camelCase."""

from __future__ import annotations

from typing_extensions import TypedDict

from .agent_files import FOLDER, WEEKDAYS, JournalAgent
from .agents import Kept


class ScheduleShape(TypedDict):
    """When an agent runs, as `HH:MM` in local time."""

    enabled: bool
    time: str


class StateShape(TypedDict):
    """What an agent did."""

    lastRunAt: str | None
    lastProcessedDate: str | None
    runCount: int


class AgentShape(TypedDict):
    """One agent; `outputPath` is a pattern with `{date}`."""

    name: str
    displayName: str
    description: str
    schedule: ScheduleShape
    outputPath: str
    state: StateShape


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


class ScheduledAgent(TypedDict):
    """A scheduled agent, as the web page shows it: `time` is `HH:MM` here, `day` a weekday or null
    for each day; `approved`: whether it runs as its file is. `text` is that of `file`, or, where
    there is none (`shipped`), what such a file would begin with.
    """

    name: str
    title: str
    description: str
    enabled: bool
    time: str
    day: str | None
    approved: bool
    output: str
    file: str
    shipped: bool
    text: str
    last_run_at: str | None
    last_day: str | None


class ScheduledAgents(TypedDict):
    """All of them, by name."""

    agents: list[ScheduledAgent]


def scheduled_agent(
    agent: JournalAgent, kept: Kept, text: str, *, is_approved: bool
) -> ScheduledAgent:
    """An agent with its schedule."""
    return {
        "name": agent.name,
        "title": agent.display_name,
        "description": agent.description,
        "enabled": agent.is_enabled,
        "time": f"{agent.at:%H:%M}",
        "day": None if agent.weekday is None else WEEKDAYS[agent.weekday],
        "approved": is_approved,
        "output": agent.output,
        "file": f"{FOLDER}{agent.name}.md",
        "shipped": agent.is_shipped,
        "text": text,
        "last_run_at": kept.get("last_run_at"),
        "last_day": kept.get("last_processed_date"),
    }


def agent_shape(agent: JournalAgent, kept: Kept) -> AgentShape:
    """An agent with what is remembered of it."""
    return {
        "name": agent.name,
        "displayName": agent.display_name,
        "description": agent.description,
        "schedule": {"enabled": agent.is_enabled, "time": f"{agent.at:%H:%M}"},
        "outputPath": agent.output,
        "state": {
            "lastRunAt": kept.get("last_run_at"),
            "lastProcessedDate": kept.get("last_processed_date"),
            "runCount": kept.get("run_count", 0),
        },
    }


def transcript(kept: Kept, limit: int) -> Transcript:
    """What was said in its last run, cut to so many messages."""
    at, said = (
        kept.get("last_run_at"),
        [("user", kept.get("prompt")), ("assistant", kept.get("words"))],
    )
    messages: list[TranscriptMessage] = [
        {"type": kind, "timestamp": at, "content": words} for kind, words in said if words
    ]
    return {
        "hasTranscript": bool(messages),
        "sessionId": None,
        "totalMessages": len(messages),
        "message": None if messages else "The agent has not asked a model yet.",
        "messages": messages[-limit:],
    }
