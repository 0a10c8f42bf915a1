"""The events that frame a turn, in the fields of the apps. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from parachuted.modules import AgentResources, AgentSession

from .prompt import ComposedPrompt
from .prompt_parts import AgentNote
from .session import Session
from .turn_events import Event


@dataclass(frozen=True, slots=True, kw_only=True)
class Resumption:
    """How a turn goes on from those before: by the model's own `transcript`, by `injected` messages
    as text, or, where there were none, from the beginning.

    `is_lost`: the transcript was asked for and was not there.
    """

    transcript: str | None = None
    injected: int = 0
    tokens: int = 0
    earlier: int = 0
    is_lost: bool = False

    def document(self) -> dict[str, object]:
        """As apps read it."""
        method = "context_injection" if self.injected else "new"
        return {
            "method": "sdk_resume" if self.transcript and not self.is_lost else method,
            "sdkSessionValid": self.transcript is not None and not self.is_lost,
            "sdkResumeAttempted": self.transcript is not None,
            "sdkResumeFailed": self.is_lost,
            "contextInjected": self.injected > 0,
            "messagesInjected": self.injected,
            "tokensEstimate": self.tokens,
            "previousMessageCount": self.earlier,
            "loadedFromDisk": self.earlier > 0,
            "cacheHit": False,
        }


def session_event(
    session: Session | None, resumption: Resumption, trust_level: str | None = None
) -> Event:
    """The first event of a turn; without a session its id is not known yet."""
    document = resumption.document()
    return {
        "type": "session",
        "sessionId": None if session is None else session.id,
        "trustLevel": trust_level,
        "title": None if session is None else session.title,
        "workingDirectory": None if session is None else session.working_directory,
        "sessionResume": document,
        "resumeInfo": document,
    }


def started_events(session: AgentSession) -> list[Event]:
    """What the agent can call, and which model answers, where that is known."""
    found: list[Event] = [{"type": "init", "tools": list(session.tools), "permissionMode": None}]
    if session.model:
        found.append({"type": "model", "model": session.model})
    return found


def prompt_event(
    prompt: ComposedPrompt,
    agent: AgentNote | None,
    agents: Sequence[str],
    resources: AgentResources,
    *,
    is_custom: bool,
    is_trusted: bool,
) -> Event:
    """What went into the prompt."""
    source = "agent" if agent is not None else "custom" if is_custom else "default"
    brain = [one for one in prompt.parts if one.kind in {"entity", "brain"}]
    working = prompt.paths("working_directory")
    return {
        "type": "prompt_metadata",
        "promptSource": source,
        "promptSourcePath": agent.path if agent is not None else None,
        "contextFiles": prompt.paths("context", "working_directory"),
        "contextTokens": prompt.tokens_of("context", "working_directory"),
        "contextTruncated": prompt.is_cut,
        "agentName": agent.name if agent is not None else None,
        "availableAgents": list(agents),
        "availableSkills": [one.name for one in resources.skills],
        "availableMcps": list(resources.mcp_servers),
        "basePromptTokens": prompt.tokens_of("base", "bounds", "tools"),
        "totalPromptTokens": prompt.tokens,
        "trustMode": is_trusted,
        "workingDirectoryClaudeMd": working[-1] if working else None,
        "brain_context_loaded": bool(brain),
        "brain_context_count": sum(one.count for one in brain),
        "parts": prompt.rows(),
    }
