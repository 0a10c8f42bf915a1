"""Past tools: contexts, suggestions, history, why and undo, by the routes of the API."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any, cast

from parachuted.access.filter import AccessFilter
from parachuted.access.origin import UNTRUSTED
from parachuted.access.origins import Origins
from parachuted.api import ContextRoutes, HistoryRoutes, RunRoutes, SuggestionRoutes
from parachuted.api.routes.contexts import ChainQuery
from parachuted.api.routes.history import HistoryQuery
from parachuted.api.routes.runs import WhyQuery
from parachuted.api.routes.suggestions import SuggestionsQuery
from parachuted.errors import ActRefusedError
from parachuted.mcp_server.tools import ServedTool, ToolCall, an_object
from parachuted.suggestions import SuggestingRun, suggestion_tool
from parachuted.suggestions.payload import ProposalSink
from parachuted.vault import VaultPath, VaultRoot

_MODULE = "curator"
_MOST = 50
_VERSION = ("version", "at", "by", "run", "added", "removed")
_RUN = ("agent", "watcher", "started", "outcome")
_SUGGESTION = ("id", "title", "path", "action", "status", "source_agent")
_CONTEXT = ("path", "level", "tokens", "included", "reason")


class PastTools:
    """The tools over what was and what is proposed."""

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
        self._tools = self._make()

    def tools(self) -> Sequence[ServedTool]:
        """The tools."""
        return self._tools

    def _make(self) -> tuple[ServedTool, ...]:
        return (
            ServedTool(
                name="contexts",
                description="Folders with an AGENTS.md, or the context files a folder loads.",
                takes=an_object(folder="string"),
                answers=an_object(folders="array", files="array"),
                module="vault",
                capability="read",
                call=self._list_contexts,
            ),
            ServedTool(
                name="history",
                description="Versions of a note.",
                takes=an_object("path", path="string", limit="integer"),
                answers=an_object("versions", versions="array"),
                module=_MODULE,
                capability="read",
                call=self._list_versions,
            ),
            ServedTool(
                name="why",
                description="Who wrote each line of a note, in which run.",
                takes=an_object("path", path="string", line="integer"),
                answers=an_object("lines", lines="array", runs="object"),
                module=_MODULE,
                capability="read",
                call=self._explain,
            ),
            ServedTool(
                name="undo",
                description="Take back a run and what followed from it.",
                takes=an_object("run", run="string"),
                answers=an_object("paths", paths="array", kept="object", undo="string"),
                module=_MODULE,
                capability="write",
                call=self._undo,
                is_destructive=True,
            ),
            ServedTool(
                name="suggestions",
                description="Changes that wait for a person.",
                takes=an_object(limit="integer"),
                answers=an_object("suggestions", suggestions="array", left_out="integer"),
                module=_MODULE,
                capability="read",
                call=self._list_suggestions,
            ),
            ServedTool(
                name="suggest",
                description="Suggest a change to a person. payload: {text}, {section, content}, "
                "{key, value} or {to}.",
                takes=an_object(
                    "action",
                    "path",
                    "payload",
                    "reasoning",
                    action={"enum": ["create", "update", "delete", "link"]},
                    path="string",
                    payload="object",
                    reasoning="string",
                ),
                answers=an_object("result", result="string"),
                module="vault",
                capability="write",
                call=self._suggest,
            ),
        )

    async def _list_contexts(self, call: ToolCall) -> object:
        within = call.within(self._root, "vault", "read")
        folder = call.given.get("folder")
        if isinstance(folder, str):
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

    async def _list_versions(self, call: ToolCall) -> object:
        query = HistoryQuery(path=_path(call), limit=call.number("limit", 20, 200))
        told = await self._history.history(call.within(self._root, _MODULE, "read"), query)
        return {"versions": [_some(one, _VERSION) for one in told["versions"]]}

    async def _explain(self, call: ToolCall) -> object:
        """What a note says may be a stranger's, so it counts as read."""
        path, line = _path(call), call.given.get("line")
        await call.client.vault.read_with_digest(path)
        query = WhyQuery(path=path, line=line if isinstance(line, int) else None)
        told = await self._runs.why(call.within(self._root, _MODULE, "read"), query)
        return {
            "lines": list(_spans(cast("list[Mapping[str, Any]]", told["lines"]))),
            "runs": {
                name: self._run_told(run)
                for name, run in cast("Mapping[str, Any]", told["runs"]).items()
                if run is not None
            },
        }

    async def _undo(self, call: ToolCall) -> object:
        if call.client.taint:
            raise ActRefusedError(
                f"{call.client.taint.why()}, so it may take back nothing; a person can, with "
                f"`parachute undo {call.text('run')}`"
            )
        within = call.within(self._root, _MODULE, "write", id=call.text("run"))
        return await self._runs.undo(within)

    async def _list_suggestions(self, call: ToolCall) -> object:
        query = SuggestionsQuery(status="pending", limit=call.number("limit", _MOST, 200))
        told = await self._suggested.listing(call.within(self._root, _MODULE, "read"), query)
        found = [
            one
            for one in told["suggestions"]
            if call.client.taint or one["origin"] not in UNTRUSTED
        ]
        return {
            "suggestions": [_some(one, _SUGGESTION) for one in found],
            "left_out": len(told["suggestions"]) - len(found),
        }

    async def _suggest(self, call: ToolCall) -> object:
        client, path = call.client, call.path()
        base = client.base(path)
        run = SuggestingRun(
            agent=client.by,
            sees=AccessFilter(self._root, client.authority.reads).sees,
            origin=lambda: client.taint.origin,
            read={} if base is None else {path: base},
        )
        result = await suggestion_tool(self._suggestions, run).call(call.given)
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


def _path(call: ToolCall) -> VaultPath:
    return VaultPath.parse(call.path())


def _some(document: Mapping[str, Any], names: Sequence[str]) -> dict[str, object]:
    return {name: document[name] for name in names if document.get(name) is not None}


def _spans(lines: Sequence[Mapping[str, Any]]) -> Iterator[dict[str, object]]:
    """Lines that follow each other and have one author, as one entry."""
    for (by, at, run), group in groupby(lines, lambda line: (line["by"], line["at"], line["run"])):
        several = list(group)
        span = {"from": several[0]["number"], "to": several[-1]["number"], "by": by}
        yield {**span, **({"at": at} if at else {}), **({"run": run} if run else {})}
