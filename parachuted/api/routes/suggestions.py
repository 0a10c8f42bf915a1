"""Suggestions: the routes by which a person sees what agents would change, and decides on it.

A key sees a suggestion if its paths reach every file that it is about, and decides on one if it
could write that file itself. What an agent would write may quote all that it was shown: a key with
paths reads that, and has it written, only where all of it is its own.
"""

from __future__ import annotations

import asyncio
from typing import Annotated

from aiohttp import web
from pydantic import Field
from typing_extensions import TypedDict

from parachuted.api.http.decorators import get, post
from parachuted.api.http.route import ApiCall, RequestModel, Whole, readable, refuse_watching_beyond
from parachuted.errors import ParachuteError
from parachuted.history.run_account import has_ended
from parachuted.suggestions import Status, Suggestion, Suggestions
from parachuted.suggestions.payload import check_payload, text_after
from parachuted.suggestions.suggestion import KEY, USER, SuggestionAction, title_of, to_document
from parachuted.times import Time, time_of
from parachuted.vault import Store, VaultPath, printable

_MODULE = "curator"
_ID = "{id}"


class SuggestionResponse(TypedDict):
    """A suggestion.

    `file`: where a person can tick it; `applied_run`: what `parachute undo` takes back.

    Who may not read the file, or not all that its agent was shown, gets no payload, who may not
    read all of the vault no free words, and who sees some paths no `file` that is not among them.
    """

    id: str
    title: str
    source_agent: str
    source_session: str
    timestamp: Time
    action: SuggestionAction
    target_module: str
    target_id: str | None
    payload: dict[str, object]
    reasoning: str
    status: Status
    resolved_by: str | None
    resolved_at: Time | None
    modifications: dict[str, object] | None
    path: str
    base: str | None
    run: str | None
    causes: list[str]
    origin: str
    applied_run: str | None
    outcome: str
    file: str


class SuggestionDetailResponse(SuggestionResponse):
    """The same with what it would change.

    `text`: the whole new text, where the difference was too long to be shown.
    """

    diff: str
    text: str | None


class AcceptanceResponse(TypedDict):
    """What a person made of one agent's suggestions of one kind; `rate` from 0 to 1."""

    agent: str
    action: SuggestionAction
    approved: int
    modified: int
    rejected: int
    rate: float


class SuggestionsResponse(TypedDict):
    """Suggestions, the newest first; `count` is of all that the query means."""

    suggestions: list[SuggestionResponse]
    count: int
    acceptance: list[AcceptanceResponse]


class ApproveAllResponse(TypedDict):
    """Those that were resolved, and why others were not, by id."""

    resolved: list[SuggestionResponse]
    failed: dict[str, str]


class SuggestionsQuery(RequestModel):
    """Which ones."""

    status: Status | None = None
    agent: Annotated[str, Field(max_length=200)] | None = None
    limit: Annotated[Whole, Field(ge=1, le=1_000)] = 100


class RejectSuggestionRequest(RequestModel):
    """Why not, for the record."""

    reason: Annotated[str, Field(max_length=4_000)] = ""


class ModifySuggestionRequest(RequestModel):
    """What is to be done in place of what was suggested; of the same kind."""

    payload: dict[str, object]


class SuggestionRoutes:
    def __init__(self, suggestions: Suggestions, store: Store) -> None:
        self._suggestions, self._store = suggestions, store

    @get("/api/suggestions", _MODULE, "read", reach="paths")
    async def listing(self, call: ApiCall, query: SuggestionsQuery) -> SuggestionsResponse:
        """List suggested changes, newest first."""
        filed = self._suggestions
        found = [
            one
            for one in filed.all(status=query.status, sees=call.sight.sees)
            if query.agent in {None, one.source_agent}
        ]
        acceptance = filed.acceptance() if call.grant.alternatives is None else []
        shown: SuggestionsResponse = {
            "suggestions": [self._shown(call, one) for one in found[: query.limit]],
            "count": len(found),
            "acceptance": [
                {
                    "agent": one.agent,
                    "action": one.action,
                    "approved": one.approved,
                    "modified": one.modified,
                    "rejected": one.rejected,
                    "rate": round(one.rate, 4),
                }
                for one in acceptance
            ],
        }
        return shown

    @get(f"/api/suggestions/{_ID}", _MODULE, "read", reach="paths")
    async def one(self, call: ApiCall, id_: str) -> SuggestionDetailResponse:
        """One suggestion, with its diff."""
        record = self._suggestions.record(id_, sees=call.sight.sees)
        whole: SuggestionDetailResponse = {
            **self._shown(call, record.suggestion),
            "diff": record.shown.diff if self._reads(call, record.suggestion) else "",
            "text": record.shown.text if self._reads(call, record.suggestion) else None,
        }
        return whole

    @post(f"/api/suggestions/{_ID}/approve", _MODULE, "write", reach="paths")
    async def approve(self, call: ApiCall) -> SuggestionResponse:
        """Apply a suggestion."""
        suggestion = await self._theirs(call)
        return self._shown(
            call,
            await self._suggestions.approve(suggestion.id, by=_by(call), caller=call.caller),
        )

    @post(f"/api/suggestions/{_ID}/reject", _MODULE, "write", reach="paths")
    async def reject(self, call: ApiCall, body: RejectSuggestionRequest) -> SuggestionResponse:
        """Reject a suggestion."""
        suggestion = self._seen(call)
        return self._shown(
            call,
            await self._suggestions.reject(
                suggestion.id, by=_by(call), reason=body.reason, caller=call.caller
            ),
        )

    @post(f"/api/suggestions/{_ID}/modify", _MODULE, "write", reach="paths")
    async def modify(self, call: ApiCall, body: ModifySuggestionRequest) -> SuggestionResponse:
        """Apply a suggestion with a modified payload."""
        suggestion = await self._theirs(call, body.payload)
        return self._shown(
            call,
            await self._suggestions.modify(
                suggestion.id, body.payload, by=_by(call), caller=call.caller
            ),
        )

    @post("/api/suggestions/approve-all", _MODULE, "write", reach="paths")
    async def approve_all(self, call: ApiCall) -> ApproveAllResponse:
        """Approve all pending suggestions, oldest first."""
        filed, failed, done = self._suggestions, dict[str, str](), list[Suggestion]()
        for one in filed.all(status="pending", sees=call.sight.sees)[::-1]:
            try:
                await self._check(call, one, one.payload)
            except (web.HTTPForbidden, ParachuteError) as error:
                failed[one.id] = (
                    error.message if isinstance(error, ParachuteError) else str(error.text)
                )
                continue
            resolved, more = await filed.approve_all(
                by=_by(call), only={one.id}, caller=call.caller
            )
            done += resolved
            failed |= more
        answer: ApproveAllResponse = {
            "resolved": [self._shown(call, one) for one in done],
            "failed": failed,
        }
        return answer

    def _seen(self, call: ApiCall) -> Suggestion:
        suggestion = self._suggestions.get(call.named("id"), sees=call.sight.sees)
        call.touched.extend(self._suggestions.paths_of(suggestion))
        if suggestion.target_id:
            call.para_ids.append(suggestion.target_id)
        return suggestion

    async def _theirs(self, call: ApiCall, payload: dict[str, object] | None = None) -> Suggestion:
        """The suggestion, if the caller could do that too. 403 when not."""
        suggestion = self._seen(call)
        await self._check(
            call,
            suggestion,
            suggestion.payload if payload is None else check_payload(suggestion.action, payload),
        )
        return suggestion

    async def _check(self, call: ApiCall, suggestion: Suggestion, payload: object) -> None:
        grant = call.identity.grant("vault", "write")
        paths = self._suggestions.paths_of(suggestion)
        if grant is None or not all(map(grant.sees, paths)):
            raise web.HTTPForbidden(
                text=f"this key may not write {printable(paths[0]) if paths else 'that'}, so it "
                "cannot approve it"
            )
        if payload == suggestion.payload and not await asyncio.to_thread(
            self._quotes_theirs, call, suggestion
        ):
            raise web.HTTPForbidden(
                text="its agent was shown notes that this key may not see; only a key that may see "
                "the whole vault can approve it"
            )
        for one in self._suggestions.parts_of(suggestion):
            await asyncio.to_thread(
                self._refuse_watching, call, one, payload if one is suggestion else one.payload
            )

    def _refuse_watching(self, call: ApiCall, suggestion: Suggestion, payload: object) -> None:
        """Neither may it have a note watch what the caller may not read."""
        if not isinstance(payload, dict) or suggestion.action == "delete":
            return
        path = VaultPath(suggestion.path)
        refuse_watching_beyond(
            readable(call.identity),
            self._store,
            path,
            lambda before: text_after(suggestion.action, payload, before) or b"",
        )

    def _reads(self, call: ApiCall, suggestion: Suggestion) -> bool:
        """That a file would be changed is the curator's matter; what it says is the vault's."""
        return all(
            map(call.reading.sees, self._suggestions.paths_of(suggestion))
        ) and self._quotes_theirs(call, suggestion)

    def _quotes_theirs(self, call: ApiCall, suggestion: Suggestion) -> bool:
        """Whether every note that the agents were shown exists for the caller; of a run that goes
        on it is not known yet.
        """
        if call.grant.alternatives is None:
            return True
        runs = [
            self._store.history.run(one.run)
            for one in (suggestion, *self._suggestions.parts_of(suggestion))
            if one.run
        ]
        return all(
            run is not None and has_ended(run) and call.runs.sees_quoted(run) for run in runs
        )

    def _shown(self, call: ApiCall, suggestion: Suggestion) -> SuggestionResponse:
        """Words of agents and persons may repeat any note, so they are for who sees and reads all
        of the vault.
        """
        resolved = suggestion.resolved_at
        document = to_document(suggestion) | {
            "timestamp": time_of(suggestion.timestamp),
            "resolved_at": time_of(resolved) if resolved is not None else None,
        }
        if not self._reads(call, suggestion):
            document |= {"payload": {}, "modifications": None}
        if not call.runs.is_everything:
            document |= {
                "reasoning": "",
                "outcome": "" if suggestion.status == "rejected" else suggestion.outcome,
            }
        file = self._suggestions.record(suggestion.id).file
        file = printable(file) if call.grant.alternatives is None or call.sight.sees(file) else ""
        return {
            **document,  # type: ignore[typeddict-item]
            "path": printable(suggestion.path),
            "title": title_of(suggestion),
            "file": file,
        }


def _by(call: ApiCall) -> str:
    """Who may write some files speaks for these alone: it says nothing of whether an agent needs
    asking anywhere else.
    """
    grant = call.identity.grant("vault", "write")
    return (
        USER
        if grant is not None and grant.alternatives is None
        else f"{KEY}{printable(call.identity.name)}"
    )
