"""Suggestions: what agents would change, and a person's decision on it.

A key decides on one if it could write that file itself.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, fields
from typing import Annotated, Any

from pydantic import Field

from parachuted.api.http.decorators import get, post
from parachuted.api.http.route import ApiCall, RequestModel, Whole, refuse_watching_beyond
from parachuted.errors import ActRefusedError
from parachuted.keys import EVERYWHERE
from parachuted.suggestions import Status, Suggestion, Suggestions
from parachuted.suggestions.payload import check_payload, text_after
from parachuted.suggestions.suggestion import KEY, USER, title_of
from parachuted.vault import PathText, Store, VaultPath, printable

_MODULE = "curator"
_ID = "{id}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedSuggestion(Suggestion):
    """`file`: where a person can tick it."""

    title: str
    file: PathText


@dataclass(frozen=True, slots=True, kw_only=True)
class SuggestionDetail(ListedSuggestion):
    """`text`: the whole new text, where the difference was too long to be shown."""

    diff: str
    text: str | None


@dataclass(frozen=True, slots=True)
class SuggestionList:
    """Newest first; `count` is of all that the query means."""

    suggestions: list[ListedSuggestion]
    count: int


@dataclass(frozen=True, slots=True)
class ResolvedSuggestions:
    """Those that were resolved, and why others were not, by id."""

    resolved: list[ListedSuggestion]
    failed: dict[str, str]


class RejectSuggestionRequest(RequestModel):
    reason: Annotated[str, Field(max_length=4_000)] = ""


class ModifySuggestionRequest(RequestModel):
    """Of the same kind as what was suggested."""

    payload: dict[str, object]


class SuggestionRoutes:
    def __init__(self, suggestions: Suggestions, store: Store) -> None:
        self._suggestions, self._store = suggestions, store

    @get("/api/suggestions", _MODULE, "read")
    async def listing(
        self,
        status: Status | None = None,
        agent: Annotated[str, Field(max_length=200)] | None = None,
        limit: Annotated[Whole, Field(ge=1, le=1_000)] = 100,
    ) -> SuggestionList:
        """List suggested changes, newest first."""
        suggestions = [
            suggestion
            for suggestion in self._suggestions.all(status=status)
            if agent in {None, suggestion.source_agent}
        ]
        return SuggestionList(list(map(self._listed, suggestions[:limit])), len(suggestions))

    @get(f"/api/suggestions/{_ID}", _MODULE, "read")
    async def one(self, id_: str) -> SuggestionDetail:
        """One suggestion, with its diff."""
        record = self._suggestions.record(id_)
        listed = self._listed(record.suggestion)
        return SuggestionDetail(**_fields(listed), diff=record.diff, text=record.text)

    @post(f"/api/suggestions/{_ID}/approve", _MODULE, "write")
    async def approve(self, call: ApiCall) -> ListedSuggestion:
        """Apply a suggestion."""
        suggestion = await self._theirs(call)
        return self._listed(
            await self._suggestions.approve(suggestion.id, by=_by(call), requester=call.requester)
        )

    @post(f"/api/suggestions/{_ID}/reject", _MODULE, "write")
    async def reject(self, call: ApiCall, body: RejectSuggestionRequest) -> ListedSuggestion:
        """Reject a suggestion."""
        suggestion = self._seen(call)
        return self._listed(
            await self._suggestions.reject(
                suggestion.id, by=_by(call), reason=body.reason, requester=call.requester
            )
        )

    @post(f"/api/suggestions/{_ID}/modify", _MODULE, "write")
    async def modify(self, call: ApiCall, body: ModifySuggestionRequest) -> ListedSuggestion:
        """Apply a suggestion with a modified payload."""
        suggestion = await self._theirs(call, body.payload)
        return self._listed(
            await self._suggestions.modify(
                suggestion.id, body.payload, by=_by(call), requester=call.requester
            )
        )

    @post("/api/suggestions/approve-all", _MODULE, "write")
    async def approve_all(self, call: ApiCall) -> ResolvedSuggestions:
        """Approve all pending suggestions, oldest first."""
        done, failed = await self._suggestions.approve_all(
            by=_by(call),
            only={waiting.id for waiting in self._suggestions.all(status="pending")},
            check=lambda waiting: self._check(call, waiting, waiting.payload),
            requester=call.requester,
        )
        return ResolvedSuggestions(list(map(self._listed, done)), failed)

    def _seen(self, call: ApiCall) -> Suggestion:
        suggestion = self._suggestions.get(call.named("id"))
        call.touched.extend(self._suggestions.paths_of(suggestion))
        if suggestion.target_id:
            call.para_ids.append(suggestion.target_id)
        return suggestion

    async def _theirs(self, call: ApiCall, payload: dict[str, object] | None = None) -> Suggestion:
        """The suggestion, if the caller could do that too. Raises ActRefusedError."""
        suggestion = self._seen(call)
        await self._check(
            call,
            suggestion,
            suggestion.payload if payload is None else check_payload(suggestion.action, payload),
        )
        return suggestion

    async def _check(self, call: ApiCall, suggestion: Suggestion, payload: object) -> None:
        paths = self._suggestions.paths_of(suggestion)
        if not all(map(call.writing.sees, paths)):
            raise ActRefusedError(
                f"this key may not write {printable(paths[0]) if paths else 'that'}, so it cannot "
                "approve it"
            )
        for part in self._suggestions.parts_of(suggestion):
            await asyncio.to_thread(
                self._refuse_watching, call, part, payload if part is suggestion else part.payload
            )

    def _refuse_watching(self, call: ApiCall, suggestion: Suggestion, payload: object) -> None:
        if not isinstance(payload, dict) or suggestion.action == "delete":
            return
        path = VaultPath(suggestion.path)
        refuse_watching_beyond(
            call.reading,
            self._store,
            path,
            lambda before: text_after(suggestion.action, payload, before) or b"",
        )

    def _listed(self, suggestion: Suggestion) -> ListedSuggestion:
        file = self._suggestions.record(suggestion.id).file
        return ListedSuggestion(**_fields(suggestion), title=title_of(suggestion), file=file)


def _fields(suggestion: Suggestion) -> dict[str, Any]:
    return {field.name: getattr(suggestion, field.name) for field in fields(suggestion)}


def _by(call: ApiCall) -> str:
    """A key for some files speaks for these alone: it does not change what agents must ask for."""
    return USER if call.writing == EVERYWHERE else f"{KEY}{printable(call.identity.name)}"
