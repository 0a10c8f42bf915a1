"""The tool by which an agent suggests what it may not do itself."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from parachuted.access.origin import Origin
from parachuted.agents import Tool, ToolResult
from parachuted.errors import NotFoundError, ParachuteError
from parachuted.suggestions.suggestion import ACTIONS, Proposal, Suggestion
from parachuted.vault import VaultPath, printable

SUGGEST = (
    "Suggest a change that you may not make yourself, or that a person should decide on. Nothing "
    "changes before a person approves it. "
    "action: create (payload {text}), update (payload {text}, or {section, content} with append: "
    "true to add to it, or {key, value} for "
    "the frontmatter), delete (payload {}), link (payload {to} with section and label if you like)."
)
_LONGEST_REASONING = 4_000


class ProposalSink(Protocol):
    async def propose(self, proposal: Proposal) -> Suggestion:
        """File one."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class SuggestingRun:
    """Who suggests.

    `sees` are the files that exist for the agent; `origin` is asked at each call, since it changes
    with what was read; `read` holds the digests of what it read, by path.
    """

    agent: str
    sees: Callable[[str], bool]
    session: str = ""
    run: str | None = None
    causes: tuple[str, ...] = ()
    origin: Callable[[], Origin] = lambda: "agent"
    read: Mapping[str, str] = field(default_factory=dict)


def suggestion_tool(suggestions: ProposalSink, run: SuggestingRun) -> Tool:
    """The tool `suggest_change` for one run.

    What is wrong with its arguments is answered as text.
    """

    async def call(arguments: Mapping[str, object]) -> ToolResult:
        action, path, payload, reasoning = (
            arguments.get(name) for name in ("action", "path", "payload", "reasoning")
        )
        if action not in ACTIONS or not isinstance(path, str) or not isinstance(reasoning, str):
            return _refused(
                f"action should be one of {', '.join(ACTIONS)}, path and reasoning texts"
            )
        if not isinstance(payload, dict):
            return _refused("payload should be an object")
        if not 0 < len(reasoning.strip()) <= _LONGEST_REASONING:
            return _refused(f"reasoning should be a text of 1 to {_LONGEST_REASONING} characters")
        try:
            target = VaultPath.parse(path)
            if not run.sees(target):
                raise NotFoundError(
                    f"{printable(target)} is not among the files that you were given"
                )
            suggestion = await suggestions.propose(
                Proposal(
                    source_agent=run.agent,
                    source_session=run.session,
                    action=action,
                    path=target,
                    payload=payload,
                    reasoning=reasoning,
                    base=None if action == "create" else run.read.get(target),
                    run=run.run,
                    causes=run.causes,
                    origin=run.origin(),
                )
            )
        except ParachuteError as error:
            return _refused(error.message)
        return ToolResult(
            text=f"Suggested as {suggestion.id}. Nothing has changed; a person decides on it."
        )

    text = {"type": "string"}
    properties: dict[str, object] = {
        "action": {"type": "string", "enum": list(ACTIONS)},
        "path": {**text, "description": "The note's path in the vault."},
        "payload": {
            "type": "object",
            "description": "What is to stand there, as the description says.",
        },
        "reasoning": {
            **text,
            "description": "Why you think that this is good, for the person who decides.",
        },
    }
    schema: dict[str, object] = {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }
    return Tool(name="suggest_change", description=SUGGEST, schema=schema, call=call)


def _refused(text: str) -> ToolResult:
    return ToolResult(text=text, is_error=True)
