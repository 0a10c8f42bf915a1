"""An agent that filters and batches other agents' suggestions before a person sees them. It
approves only what it could have written itself, unchanged, and sees what its grant sees.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypeAlias, get_args

from parachuted.access.grant import Grant
from parachuted.access.strangers import Taint
from parachuted.agents.job import Tool, ToolResult
from parachuted.errors import ActRefusedError, ParachuteError
from parachuted.suggestions.payload import LONGEST_REASONING
from parachuted.suggestions.store import unknown
from parachuted.suggestions.suggestion import ORCHESTRATOR, Proposal, Suggestion, stands_for
from parachuted.suggestions.suggestions import Suggestions
from parachuted.vault import printable

Act: TypeAlias = Literal["approve", "reject", "batch"]
_MOST_LISTED = 50
_LARGEST_DIFF = 8 << 10
_PRIVATE = "(what would change is private, and a person decides on it)"
LIST = (
    "List what other agents suggest and is still undecided, with the difference that "
    "each would make."
)
RESOLVE = (
    "Decide on what other agents suggest: approve what is right and you could have written "
    "yourself, reject what is wrong, or batch what "
    "belongs together, so that a person decides on them at once. What you approve is done as it "
    "was suggested."
)


class Orchestrator:
    """It receives the suggestions of the agents `of`, or all (`*`); reading one that strangers'
    text led to sets the `taint`.
    """

    def __init__(
        self,
        suggestions: Suggestions,
        *,
        grant: Grant,
        of: Sequence[str],
        run: str | None,
        causes: tuple[str, ...],
        taint: Taint,
    ) -> None:
        self._suggestions, self._grant, self._of, self._taint = suggestions, grant, of, taint
        self._agent, self._run, self._causes = grant.agent, run, causes

    def waiting(self) -> list[Suggestion]:
        """Of the agents that are its own to filter, for files that it may read, never of itself."""
        return [
            suggestion
            for suggestion in self._suggestions.all(status="pending", sees=self._grant.may_read)
            if self._is_received(suggestion)
        ]

    async def orchestrate(
        self, ids: Sequence[str], action: Act, *, reasoning: str = ""
    ) -> tuple[list[Suggestion], dict[str, str]]:
        """Approve, reject or batch them. Returns those that were resolved, or the batch, and why
        others were not, by id. Raises what filing a batch raises.
        """
        if action == "batch":
            names = [self._received(name).id for name in ids]
            proposal = Proposal(
                source_agent=self._agent,
                action="update",
                path="",
                payload={},
                reasoning=reasoning,
                run=self._run,
                causes=self._causes,
                is_strangers=bool(self._taint),
            )
            return [await self._suggestions.propose_several(names, proposal)], {}
        done, failed = list[Suggestion](), dict[str, str]()
        for name in dict.fromkeys(ids):
            try:
                done.append(await self._resolve(self._received(name), action, reasoning))
            except ParachuteError as error:
                failed[name] = error.message
        return done, failed

    async def _resolve(self, suggestion: Suggestion, action: Act, reasoning: str) -> Suggestion:
        name, path = suggestion.id, printable(suggestion.path)
        tainted = suggestion.is_strangers or bool(self._taint)
        if not self._grant.may_write(suggestion.path, tainted=tainted):
            why = ", after what strangers wrote was read," if tainted else ""
            raise ActRefusedError(f"{self._agent} may not write {path}{why} so a person decides")
        by = f"{ORCHESTRATOR}{self._agent}"
        if action == "reject":
            return await self._suggestions.reject(name, by=by, reason=reasoning)
        if await self._suggestions.changes_watch(name):
            raise ActRefusedError(f"{path} would watch other notes, which a person decides on")
        return await self._suggestions.approve(name, by=by)

    def _received(self, name: str) -> Suggestion:
        suggestion = self._suggestions.get(name, sees=self._grant.may_read)
        if not self._is_received(suggestion):
            raise unknown(name)
        return suggestion

    def _is_received(self, suggestion: Suggestion) -> bool:
        is_of = "*" in self._of or suggestion.source_agent in self._of
        return is_of and suggestion.source_agent != self._agent and stands_for(suggestion) is None

    def tools(self) -> tuple[Tool, ...]:
        properties: dict[str, object] = {
            "ids": {
                "type": "array",
                "items": {"type": "string"},
                "minItems": 1,
                "maxItems": _MOST_LISTED,
                "description": "Ids, as list_suggestions gives them.",
            },
            "action": {"type": "string", "enum": list(get_args(Act))},
            "reasoning": {
                "type": "string",
                "description": "Why, for the person.",
                "maxLength": LONGEST_REASONING,
            },
        }
        empty = {"type": "object", "properties": dict[str, object](), "additionalProperties": False}
        schema = empty | {"properties": properties, "required": list(properties)}
        return (
            Tool(name="list_suggestions", description=LIST, schema=empty, call=self._list),
            Tool(name="resolve_suggestions", description=RESOLVE, schema=schema, call=self._call),
        )

    async def _list(self, _arguments: Mapping[str, object]) -> ToolResult:
        lines = []
        for one in self.waiting()[:_MOST_LISTED]:
            if await asyncio.to_thread(self._suggestions.is_strangers, one):
                self._taint.read(f"the suggestion {one.id}")
            record = self._suggestions.record(one.id)
            diff = _PRIVATE if record.is_private else record.diff[:_LARGEST_DIFF]
            lines.append(
                f"{one.id}: {one.action} {printable(one.path)}, by {one.source_agent}: "
                f"{one.reasoning}\n{diff}"
            )
        return ToolResult(text="\n\n".join(lines) or "No suggestion waits for you.")

    async def _call(self, arguments: Mapping[str, Any]) -> ToolResult:
        ids, action, reasoning = (arguments[name] for name in ("ids", "action", "reasoning"))
        try:
            done, failed = await self.orchestrate(ids, action, reasoning=reasoning)
        except ParachuteError as error:
            return ToolResult.refusal(error.message)
        lines = [
            f"{one.id}: {one.status}{': ' + one.outcome if one.outcome else ''}" for one in done
        ]
        lines += [f"{name}: {why}" for name, why in failed.items()]
        return ToolResult(text="\n".join(lines), is_error=bool(failed) and not done)
