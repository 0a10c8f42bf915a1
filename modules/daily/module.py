"""Daily: a journal of plain notes, one a day."""

from __future__ import annotations

import asyncio
import base64
import datetime as dt
import re
from collections import defaultdict
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

from parachuted.errors import ActRefusedError, EditRefusedError, NotFoundError
from parachuted.modules import (
    Finding,
    Response,
    command,
    event,
    interface,
    mcp_tool,
    route,
    schedule,
)

from .agent_routes import AgentRoutes, today
from .agents import FOLDER, Agents
from .asking import Asking
from .by_path import open_database
from .days import Changes, Days
from .entry import key_of_text
from .imports import Imports, TransferRoutes
from .layouts import Dated, Layout
from .mentions import Mentions
from .reflection import OpenLoop, loops_in
from .shapes import (
    Created,
    DayPage,
    DayRow,
    EntryMetadata,
    EntryPage,
    LoopPage,
    WholeEntry,
    Written,
    listed_entries,
    moment,
    row_of,
    whole_of,
)
from .sound import Recordings, Transcription
from .uploads import UploadRoutes

_MOST = 100


Limit = Annotated[int, Field(ge=1, le=_MOST)]
Offset = Annotated[int, Field(ge=0, le=1_000_000_000)]
CommandDay = Annotated[
    dt.date | None,
    Field(description="YYYY-MM-DD (default: today)", json_schema_extra={"is_word": True}),
]
DayCount = Annotated[int, Field(ge=1, le=3660)]
NewId = Annotated[str, Field(pattern=r"^[a-z0-9]{12}$")]


class DailySettings(BaseModel):
    """What a person can set, under `config:` of modules.yaml."""

    model_config = ConfigDict(extra="forbid")

    layout: Layout = Field(default="journals", description="where new entries go")
    transcription: Transcription | None = Field(
        default=None, description="`command` or `model`; without it recordings wait"
    )


class DailyModule(AgentRoutes, TransferRoutes, UploadRoutes):
    Settings = DailySettings
    settings: DailySettings

    async def on_enable(self) -> None:
        database = await asyncio.to_thread(open_database, self.data_folder / "files.db")
        self._database = database
        self._days = Days(self.vault, database)
        self._recordings = Recordings(
            self._days, self.vault, self.state, self.settings.transcription
        )
        self.upload_locks = defaultdict(asyncio.Lock)
        self._mentions = Mentions(self, database, self._days.whole)
        self.journal_agents = Agents(self, self._visible, self._names_of)
        self._imports = Imports(self, self._days, self.settings.layout, self._look)
        self._creating = asyncio.Lock()
        self._asking = Asking(self, partial(self._days.search, for_agents=True))
        await self.journal_agents.plan()
        changes = await self._days.load()
        self._announce(changes)
        by_path: defaultdict[str, list[Dated]] = defaultdict(list)
        for change in (*changes["created"], *changes["updated"]):
            by_path[change.path].append(change)
            if await self.vault.written_by(change.path) in {"person", "module"}:
                await self._recordings.add([change], is_limited=False)
        for path, changed in by_path.items():
            await self._mentions.follow(path, changed, self._days.marks(path))

    async def on_disable(self) -> None:
        self._database.close()

    async def doctor(self) -> list[Finding]:
        """Ids that two files have, files that cannot be read, and agents that cannot run."""
        twins = [
            Finding(
                problem=f"the entry {mark} is also in {', '.join(others)}",
                path=path,
                advice="remove it from all files but one; links lead to the first that is found",
            )
            for mark, (path, *others) in self._days.duplicates().items()
        ]
        return [*twins, *await self._days.findings(), *await self.journal_agents.findings()]

    @event("file.created")
    @event("file.modified")
    @event("file.deleted")
    async def on_changed(self, path: str) -> None:
        await self._look(path)

    @event("file.moved")
    async def on_moved(self, path: str, data: dict[str, object]) -> None:
        source = str(data.get("from", ""))
        await self._days.follow_move(source, path)
        await self._look(source)
        await self._look(path)

    @route("POST", "/entries")
    async def create_entry(
        self,
        content: Annotated[str, Field(max_length=1_000_000)],
        title: str = "",
        created_at: dt.datetime | None = None,
        metadata: EntryMetadata | None = None,
        *,
        id: NewId | None = None,  # noqa: A002  what an entry's id is called
    ) -> Created:
        """Write an entry. `created_at` decides the day, in its own time zone.

        With an `id` that its writer chose, it can be sent again when the answer was lost: where
        there is such an entry, it stays as it is. Each key has ids of its own: the entry's id, in
        the answer, is made of both.
        """
        at, metadata = created_at or dt.datetime.now().astimezone(), metadata or EntryMetadata()
        if id is None:
            made = await self._made(content, title, at, metadata)
        else:
            async with self._creating:  # one that is sent again may overtake the first
                key = key_of_text(f"{self.current_call.key}\n{id}")
                made = await self._found(key) or await self._made(content, title, at, metadata, key)
        suggested = [] if metadata.private else await self._suggestions(content)
        return Created(made.id, made.path, moment(made.at), suggested)

    @route("GET", "/entries")
    async def list_entries(
        self,
        limit: Limit = 50,
        offset: Offset = 0,
        date: dt.date | None = None,
        *,
        whole: bool = False,
    ) -> EntryPage:
        """Entries, the newest first; `date` limits them to one day, `whole` adds their texts."""
        wanted = None if date is None else date.isoformat()
        found = (await self._days.some(offset + limit, wanted))[offset:]
        return EntryPage(
            entries=[
                self._whole(one) if whole else row_of(one, self._mentions.of(one)) for one in found
            ],
            count=await self._days.count(wanted),
            offset=offset,
        )

    @route("GET", "/days")
    async def list_days(self) -> DayPage:
        """The days that have entries, the newest first, with how many."""
        counts = await self._days.counts()
        return DayPage(days=[DayRow(day, counts[day]) for day in sorted(counts, reverse=True)])

    @route("GET", "/entries/{entry_id}")
    async def get_entry(self, entry_id: str) -> WholeEntry:
        """One entry. Where there is none, the existing app reads `error` and `id` of the answer."""
        try:
            return self._whole(await self._days.find(entry_id))
        except NotFoundError as error:
            said = {"message": error.message, "detail": error.message}
            body = {"error": "Not Found", **said, "id": entry_id}
            return Response(status=404, body=body)  # type: ignore[return-value]  # the annotation is that of an answer

    @route("PATCH", "/entries/{entry_id}")
    async def change_entry(
        self, entry_id: str, content: str | None = None, title: str | None = None
    ) -> WholeEntry:
        """Give an entry another text or title."""
        dated_entry = await self._days.find(entry_id)
        await self._days.change(dated_entry, content=content, title=title)
        await self._look(dated_entry.path)
        return self._whole(await self._days.again(dated_entry))

    @route("DELETE", "/entries/{entry_id}")
    async def delete_entry(self, entry_id: str) -> dict[str, str]:
        """Remove an entry; an earlier version of its file has it (`parachute history`)."""
        dated_entry = await self._days.find(entry_id)
        await self._days.delete(dated_entry)
        await self._look(dated_entry.path)
        return {"id": dated_entry.id, "path": dated_entry.path}

    @route("POST", "/query", timeout_s=170, tolerant=True)
    async def query(
        self,
        message: Annotated[str, Field(min_length=1, max_length=20_000)],
        session_id: str | None = None,
    ) -> AsyncIterator[dict[str, object]]:
        """A conversation about the journal, as a stream: `session`, `entries`, `text`, `done`."""
        async for piece in self._asking.answer(message, session_id, self.current_call.key):
            yield piece

    @route("GET", "/loops")
    async def list_loops(self, days: DayCount = 90, *, closed: bool = False) -> LoopPage:
        """What the entries of the last days leave open; `closed` lists what was closed too."""
        loops = loops_in(await self._since(days))
        return LoopPage(loops=[loop for loop in loops if closed or loop.closed_by is None])

    @mcp_tool("daily-loops")
    async def open_loops(self, days: DayCount = 90) -> list[OpenLoop]:
        """Open tasks and questions of the last days."""
        visible = [
            replace(one, entry=one.visible) for one in await self._since(days) if one.visible
        ]
        return [loop for loop in loops_in(visible) if loop.closed_by is None]

    @route("POST", "/entries/{entry_id}/transcribe", timeout_s=600)
    async def transcribe_entry(self, entry_id: str) -> WholeEntry:
        """Transcribe an entry's recording, again if need be: words that it has stay."""
        dated = await self._recordings.transcribe(entry_id)
        await self._look(dated.path)
        return self._whole(dated)

    @schedule(every="15m")
    async def transcribe_waiting(self) -> None:
        await self._transcribe()

    @schedule(every="5m")
    async def link_waiting(self) -> None:
        await self._mentions.follow_due()

    @command("approve")
    async def approve_command(self, name: str) -> str:
        """Let a scheduled agent run that no person wrote; read its file first."""
        call = self.current_call
        if call.key or call.run or call.is_strangers:
            raise ActRefusedError(
                "Only a person at the machine approves an agent: run `parachute daily approve` "
                "there."
            )
        return f"{(await self.journal_agents.approve(name)).name} runs from now on."

    @command("add")
    async def add_command(self, words: str) -> Written:
        """Write a journal entry."""
        at = dt.datetime.now().astimezone()
        made = await self._made(words, "", at, EntryMetadata())
        return Written(id=made.id, path=made.path)

    @command("show")
    async def show_command(
        self, day: CommandDay = None, *, as_text: bool = False
    ) -> list[WholeEntry] | str:
        """The entries of a day (YYYY-MM-DD), by default today."""
        wanted = (day or today()).isoformat()
        dated_entries = [one async for one in self._days.newest(wanted)][::-1]
        if as_text:
            return listed_entries(dated_entries) or f"There is no entry on {wanted}."
        return [self._whole(dated_entry) for dated_entry in dated_entries]

    @command("search")
    async def search_command(
        self, words: str, limit: int = 10, *, as_text: bool = False
    ) -> list[WholeEntry] | str:
        """Find entries by words."""
        found = await self._days.search(words, limit)
        if as_text:
            return listed_entries(found, with_days=True) or "No entry has all of these words."
        return [self._whole(dated_entry) for dated_entry in found]

    @mcp_tool("daily-search")
    @interface("JournalInterface")
    async def search(self, query: str, limit: int = 10) -> list[WholeEntry]:
        """Find journal entries by words."""
        return self._shown(await self._days.search(query, limit, for_agents=True))

    @mcp_tool("daily-today")
    async def today(self) -> list[WholeEntry]:
        """Today's journal entries."""
        return await self.read_day(today())

    @mcp_tool("daily-journal")
    async def read_day(self, day: dt.date) -> list[WholeEntry]:
        """The journal entries of a day."""
        return self._shown([one async for one in self._days.newest(day.isoformat())][::-1])

    @mcp_tool("daily-create", writes=True)
    async def create_text(self, content: str, *, private: bool = False) -> str:
        """Write a journal entry."""
        return await self.create(content, EntryMetadata(private=private))

    @interface("JournalInterface")
    async def create(self, content: str, metadata: EntryMetadata | None = None) -> str:
        """Write a journal entry."""
        at, fields = dt.datetime.now().astimezone(), EntryMetadata.model_validate(metadata or {})
        return (await self._made(content, "", at, fields)).id

    @interface("JournalInterface")
    async def get(self, entry_id: str) -> WholeEntry:
        """One entry."""
        for whole_entry in self._shown([await self._days.find(entry_id)]):
            return whole_entry
        raise NotFoundError(f"There is no entry {entry_id}.")

    @interface("JournalInterface")
    async def transcribe(self, audio: str, name: str) -> str:
        """What is said in a recording; `audio` is its bytes as base64, `name` that of the file."""
        if not re.fullmatch(r"[^/\x00]{1,200}", name):
            raise EditRefusedError("name should be that of a file")
        try:
            data = base64.b64decode(audio, validate=True)
        except ValueError as error:
            raise EditRefusedError(str(error)) from error
        return await self._recordings.words_in(data, name)

    @interface("JournalInterface")
    async def get_recent_entries(self, limit: int = 10) -> list[WholeEntry]:
        """The newest entries."""
        return self._shown(await self._days.some(limit, for_agents=True))

    async def _visible(self, last: dt.date, days: int) -> list[Dated]:
        dated_entries = await self._days.between(last - dt.timedelta(days=days - 1), last)
        return [
            replace(entry, entry=replace(entry.visible, mentions=tuple(self._mentions.of(entry))))
            for entry in dated_entries
            if entry.visible
        ]

    async def _names_of(self, para_ids: Sequence[str]) -> dict[str, str]:
        brain: Any = self.get_interface("BrainInterface")
        names: dict[str, str] = {}
        for para_id in dict.fromkeys(para_ids) if brain else ():
            match = (await brain.resolve(para_id))["match"]
            if match is not None:
                names[para_id] = str(match["name"])
        return names

    async def _since(self, days: int) -> list[Dated]:
        return await self._days.between(today() - dt.timedelta(days=days), dt.date.max)

    async def find_para(self, para_id: str) -> dict[str, str | None] | None:
        try:
            dated_entry = await self._days.find(para_id)
        except (NotFoundError, ActRefusedError):
            return None
        return {
            "para_id": dated_entry.id,
            "type": "entry",
            "path": dated_entry.path,
            "title": dated_entry.entry.title,
            "url": f"/api/daily/entries/{dated_entry.id}",
        }

    async def _found(self, entry_id: str) -> Dated | None:
        try:
            return await self._days.find(entry_id)
        except NotFoundError:
            return None

    async def _made(
        self,
        content: str,
        title: str,
        at: dt.datetime,
        metadata: EntryMetadata,
        key: str = "",
    ) -> Dated:
        if not (content.strip() or metadata.audio or metadata.image):
            raise EditRefusedError("An entry needs a text, a recording or a picture.")
        new = replace(metadata.entry(title, content), key=key)
        made = await self._days.create(new, at, layout=self.settings.layout)
        await self._look(made.path)
        return made

    async def _suggestions(self, content: str) -> list[object]:
        brain: Any = self.get_interface("BrainInterface")
        return list(await brain.suggest(content)) if brain else []

    async def _look(self, path: str) -> None:
        is_limited = self.current_call.is_limited
        if path.startswith(FOLDER) and not is_limited:  # who is limited sets no schedule
            await self.journal_agents.plan()
        changes = await self._days.look(path)
        self._announce(changes)
        changed = (*changes["created"], *changes["updated"])
        if waiting := await self._recordings.add(changed, is_limited=is_limited):
            self.spawn(self._transcribe, waiting, name="transcribe")
        await self._mentions.follow(path, changed, self._days.marks(path))

    async def _transcribe(self, entry_ids: Sequence[str] | None = None) -> None:
        for entry_id, error in await self._recordings.transcribe_waiting(entry_ids):
            self.log.warning(
                "a recording was not transcribed", extra={"entry": entry_id, "error": str(error)}
            )

    def _announce(self, changes: Changes) -> None:
        for change in changes["created"]:
            audio = {"audio_path": f"Daily/{change.entry.audio}"} if change.entry.audio else {}
            self._tell("daily.entry.created", **_facts(change), **audio)
        for change in changes["updated"]:
            self._tell("daily.entry.updated", **_facts(change))

    def _tell(self, event: str, **facts: str) -> None:
        """An entry that cannot be told of, since its file gives it an odd id, stops no other."""
        try:
            self.publish(event, **facts)
        except ActRefusedError as error:
            extra = {"entry": facts["entry_path"], "why": str(error)}
            self.log.warning("an entry is not told of", extra=extra)

    def _whole(self, dated_entry: Dated) -> WholeEntry:
        return whole_of(dated_entry, self._mentions.of(dated_entry))

    def _shown(self, found: Sequence[Dated]) -> list[WholeEntry]:
        return [self._whole(replace(one, entry=one.visible)) for one in found if one.visible]


def _facts(one: Dated) -> dict[str, str]:
    content = one.visible.body if one.visible else ""  # who hears it may be an agent
    return {"entry_id": one.id, "entry_path": one.path, "content": content}
