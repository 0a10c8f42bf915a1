"""Past tools: contexts, suggestions, history, why and undo, by the routes of the API."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any, Literal, cast

from parachuted.access.filter import AccessFilter
from parachuted.access.origin import UNTRUSTED
from parachuted.access.origins import Origins
from parachuted.api import ContextRoutes, HistoryRoutes, RunRoutes, SuggestionRoutes
from parachuted.api.routes.contexts import ChainQuery
from parachuted.api.routes.history import HistoryQuery
from parachuted.api.routes.runs import WhyQuery
from parachuted.api.routes.suggestions import SuggestionsQuery
from parachuted.errors import ActRefusedError
from parachuted.mcp.tools import ToolCall
from parachuted.suggestions import SuggestingRun, suggestion_tool
from parachuted.suggestions.payload import ProposalSink
from parachuted.tools.definitions import an_object, tool
from parachuted.vault import VaultPath, VaultRoot

_CURATOR, _MOST_LISTED = "curator", 200
_VERSION = ("version", "at", "by", "run", "added", "removed")
_RUN = ("agent", "watcher", "started", "outcome")
_SUGGESTION = ("id", "title", "path", "action", "status", "source_agent")
_CONTEXT = ("path", "level", "tokens", "included", "reason")


class PastTools:
    def __init__(
        self,
        *,
        root: VaultRoot,
        origins: Origins,
        suggestions: ProposalSink,
        contexts: ContextRoutes,
        history: HistoryRoutes,
        runs: RunRoutes,
        suggested: SuggestionRoutes,
    ) -> None:
        self._root, self._origins, self._suggestions = root, origins, suggestions
        self._contexts, self._history, self._runs = contexts, history, runs
        self._suggested = suggested

    @tool(
        "Folders with an AGENTS.md, or the context files a folder loads.",
        "vault",
        "read",
        an_object(folders="array", files="array"),
    )
    async def contexts(self, call: ToolCall, folder: str | None = None) -> Mapping[str, object]:
        within = call.within(self._root, "vault", "read")
        if folder is not None:
            chain = await self._contexts.chain(within, ChainQuery(folders=(folder,)))
            return {"files": [_some(one, _CONTEXT) for one in chain["files"]]}
        answer = await self._contexts.folders(within)
        document = json.loads(cast("bytes", answer.body))
        is_tainted = bool(call.client.taint)
        return {
            "folders": [
                one["path"]
                for one in document["folders"]
                if is_tainted or not self._is_strangers(one["context_file"])
            ]
        }

    @tool(
        "Versions of a note.",
        _CURATOR,
        "read",
        an_object("versions", versions="array"),
    )
    async def history(self, call: ToolCall, path: str, limit: int = 20) -> Mapping[str, object]:
        query = HistoryQuery(path=_path(call, path), limit=_between(limit))
        response = await self._history.history(call.within(self._root, _CURATOR, "read"), query)
        return {"versions": [_some(one, _VERSION) for one in response["versions"]]}

    @tool(
        "Who wrote each line of a note, in which run.",
        _CURATOR,
        "read",
        an_object("lines", lines="array", runs="object"),
    )
    async def why(self, call: ToolCall, path: str, line: int | None = None) -> Mapping[str, object]:
        """What a note says may be a stranger's, so it counts as read."""
        place = _path(call, path)
        await call.client.vault.read_with_digest(place)
        query = WhyQuery(path=place, line=line)
        response = await self._runs.why(call.within(self._root, _CURATOR, "read"), query)
        return {
            "lines": list(_spans(cast("list[Mapping[str, Any]]", response["lines"]))),
            "runs": {
                name: self._run_told(run)
                for name, run in cast("Mapping[str, Any]", response["runs"]).items()
                if run is not None
            },
        }

    @tool(
        "Take back a run and what followed from it.",
        _CURATOR,
        "write",
        an_object("paths", paths="array", kept="object", undo="string"),
        is_destructive=True,
    )
    async def undo(self, call: ToolCall, run: str) -> Mapping[str, object]:
        if call.client.taint:
            raise ActRefusedError(
                f"{call.client.taint.why()}, so it may take back nothing; a person can, with "
                f"`parachute undo {run}`"
            )
        within = call.within(self._root, _CURATOR, "write", id=run)
        return cast("Mapping[str, object]", await self._runs.undo(within))

    @tool(
        "Changes that wait for a person.",
        _CURATOR,
        "read",
        an_object("suggestions", suggestions="array", left_out="integer"),
    )
    async def suggestions(self, call: ToolCall, limit: int = 50) -> Mapping[str, object]:
        query = SuggestionsQuery(status="pending", limit=_between(limit))
        response = await self._suggested.listing(call.within(self._root, _CURATOR, "read"), query)
        found = [
            one
            for one in response["suggestions"]
            if call.client.taint or one["origin"] not in UNTRUSTED
        ]
        return {
            "suggestions": [_some(one, _SUGGESTION) for one in found],
            "left_out": len(response["suggestions"]) - len(found),
        }

    @tool(
        "Suggest a change to a person. payload: {text}, {section, content}, {key, value} or {to}.",
        "vault",
        "write",
        an_object("result", result="string"),
    )
    async def suggest(
        self,
        call: ToolCall,
        action: Literal["create", "update", "delete", "link"],
        path: str,
        payload: dict[str, Any],
        reasoning: str,
    ) -> Mapping[str, object]:
        client = call.client
        call.touch(path)
        run = SuggestingRun(
            agent=client.by,
            sees=AccessFilter(self._root, client.authority.reads, for_agents=True).sees,
            origin=lambda: client.taint.origin,
            read=client.seen.digests,
        )
        result = await suggestion_tool(self._suggestions, run).call(
            {"action": action, "path": path, "payload": payload, "reasoning": reasoning}
        )
        if result.is_error:
            raise ActRefusedError(result.text)
        return {"result": result.text}

    def _is_strangers(self, path: str) -> bool:
        return self._origins.of(path) in UNTRUSTED

    def _run_told(self, run: Mapping[str, Any]) -> dict[str, object]:
        """Why a run did what it did may repeat what its agent had read."""
        quotes = run.get("quotes")
        is_clean = isinstance(quotes, list) and not any(map(self._is_strangers, quotes))
        return _some(run, (*_RUN, "reason") if is_clean else _RUN)


def _path(call: ToolCall, path: str) -> VaultPath:
    call.touch(path)
    return VaultPath.parse(path)


def _between(limit: int) -> int:
    return max(1, min(limit, _MOST_LISTED))


def _some(document: Mapping[str, Any], names: Sequence[str]) -> dict[str, object]:
    return {name: document[name] for name in names if document.get(name) is not None}


def _spans(lines: Sequence[Mapping[str, Any]]) -> Iterator[dict[str, object]]:
    """Lines that follow each other and have one author, as one entry."""
    for (by, at, run), group in groupby(lines, lambda line: (line["by"], line["at"], line["run"])):
        several = list(group)
        span = {"from": several[0]["number"], "to": several[-1]["number"], "by": by}
        yield {**span, **({"at": at} if at else {}), **({"run": run} if run else {})}
