"""The `offline` backend: no model, no network, no cost. It keeps a digest of what is watched."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterator

from parachuted.agents.calling import call_tool
from parachuted.agents.digest import (
    MOST_NOTES,
    SECTION,
    compose,
    is_foreign,
    is_same,
    is_switched_off,
    write_digest,
    write_history,
)
from parachuted.agents.extract import Extract, LinkStyle, extract_note, link_style, name_of, plain
from parachuted.agents.job import Job, RunResult, Step, TextDelta, TextStep, ToolCallStep
from parachuted.errors import AgentFailedError
from parachuted.vault import parse_note

NO_MODEL = (
    "There is no model here, so I cannot answer. `parachute auth status` says what to do; then ask "
    "again."
)
_READ_CHARS = 1_000_000
_ATTEMPTS = 3


class OfflineBackend:
    """Does a curator's job by extraction: the same vault and job give the same bytes."""

    name = "offline"

    async def run(self, job: Job) -> AsyncIterator[Step]:
        if job.conversation is not None:
            job.conversation.close()
            yield TextDelta(text=NO_MODEL)
            yield TextStep(text=NO_MODEL)
            yield RunResult(cost_usd=0.0, input_tokens=0, output_tokens=0, turns=0)
            return
        run = _Run(job)
        async for step in run.steps():
            yield step
        yield RunResult(cost_usd=0.0, input_tokens=0, output_tokens=0, turns=run.calls)

    async def close(self) -> None: ...


class _Run:
    def __init__(self, job: Job) -> None:
        self.calls = 0
        self._job = job
        self._deadline = asyncio.get_running_loop().time() + job.limits.timeout_s

    async def steps(self) -> AsyncIterator[Step]:
        listing = await self._call("list_context_files", strangers=True)
        yield listing
        watched = sorted(_watched(_require(listing)), key=lambda one: one.path)
        extracts, texts = [], []
        for one in watched[:MOST_NOTES]:
            read = await self._call("read_context", file_path=one.path)
            yield read
            text = read.result.text
            if read.result.is_error:
                extracts.append(one)
            else:
                extracts.append(extract_note(one.path, text[:_READ_CHARS]))
                texts.append(text)
        style = self._job.links or link_style(texts)
        digest = write_digest(
            self._job.watcher, extracts, watched=max(self._job.watched, len(watched)), style=style
        )
        is_written = False
        async for step in self._write(digest):
            yield step
            if isinstance(step, ToolCallStep) and step.tool == "update_context":
                is_written |= not step.result.is_error
        history = self._history(style)
        if history:  # last, since it only grows: a run that is repeated must not get that far
            update = await self._update("History", history)
            yield update
            _require(update)
        elif not is_written:
            yield await self._call("no_change", reason="what is watched says nothing new")

    async def _write(self, digest: str) -> AsyncIterator[Step]:
        """Unless a person does not want it. After a save meanwhile it is decided again."""
        for attempt in range(1, _ATTEMPTS + 1):
            own = await self._call("read_context", file_path=self._job.watcher)
            yield own
            note = parse_note(_require(own).encode("utf-8", "surrogateescape"))
            if is_foreign(note):
                yield TextStep(
                    text=f"The section {SECTION} of {self._job.watcher} was not generated, so it "
                    "is left as it is."
                )
            if is_foreign(note) or is_switched_off(note) or is_same(note, digest):
                return
            update = await self._update(SECTION, compose(note, digest, self._job.generated))
            yield update
            if not update.result.is_error:
                return
            if attempt == _ATTEMPTS:
                _require(update)

    def _history(self, style: LinkStyle) -> str:
        changes = [change for change in self._job.changes if change.kind != "unchanged"]
        return write_history(self._job.watcher, changes, self._job.at.astimezone(), style)

    async def _update(self, section: str, content: str) -> ToolCallStep:
        return await self._call(
            "update_context", file_path=self._job.watcher, section=section, content=content
        )

    async def _call(self, tool: str, **arguments: object) -> ToolCallStep:
        self.calls += 1
        try:
            async with asyncio.timeout_at(self._deadline):
                result = await call_tool(self._job.tools, tool, arguments)
        except TimeoutError as error:
            raise AgentFailedError("the offline agent ran out of time") from error
        if (reason := self._job.ended()) is not None:
            raise AgentFailedError(reason)
        return ToolCallStep(tool=tool, arguments=arguments, result=result)


def _require(called: ToolCallStep) -> str:
    if called.result.is_error:
        raise AgentFailedError(f"{called.tool}: {called.result.text}")
    return called.result.text


def _watched(listing: str) -> Iterator[Extract]:
    try:
        files, _rest = json.JSONDecoder().raw_decode(listing)
    except ValueError as error:
        raise AgentFailedError("list_context_files did not answer with JSON") from error
    for file in files if isinstance(files, list) else ():
        if not (isinstance(file, dict) and file.get("level") == "watched"):
            continue
        if isinstance(path := file.get("path"), str):
            title, description = (str(file.get(key) or "") for key in ("title", "description"))
            yield Extract(
                path=path,
                title=plain(title) or name_of(path),
                description=plain(description),
                focus=(),
            )
