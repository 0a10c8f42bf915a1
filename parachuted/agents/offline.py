"""The `offline` backend: no model, no network, no cost. It keeps a digest of what is watched, and says that it did."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterator

from parachuted.agents.calling import call_tool
from parachuted.agents.digest import (
    MOST_NOTES,
    SECTION,
    Extract,
    extract_note,
    is_foreign,
    is_same,
    name_of,
    plain,
    with_what_stands_below,
    write_digest,
    write_history,
)
from parachuted.agents.job import Called, Finished, Job, Said, Step
from parachuted.errors import AgentFailedError
from parachuted.vault import Note, parse_note

_READ_CHARS = 1_000_000


class OfflineBackend:
    """Does a curator's job by extraction: the same vault and job give the same bytes."""

    name = "offline"

    async def run(self, job: Job) -> AsyncIterator[Step]:
        run = _Run(job)
        async for step in run.steps():
            yield step
        yield Finished(cost_usd=0.0, input_tokens=0, output_tokens=0, turns=run.calls)

    async def close(self) -> None:
        """Nothing runs on."""


class _Run:
    """One job's work."""

    def __init__(self, job: Job) -> None:
        self.calls = 0
        self._job = job
        self._deadline = asyncio.get_running_loop().time() + job.limits.timeout_s

    async def steps(self) -> AsyncIterator[Step]:
        """Read what is watched, then write the digest if it says something new, and a line of History for each change."""
        listing = await self._call("list_context_files")
        yield listing
        watched = sorted(_watched(_require(listing)), key=lambda told: told.path)
        extracts = []
        for told in watched[:MOST_NOTES]:
            read = await self._call("read_context", file_path=told.path)
            yield read
            extracts.append(told if read.result.is_error else extract_note(told.path, read.result.text[:_READ_CHARS]))
        own = await self._call("read_context", file_path=self._job.watcher)
        yield own
        note = parse_note(_require(own).encode("utf-8", "surrogateescape"))
        if is_foreign(note):
            yield Said(text=f"The section {SECTION} of {self._job.watcher} is not kept by the offline agent, so it is left as it is.")
        updates = list(self._updates(note, extracts + watched[MOST_NOTES:]))
        for section, content in updates:
            written = await self._call("update_context", file_path=self._job.watcher, section=section, content=content)
            yield written
            _require(written)
        if not updates:
            yield await self._call("no_change", reason="what is watched says nothing new")

    def _updates(self, note: Note, extracts: list[Extract]) -> Iterator[tuple[str, str]]:
        """Yield sections and their new texts. History comes last: it only grows, so a run that is repeated must not get that far."""
        job = self._job
        digest = with_what_stands_below(note, write_digest(job.watcher, extracts))
        if not is_foreign(note) and not is_same(note, digest):
            yield SECTION, digest
        changes = [change for change in job.changes if change.kind != "unchanged"]
        if changes:
            yield "History", write_history(job.watcher, changes, {extract.path: extract.title for extract in extracts}, job.at)

    async def _call(self, tool: str, **arguments: object) -> Called:
        self.calls += 1
        try:
            async with asyncio.timeout_at(self._deadline):
                called = Called(tool=tool, arguments=arguments, result=await call_tool(self._job.tools, tool, arguments))
        except TimeoutError as error:
            raise AgentFailedError("the offline agent ran out of time") from error
        if (reason := self._job.ended()) is not None:
            raise AgentFailedError(reason)
        return called


def _require(called: Called) -> str:
    if called.result.is_error:
        raise AgentFailedError(f"{called.tool}: {called.result.text}")
    return called.result.text


def _watched(listing: str) -> Iterator[Extract]:
    """Yield the watched files of the listing, as far as it tells of them."""
    try:
        files = json.loads(listing)
    except ValueError as error:
        raise AgentFailedError("list_context_files did not answer with JSON") from error
    for file in files if isinstance(files, list) else ():
        path = file.get("path") if isinstance(file, dict) and file.get("level") != "self" else None
        if isinstance(path, str):
            title, description = plain(str(file.get("title") or "")), plain(str(file.get("description") or ""))
            yield Extract(path=path, title=title or name_of(path), description=description, focus=())
