"""What an exchange established, kept in Brain: written where the words are the person's own,
suggested where a stranger's text led to them.

Every fact is recorded with how to take it back. One that a person took back or rejected is not
asked about again.
"""

from __future__ import annotations

import asyncio
import re
import secrets
from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, Final, Literal, TypeAlias

from parachuted.errors import (
    ConflictError,
    EditRefusedError,
    NotFoundError,
    ParachuteError,
)
from parachuted.modules import AppendSection, Module, NoteChange, ReplaceSpan

from .brain_access import BrainAccess, FoundEntity, brain_of
from .facts import LONGEST_NAME, Fact, find_facts, one_line
from .session import Session, now
from .settings import ChatSettings

Status: TypeAlias = Literal["kept", "waiting", "undone", "approved", "rejected"]

_STATE: Final = "write_back"
_SECTION: Final = "Facts"
_LIMIT_S: Final = 10.0
_MOST_RECORDS: Final = 500
_MOST_REFUSED: Final = 2_000


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredFact:
    """A fact and what became of it: `kept` and `undone` where it was written, `waiting`, `approved`
    and `rejected` where it was suggested.

    `created` says that its entity was made for it, `digest` what the file then held, `run` what
    `parachute undo` takes, `suggestion` its id in `Suggestions/`.
    """

    id: str
    session_id: str
    turn_number: int
    at: str
    name: str
    entity_type: str
    text: str
    key: str
    path: str = ""
    created: bool = False
    digest: str | None = None
    run: str | None = None
    suggestion: str | None = None
    status: Status = "kept"


class WriteBack:
    """The facts that conversations left in Brain, and those that a person refused. `limit_s` is how
    long `keep` may take.
    """

    def __init__(self, module: Module) -> None:
        self._module = module
        self.limit_s = _LIMIT_S
        self._records: dict[str, StoredFact] = {}
        self._refused: dict[str, None] = {}
        self._lock = asyncio.Lock()

    async def load(self) -> None:
        """Read what was recorded."""
        held = await self._module.state.get(_STATE)
        if isinstance(held, Mapping):
            records: Any = held.get("records", [])
            self._records = {one["id"]: StoredFact(**one) for one in records}
            refused: Any = held.get("refused", [])
            self._refused = dict.fromkeys(refused)

    def of_session(self, session_id: str) -> list[StoredFact]:
        """What that conversation left, the oldest first."""
        return [one for one in self._records.values() if one.session_id == session_id]

    def runs_of(self, session_id: str) -> list[str]:
        """The runs that wrote facts of that conversation which are still kept."""
        return [one.run for one in self.of_session(session_id) if one.run and one.status == "kept"]

    async def keep_if_on(
        self, session: Session, number: int, question: str, answer: str
    ) -> list[StoredFact]:
        """The same as `keep`, where there is Brain and the setting is on. What goes wrong is
        logged: it is never a turn's matter.
        """
        brain, settings = brain_of(self._module), self._module.settings
        if brain is None or not (isinstance(settings, ChatSettings) and settings.write_back):
            return []
        try:
            return await self.keep(brain, session, number, question, answer)
        except (ParachuteError, TimeoutError) as error:
            self._module.log.info("nothing was written back to Brain", extra={"why": repr(error)})
        except Exception:  # a turn never fails by this
            self._module.log.exception("writing back to Brain failed")
        return []

    async def keep(
        self, brain: BrainAccess, session: Session, number: int, question: str, answer: str
    ) -> list[StoredFact]:
        """Find what an exchange established, and write or suggest it, in time.

        Raises ParachuteError and TimeoutError; what was done before that is recorded.
        """
        stored: list[StoredFact] = []
        async with asyncio.timeout(self.limit_s):
            for fact in await find_facts(self._module, brain, question, answer):
                if fact.key in self._refused:
                    continue
                async with self._lock:
                    kept = await self._store(brain, session, number, fact)
                    if kept is not None:
                        stored.append(kept)
                        await self._put(kept)
        return stored

    async def undo(self, session_id: str, record_id: str) -> StoredFact:
        """Take a written fact out of Brain; it will not be written again.

        Raises NotFoundError, EditRefusedError where somebody changed it since.
        """
        async with self._lock:
            record = self._records.get(record_id)
            if record is None or record.session_id != session_id:
                raise NotFoundError(f"This conversation has no write-back {record_id[:80]}.")
            if record.status != "kept":
                raise EditRefusedError(
                    f"This was {record.status} already."
                    if record.status != "waiting"
                    else f"This waits for your decision in Suggestions/, as {record.suggestion}."
                )
            await (self._remove_entity(record) if record.created else self._remove_line(record))
            return await self._refuse(record, "undone")

    async def session_of(self, suggestion_id: str) -> str | None:
        """The session whose exchange led to that suggestion."""
        async with self._lock:  # one that is just being made is recorded by then
            found = [one for one in self._records.values() if one.suggestion == suggestion_id]
        return found[0].session_id if found else None

    async def on_resolved(self, suggestion_id: str, status: str) -> None:
        """A person decided on a suggestion."""
        for record in [one for one in self._records.values() if one.suggestion == suggestion_id]:
            if status == "rejected":
                await self._refuse(record, "rejected")
            elif status in {"approved", "modified"}:
                await self._put(replace(record, status="approved"))

    async def on_undone(self, run: str, paths: Collection[str]) -> None:
        """A person took back a run, or what a conversation led to, by `parachute undo`, which
        changed these files.
        """
        for record in [one for one in self._records.values() if one.status == "kept"]:
            if record.run == run or (record.path in paths and not await self._still_says(record)):
                await self._refuse(record, "undone")

    async def _store(
        self, brain: BrainAccess, session: Session, number: int, fact: Fact
    ) -> StoredFact | None:
        known = await brain.meant_by(fact.name)
        record = StoredFact(
            id=secrets.token_hex(6),
            session_id=session.id,
            turn_number=number,
            at=now(),
            name=known.name if known else fact.name,
            entity_type=known.type if known and known.type else fact.entity_type,
            text=fact.text,
            key=fact.key,
            path=known.path if known else "",
        )
        if await self._is_known(record):
            return None
        if self._module.current_call.is_strangers or session.linked_bot is not None:
            return await self._suggest(brain, session, record)
        if record.path:
            return await self._add_line(session, record)
        return await self._upsert(brain, known, record)

    async def _is_known(self, record: StoredFact) -> bool:
        """Whether the entity's file says it already."""
        if not record.path:
            return False
        said = " ".join((await self._module.vault.read(record.path)).casefold().split())
        return " ".join(record.text.casefold().split()).rstrip(".") in said

    async def _still_says(self, record: StoredFact) -> bool:
        try:
            return await self._is_known(record)
        except NotFoundError:
            return False

    async def _add_line(self, session: Session, record: StoredFact) -> StoredFact:
        note = await self._module.vault.note(record.path)
        change = NoteChange(
            record.path, [AppendSection(_SECTION, f"- {record.text}")], base=note.digest
        )
        run = await self._module.vault.edit_all([change], reason=_reason(session))
        return replace(record, run=run)

    async def _upsert(
        self, brain: BrainAccess, known: FoundEntity | None, record: StoredFact
    ) -> StoredFact:
        data: dict[str, object] = {"name": record.name, "description": record.text}
        if known is not None and known.para_id:
            data["para_id"] = known.para_id
        answer = await brain.upsert(record.entity_type, data)
        path = answer.get("path")
        if not isinstance(path, str):
            return record
        created, run = answer.get("created") is True, answer.get("run")
        digest = await self._module.vault.digest(path) if created else None
        run = run if isinstance(run, str) else None
        return replace(record, path=path, created=created, digest=digest, run=run)

    async def _suggest(
        self, brain: BrainAccess, session: Session, record: StoredFact
    ) -> StoredFact | None:
        line = f"- {record.text}"
        if record.path:
            payload: dict[str, object] = {"section": _SECTION, "content": line, "append": True}
            action, path = "update", record.path
        else:
            folder = (await brain.types()).get(record.entity_type)
            if not folder:
                return None
            action, path = "create", f"Brain/entities/{folder}/{_slug(record.name)}.md"
            payload = {
                "text": f"---\ntype: {record.entity_type}\n---\n# {record.name}\n\n"
                f"## {_SECTION}\n{line}\n"
            }
        suggestion = await self._module.suggest(action, path, payload, reasoning=_reason(session))
        return replace(record, path=path, suggestion=suggestion, status="waiting")

    async def _remove_line(self, record: StoredFact) -> None:
        vault = self._module.vault
        note = await vault.note(record.path) if record.path else None
        section = note.section(_SECTION) if note else None
        if note is None or section is None:
            raise EditRefusedError(f"{record.path or record.name} does not say this any more.")
        line = f"- {record.text}\n"
        at = f"{note.text}\n".find(line, section.body, section.end + 1)
        if at < 0:
            raise EditRefusedError(f"{record.path} says it in other words now: change it there.")
        stop = min(at + len(line), len(note.text))
        try:
            await vault.edit(record.path, [ReplaceSpan(at, stop, "")], base=note.digest)
        except ConflictError as error:
            raise EditRefusedError(f"{record.path} is being changed; try again.") from error

    async def _remove_entity(self, record: StoredFact) -> None:
        if await self._module.vault.digest(record.path) != record.digest:
            raise EditRefusedError(
                f"{record.path} was changed since this conversation made it: remove it, or the "
                "line, there."
            )
        await self._module.vault.delete(record.path)

    async def _refuse(self, record: StoredFact, status: Status) -> StoredFact:
        self._refused[record.key] = None
        for oldest in list(self._refused)[: len(self._refused) - _MOST_REFUSED]:
            del self._refused[oldest]
        return await self._put(replace(record, status=status))

    async def _put(self, record: StoredFact) -> StoredFact:
        self._records[record.id] = record
        for oldest in list(self._records)[: len(self._records) - _MOST_RECORDS]:
            del self._records[oldest]
        held = {
            "records": [asdict(one) for one in self._records.values()],
            "refused": list(self._refused),
        }
        await self._module.state.put(_STATE, held)
        return record


def _reason(session: Session) -> str:
    title = one_line(session.title or "untitled", LONGEST_NAME)
    return f"Said in the conversation “{title}” ({session.id})"


def _slug(name: str) -> str:
    return "-".join(re.findall(r"\w+", name.casefold()))[:80] or "entity"
