"""Vault tools: history, undo and suggestions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any, Literal

from pydantic import TypeAdapter

from parachuted.api import HistoryRoutes, RunRoutes
from parachuted.errors import ActRefusedError, EditRefusedError, ParachuteError
from parachuted.mcp.clients import ClientSources
from parachuted.mcp.tools import ToolCall
from parachuted.suggestions import suggestion_tool
from parachuted.tools.definitions import tool
from parachuted.vault import VaultPath

_CURATOR, _MOST_LISTED, _HEAD = "curator", 200, 256 << 10
_MOST_LINES = 10_000_000
_VERSION = ("version", "at", "by", "run", "added", "removed")
_RUN = ("agent", "watcher", "started", "outcome")


class VaultTools:
    def __init__(
        self,
        sources: ClientSources,
        *,
        history: HistoryRoutes,
        runs: RunRoutes,
    ) -> None:
        self._root, self._strangers = sources.vaults.store.root, sources.vaults.strangers
        self._history, self._runs = history, runs

    @tool("Versions of a note.", _CURATOR, "read", for_path_keys=True)
    async def history(self, call: ToolCall, path: str, limit: int = 20) -> Mapping[str, object]:
        call.touch(path)
        within, most = call.within(_CURATOR, "read"), max(1, min(limit, _MOST_LISTED))
        history = await self._history.history(within, VaultPath.parse(path), most)
        versions = _document(history)["versions"]
        return {"versions": [_some(version, _VERSION) for version in versions]}

    @tool("Who wrote each line of a note, in which run.", _CURATOR, "read")
    async def why(self, call: ToolCall, path: str, line: int | None = None) -> Mapping[str, object]:
        """What a note says may be a stranger's, so it counts as read."""
        call.touch(path)
        place = VaultPath.parse(path)
        if line is not None and not 1 <= line <= _MOST_LINES:
            raise EditRefusedError(f"there is no line {line}; the first is 1")
        await call.client.vault.read_with_digest(place)
        within = call.within(_CURATOR, "read")
        found = _document(await self._runs.why(within, place, line))
        runs = {name: self._shown(run) for name, run in found["runs"].items() if run is not None}
        return {"lines": list(_spans(found["lines"])), "runs": runs}

    @tool("Take back a run and what followed from it.", _CURATOR)
    async def undo(self, call: ToolCall, run: str) -> Mapping[str, object]:
        if call.client.taint:
            raise ActRefusedError(
                f"{call.client.taint.why()}, so it may take back nothing; a person can, with "
                f"`parachute undo {run}`"
            )
        return _document(await self._runs.undo(call.within(_CURATOR, "write"), run))

    @tool(
        "Suggest a change to a person. payload: {text}, {section, content}, {key, value} or {to}.",
        "vault",
    )
    async def suggest(
        self,
        call: ToolCall,
        action: Literal["create", "update", "delete", "link"],
        path: str,
        payload: dict[str, Any],
        reasoning: str,
    ) -> Mapping[str, object]:
        call.touch(path)
        suggestions = call.client.suggestions
        proposed = {"action": action, "path": path, "payload": payload, "reasoning": reasoning}
        result = await suggestion_tool(suggestions, suggestions.run).call(proposed)
        if result.is_error:
            raise ActRefusedError(result.text)
        return {"result": result.text}

    def _is_strangers(self, path: str) -> bool:
        try:
            data, _size = self._root.read_head(VaultPath.parse(path), _HEAD)
        except ParachuteError:  # it is gone, so what it said is unknown
            return True
        return self._strangers.is_text(path, data)

    def _shown(self, run: Mapping[str, Any]) -> dict[str, object]:
        """Its reason may repeat a stranger's text that it had read."""
        names = [run["watcher"], *(note["path"] for note in (*run["reviewed"], *run["wrote"]))]
        names += [note["source"] for note in run["reviewed"] if note["source"]]
        is_clean = bool(run["wrote"]) and not any(map(self._is_strangers, names))
        return _some(run, (*_RUN, "reason") if is_clean else _RUN)


def _document(answer: object) -> dict[str, Any]:
    """What the API would answer."""
    document: dict[str, Any] = TypeAdapter(type(answer)).dump_python(answer, mode="json")
    return document


def _some(document: Mapping[str, Any], names: Sequence[str]) -> dict[str, object]:
    return {name: document[name] for name in names if document.get(name) is not None}


def _spans(lines: Sequence[Mapping[str, Any]]) -> Iterator[dict[str, object]]:
    for (by, at, run), group in groupby(lines, lambda line: (line["by"], line["at"], line["run"])):
        several = list(group)
        span = {"from": several[0]["number"], "to": several[-1]["number"], "by": by}
        yield {**span, **({"at": at} if at else {}), **({"run": run} if run else {})}
