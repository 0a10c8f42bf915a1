"""Note tools: reading, finding and changing notes through the client's bounded vault; contexts,
suggestions, history, why and undo by the routes of the API.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
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
from parachuted.errors import ActRefusedError, NotFoundError
from parachuted.mcp.tools import ToolCall, an_object, served
from parachuted.suggestions import SuggestingRun, suggestion_tool
from parachuted.suggestions.payload import ProposalSink
from parachuted.times import time_of
from parachuted.vault import VaultPath, VaultRoot, parse_note

_MOST_LISTED = 500
_MOST_FOUND = 50
_LARGEST_TEXT = 256 << 10

_WRITTEN = an_object("path", "digest", path="string", digest="string", run="string")
_STRANGERS = (
    "notes of strangers are left out; read_note reads one, and from then on what you would write "
    "is suggested to a person"
)


class ServedNoteTools:
    """The tools over notes. What a client has read is what its edits are based on."""

    @served(
        "Read a note, or one section of it.",
        "vault",
        "read",
        takes=an_object("path", path="string", section="string"),
        answers=an_object("path", "text", path="string", digest="string", text="string"),
    )
    async def read_note(self, call: ToolCall) -> object:
        path, client = call.path(), call.client
        data, digest = await client.vault.read_with_digest(path)
        section = call.text("section")
        if section:
            note = parse_note(data)
            found = note.section(section)
            if found is None:
                titles = ", ".join(one.title for one in note.sections)
                raise NotFoundError(f"{path} has no section {section[:80]}; it has {titles}")
            data = data[found.start : found.stop]
        is_cut = len(data) > _LARGEST_TEXT
        client.saw(path, digest, is_whole=not (section or is_cut))
        text = data[:_LARGEST_TEXT].decode("utf-8", "replace")
        more = {"truncated": True} if is_cut else {}
        return {"path": path, "digest": digest, "text": text, **more}

    @served(
        "List notes; order: a key, path, title or modified; - descends.",
        "vault",
        "read",
        takes=an_object(
            folder="string",
            tag="string",
            where="object",
            order="string",
            limit="integer",
            cursor="string",
        ),
        answers=an_object("notes", notes="array", next="string", note="string"),
    )
    async def list_notes(self, call: ToolCall) -> object:
        vault, where = call.client.vault, call.given.get("where")
        page = await vault.notes(
            call.text("folder"),
            tag=call.text("tag") or None,
            where=where if isinstance(where, dict) else None,
            order=call.text("order") or "path",
            limit=call.number("limit", 100, _MOST_LISTED),
            cursor=call.text("cursor") or None,
        )
        left_out = vault.strangers_left_out
        return {
            "notes": [
                {"path": one.path, "title": one.title, "modified": time_of(one.modified)}
                for one in page.notes
            ],
            **({"next": page.next} if page.next else {}),
            **({"note": f"{left_out} {_STRANGERS}"} if left_out else {}),
        }

    @served(
        'Search by words, "phrases", begin*, tag:x, -without.',
        "vault",
        "read",
        takes=an_object("query", query="string", limit="integer"),
        answers=an_object("hits", hits="array", note="string"),
    )
    async def search_notes(self, call: ToolCall) -> object:
        vault = call.client.vault
        hits = await vault.search(call.text("query"), call.number("limit", 20, _MOST_FOUND))
        left_out = vault.strangers_left_out
        return {
            "hits": [
                {"path": hit.path, "title": hit.title, "snippet": hit.snippet} for hit in hits
            ],
            **({"note": f"{left_out} {_STRANGERS}"} if left_out else {}),
        }

    @served(
        "Create a note, or replace one that you have read.",
        "vault",
        "write",
        takes=an_object("path", "text", path="string", text="string"),
        answers=_WRITTEN,
        is_destructive=True,
        is_idempotent=True,
    )
    async def write_note(self, call: ToolCall) -> object:
        path, text, client = call.path(), call.text("text"), call.client
        base = client.base(path, is_whole=True)
        if base is None and await client.vault.exists(path):
            raise NotFoundError(
                f"{path} is there already, and you have not read it; read it, then decide what its "
                "whole text is to be"
            )
        return await self._written(
            call,
            "wrote",
            lambda: (
                client.vault.create(path, text)
                if base is None
                else client.vault.write(path, text, base=base)
            ),
        )

    @served(
        "Replace a section, or append to it; made if missing.",
        "vault",
        "write",
        takes=an_object(
            "path",
            "section",
            "text",
            path="string",
            section="string",
            text="string",
            append="boolean",
        ),
        answers=_WRITTEN,
        is_destructive=True,
    )
    async def edit_section(self, call: ToolCall) -> object:
        path, section, text = (
            call.path(),
            call.text("section"),
            call.text("text"),
        )
        vault, base = call.client.vault, call.client.base(path)
        if call.given.get("append") is True:
            return await self._written(
                call, "added to", lambda: vault.append(path, section, text), is_seen=False
            )
        return await self._written(
            call, "edited", lambda: vault.replace_section(path, section, text, base=base)
        )

    @served(
        "Set a frontmatter key; null removes it.",
        "vault",
        "write",
        takes=an_object("path", "key", "value", path="string", key="string", value={}),
        answers=_WRITTEN,
        is_destructive=True,
        is_idempotent=True,
    )
    async def set_key(self, call: ToolCall) -> object:
        path, key = call.path(), call.text("key")
        vault = call.client.vault
        return await self._written(
            call,
            f"set {key[:80]} in",
            lambda: vault.set_key(path, key, call.given["value"]),
            is_seen=False,
        )

    @served(
        "Move a note; links to it follow.",
        "vault",
        "write",
        takes=an_object("path", "to", path="string", to="string"),
        answers=_WRITTEN,
    )
    async def move_note(self, call: ToolCall) -> object:
        path, target, client = call.path(), call.path("to"), call.client
        async with client.writing("moved", path, call.api.id) as record:
            digest = await client.vault.move(path, target)
        client.forget(path)
        return {"path": target, "digest": digest, "run": record.run}

    async def _written(
        self, call: ToolCall, what: str, act: Callable[[], Awaitable[str]], *, is_seen: bool = True
    ) -> object:
        """`is_seen`: the client knows the whole text that it leaves."""
        path, client = call.text("path"), call.client
        async with client.writing(what, path, call.api.id) as record:
            digest = await act()
        if is_seen:
            client.saw(path, digest)
        else:
            client.forget(path)
        return {"path": path, "digest": digest, "run": record.run}


_CURATOR = "curator"
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

    @served(
        "Folders with an AGENTS.md, or the context files a folder loads.",
        "vault",
        "read",
        takes=an_object(folder="string"),
        answers=an_object(folders="array", files="array"),
    )
    async def contexts(self, call: ToolCall) -> object:
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

    @served(
        "Versions of a note.",
        _CURATOR,
        "read",
        takes=an_object("path", path="string", limit="integer"),
        answers=an_object("versions", versions="array"),
    )
    async def history(self, call: ToolCall) -> object:
        query = HistoryQuery(path=_path(call), limit=call.number("limit", 20, 200))
        response = await self._history.history(call.within(self._root, _CURATOR, "read"), query)
        return {"versions": [_some(one, _VERSION) for one in response["versions"]]}

    @served(
        "Who wrote each line of a note, in which run.",
        _CURATOR,
        "read",
        takes=an_object("path", path="string", line="integer"),
        answers=an_object("lines", lines="array", runs="object"),
    )
    async def why(self, call: ToolCall) -> object:
        """What a note says may be a stranger's, so it counts as read."""
        path, line = _path(call), call.given.get("line")
        await call.client.vault.read_with_digest(path)
        query = WhyQuery(path=path, line=line if isinstance(line, int) else None)
        response = await self._runs.why(call.within(self._root, _CURATOR, "read"), query)
        return {
            "lines": list(_spans(cast("list[Mapping[str, Any]]", response["lines"]))),
            "runs": {
                name: self._run_told(run)
                for name, run in cast("Mapping[str, Any]", response["runs"]).items()
                if run is not None
            },
        }

    @served(
        "Take back a run and what followed from it.",
        _CURATOR,
        "write",
        takes=an_object("run", run="string"),
        answers=an_object("paths", paths="array", kept="object", undo="string"),
        is_destructive=True,
    )
    async def undo(self, call: ToolCall) -> object:
        if call.client.taint:
            raise ActRefusedError(
                f"{call.client.taint.why()}, so it may take back nothing; a person can, with "
                f"`parachute undo {call.text('run')}`"
            )
        within = call.within(self._root, _CURATOR, "write", id=call.text("run"))
        return await self._runs.undo(within)

    @served(
        "Changes that wait for a person.",
        _CURATOR,
        "read",
        takes=an_object(limit="integer"),
        answers=an_object("suggestions", suggestions="array", left_out="integer"),
    )
    async def suggestions(self, call: ToolCall) -> object:
        query = SuggestionsQuery(status="pending", limit=call.number("limit", 50, 200))
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

    @served(
        "Suggest a change to a person. payload: {text}, {section, content}, {key, value} or {to}.",
        "vault",
        "write",
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
    )
    async def suggest(self, call: ToolCall) -> object:
        client, path = call.client, call.path()
        base = client.base(path)
        run = SuggestingRun(
            agent=client.by,
            sees=AccessFilter(self._root, client.authority.reads, for_agents=True).sees,
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
