"""The `offline` backend: no model, no network, no cost. It keeps a digest of what is watched."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator, Iterator, Sequence
from datetime import datetime
from hashlib import blake2b

from parachuted.access.private_text import is_shortened
from parachuted.agents.calling import call_tool
from parachuted.agents.extract import (
    GENERATED,
    Extract,
    LinkStyle,
    extract_note,
    link,
    name_of,
    plain,
)
from parachuted.agents.job import (
    ChangedNote,
    Job,
    RunResult,
    Step,
    TextDelta,
    TextStep,
    ToolCallStep,
)
from parachuted.errors import AgentFailedError
from parachuted.vault import ParsedNote, parse_note

NO_MODEL = (
    "There is no model here, so I cannot answer. `parachute auth status` says what to do; then ask "
    "again."
)
SECTION, SWITCH = "Watching", "digest"
BEGIN = (
    f"{GENERATED} (offline, no model). Write below it: if you change it, it is yours and stays as "
    f"it is; `{SWITCH}: false` above switches it off.*"
)
MOST_NOTES = 200
_HISTORY_LINES = 10
_OFF = {"false", "no", "off"}
_END = re.compile(r"<!-- end of what parachuted generated \(([0-9a-f]{8})\) -->")
_LINK_TARGET = re.compile(r"(?<=\]\()[^()\n]*(?=\))|(?<=\[\[)[^\[\]|\n]*(?=[\]|])")
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
        watched = sorted(_watched(_require(listing)), key=lambda extract: extract.path)
        extracts = []
        for listed in watched[:MOST_NOTES]:
            read = await self._call("read_context", file_path=listed.path)
            yield read
            text = read.result.text[:_READ_CHARS]
            extracts.append(listed if read.result.is_error else extract_note(listed.path, text))
        job, is_written = self._job, False
        count = max(job.watched, len(watched))
        digest = write_digest(job.watcher, extracts, watched=count, style=job.links)
        async for step in self._write(digest):
            yield step
            if isinstance(step, ToolCallStep) and step.tool == "update_context":
                is_written |= not step.result.is_error
        changes = [change for change in job.changes if change.kind != "unchanged"]
        history = write_history(job.watcher, changes, job.at.astimezone(), job.links)
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
            text = compose(note, digest)
            if text is None:
                yield TextStep(
                    text=f"The section {SECTION} of {self._job.watcher} was not generated, or has "
                    "a private part, so it is left as it is."
                )
            if text is None or is_switched_off(note) or text == _section_text(note):
                return
            update = await self._update(SECTION, text)
            yield update
            if not update.result.is_error:
                return
            if attempt == _ATTEMPTS:
                _require(update)

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


def is_switched_off(note: ParsedNote) -> bool:
    return str(note.values.get(SWITCH, "")).strip().casefold() in _OFF


def write_digest(
    watcher: str, extracts: Sequence[Extract], *, watched: int = 0, style: LinkStyle | None = None
) -> str:
    """A bullet for each note, with its focus. `watched` counts all there are."""
    shown = sorted(extracts, key=lambda extract: extract.path)[:MOST_NOTES]
    lines = [BEGIN, ""]
    for extract in shown:
        tail = f" — {extract.description}" if extract.description else ""
        lines.append(f"- {link(watcher, extract.path, extract.title, style)}{tail}")
        lines += [f"  - {line}" for line in extract.focus]
    more = max(watched, len(extracts)) - len(shown)
    if not shown or more > 0:
        lines.append(f"- and {more} more" if shown else "- nothing yet")
    return "\n".join(lines)


def compose(note: ParsedNote, digest: str) -> str | None:
    """The digest, its mark, and what a person wrote below that. None where what the section holds
    is not as it was generated, or has a private part: it is a person's.
    """
    present, below = _section_text(note), ""
    if present:
        mark = _END.search(present)
        inside = present[: mark.start()] if mark is not None else ""
        if is_shortened(present):  # the private part below it would be lost
            return None
        if mark is None or mark[1] not in {_check(inside), _check(_LINK_TARGET.sub("", inside))}:
            return None
        if _lines(inside) == _lines(digest):
            return present
        below = present[mark.end() :].strip("\n")
    check = _check(_LINK_TARGET.sub("", digest))  # links follow moves, by themselves
    end = f"{digest}\n<!-- end of what parachuted generated ({check}) -->"
    return "\n\n".join(filter(None, [end, below]))


def write_history(
    watcher: str, changes: Sequence[ChangedNote], at: datetime, style: LinkStyle | None = None
) -> str:
    """An item for each note; `at` is in the time zone used for dates."""
    lines = []
    for change in changes[:_HISTORY_LINES]:
        head, news = f"- {at:%Y-%m-%d}: {_head(watcher, change, style)}", change.news
        if len(news) > 1:
            items = (f"  {line}" if line.startswith("  ") else f"  - {line}" for line in news)
            lines += [head, *items]
        else:
            lines.append(": ".join([head, *news]))
    more = len(changes) - _HISTORY_LINES
    return "\n".join([*lines, *([f"- and {more} more"] if more > 0 else [])])


def _head(watcher: str, change: ChangedNote, style: LinkStyle | None) -> str:
    title = change.title or name_of(change.path)
    if change.target is not None:
        said = f"moved to {plain(change.target)}, which is not watched"
        return f"{link(watcher, change.target, title, style)}: {said}"
    if change.kind in {"deleted", "ignored"}:
        return f"{title}: {change.kind}"
    said = "" if change.news else "changed"
    if change.kind == "created":
        said = "new"
    elif change.kind == "moved":
        said = f"moved from {plain(change.source or '') or 'elsewhere'}"
    return ": ".join(filter(None, [link(watcher, change.path, title, style), said]))


def _section_text(note: ParsedNote) -> str:
    section = note.section(SECTION)
    text = note.text(section.body) if section is not None else ""
    return text.strip().replace("\r\n", "\n")


def _lines(text: str) -> str:
    return "\n".join(line.rstrip() for line in text.splitlines() if line.strip())


def _check(text: str) -> str:
    return blake2b(_lines(text).encode("utf-8", "surrogatepass"), digest_size=4).hexdigest()
