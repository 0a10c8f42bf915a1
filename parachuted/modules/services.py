"""The services of a module, the same in the daemon and in its own process.

Apart, so that a module's process loads nothing for it.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from parachuted.access.notes import (
    Activity,
    ContextPreview,
    Hits,
    Links,
    Note,
    NoteChange,
    NoteEdit,
    NotePage,
    NoteStream,
    Paths,
    Upload,
    Writer,
)
from parachuted.modules.agent_runs import RunAccess
from parachuted.modules.scheduling import ScheduleAccess


class ActivityAccess(Protocol):
    """What was talked about, one file a day, in the vault's `.parachute/activity/`."""

    async def log(
        self,
        summary: str,
        *,
        session_id: str | None = None,
        session_title: str | None = None,
        agent_type: str | None = None,
        exchange_number: int = 0,
    ) -> None:
        """Add one line, with the time that it is now.

        EditRefusedError: the summary is too long. StorageFailedError.
        """
        ...

    async def read(self, day: str) -> list[Activity]:
        """What was logged on that day of UTC, such as 2026-11-23, oldest first.

        ActRefusedError: only for a trusted module or one that may read the whole vault, and not on
        behalf of a key that is limited to some paths.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class CurrentCall:
    """On whose behalf the code works now.

    `run` is the id of the agent's run that called a tool, or None: a person, the clock or another
    module called. `origin` is whose words what it writes counts as: `you`, `agent`, or a stranger's
    (`bot`, `imported`, `web`), where `is_strangers` is true. `key` is the id of the API key that
    asked; empty for a person at the machine, a schedule and the module itself. `is_limited`: it
    reaches only some paths of the vault. `own_run` is the id of the run that this call's writes are
    recorded as, which `parachute undo` takes back; None before its first write.
    """

    run: str | None
    origin: str
    is_strangers: bool = False
    key: str = ""
    is_limited: bool = False
    own_run: str | None = None


class VaultAccess(Protocol):
    """The vault, as far as the module's permissions reach.

    A path is relative to the vault: `Daily/entries/today.md`.

    PathRefusedError: no such path can be. ActRefusedError: the permissions, or a hook, say no.
    NotFoundError: no such file. ConflictError: somebody changed the file since `base`, in the same
    place. A digest names what is in a file at one time.
    """

    async def read(self, path: str) -> str:
        """The text of a note."""
        ...

    async def read_bytes(self, path: str) -> bytes:
        """The content of a binary file."""
        ...

    async def exists(self, path: str) -> bool:
        """Whether there is such a file, and the module may read it."""
        ...

    async def list(self, pattern: str = "**", *, looks: bool = False) -> Paths:
        """The paths of all files that match and that the module may read, sorted. `looks`: also
        those that were copied there a moment ago, where the pattern begins with a folder.
        """
        ...

    async def scope(self) -> str:
        """A word for what the present caller may read: "" for all that the module may, else the
        same for callers that are limited to the same paths.
        """
        ...

    async def readable(self, paths: Sequence[str]) -> Paths:
        """Those of these paths that the present caller may read, in their order. No file is looked
        at, and none counts as read.
        """
        ...

    async def search(self, query: str, limit: int = 20) -> Hits:
        """The best notes for these words, among those that the module may read."""
        ...

    async def write(self, path: str, text: str, *, base: str | None = None) -> str:
        """Make the note this text, and return its digest.

        With the digest of what was read as `base`, others' edits since are kept.
        """
        ...

    async def write_bytes(self, path: str, data: bytes, *, base: str | None = None) -> str:
        """The same for a binary file."""
        ...

    async def create(self, path: str, text: str) -> str:
        """Make a new note. ConflictError: there is one already."""
        ...

    async def import_note(
        self, path: str, text: str, *, base: str | None = None, is_own: bool = False
    ) -> str:
        """Make a new note of what another program held, or, with a `base`, give one this text.

        It is a stranger's text: its frontmatter says `origin: imported`. `is_own`: all that is
        added is what the person wrote, who asks for it and claims it; it counts as theirs then.
        ConflictError: there is one already.
        """
        ...

    async def append(self, path: str, section: str, text: str) -> str:
        """Put text at the end of a section, which is made if need be."""
        ...

    async def set_key(self, path: str, key: str, value: object) -> str:
        """Set one key of the frontmatter, and leave all else byte for byte."""
        ...

    async def note(self, path: str) -> Note:
        """The note: its text, frontmatter, sections and links from one read.

        EditRefusedError: the file is not UTF-8 text.
        """
        ...

    async def notes(
        self,
        folder: str = "",
        *,
        tag: str | None = None,
        where: Mapping[str, object] | None = None,
        order: str = "path",
        limit: int = 100,
        cursor: str | None = None,
    ) -> NotePage:
        """A page of the notes that the module may read, from the index, which follows a write
        within moments.

        `folder` takes what is below it too, `tag` those below it. `where`: what keys of the
        frontmatter hold; a list means one of these, None that the key is not there. `order`: path,
        title, modified, size or a key, with a `-` before it for descending. At most 1,000 at once;
        `cursor` is the `next` of the page before. ActRefusedError: the cursor is none.
        """
        ...

    async def links(self, path: str) -> Links:
        """The links in a note, in its order, with the notes that they lead to."""
        ...

    async def backlinks(self, path: str) -> Links:
        """The links to a file, by the notes that they stand in, from the index."""
        ...

    def read_notes(self, pattern: str | Sequence[str] = "**") -> NoteStream:
        """The notes that match and that the module may read, or those at the paths of a list, for
        `async for`: many at once, with their texts.

        What could not be read (gone since, no text, more than 10 MB) is in the stream's `left_out`.
        Their texts are not kept: an edit with `base=note.digest` is a ConflictError when the note
        changed since.
        """
        ...

    async def edit(self, path: str, edits: Sequence[NoteEdit], *, base: str | None = None) -> str:
        """Make all of the changes, or none, as one write, and return the note's digest.

        All else stays byte for byte. With the digest of what was read as `base`, others' edits
        since are kept; a `ReplaceSpan` needs it. NotFoundError: a key to be removed is not there.
        EditRefusedError: more than the named places would change.
        """
        ...

    async def edit_all(self, changes: Sequence[NoteChange], *, reason: str) -> str:
        """Change several notes as one run of its own, which `parachute undo` takes back whole and
        with nothing else, and return the run's id. It follows from the run of the present call,
        where that has written.

        Each file is named once. What may not be done is refused before anything is; then each is a
        write of its own, in this order. One that fails all the same ends it; what was written
        before is the run's, which the error then names. What a kill cuts short is finished at the
        next start.
        """
        ...

    async def delete(self, path: str) -> None:
        """Remove a file; it can be undone."""
        ...

    async def move(self, source: str, target: str) -> str:
        """Give a file another path, and return its digest.

        Links that lead to it follow, in the notes that the module may write. ConflictError: there
        is a file.
        """
        ...

    async def upload(self, path: str, chunks: AsyncIterable[bytes]) -> Upload:
        """Make a new file of pieces, of at most 4 GB; it is on the disk when this returns.

        Before all of it has come there is nothing. ConflictError: there is a file.
        """
        ...

    async def digest(self, path: str) -> str:
        """What names the file's content now: the `base` of a later write."""
        ...

    async def written_by(self, path: str) -> Writer:
        """Who wrote the file's present content: `person` (in an editor, or with an API key that
        may read and write everything), `key` (an API key that may do less), `agent` or `module`.
        """
        ...


class FolderAccess(Protocol):
    """A person's folders outside the vault that `permissions.folders` names, to read.

    A path begins with `/` or `~/`, as in the manifest. Links and hidden files are not there. What
    is read counts as a stranger's text. ActRefusedError: no named folder has it, or the caller is
    limited to some paths of the vault. PathRefusedError: it is not such a path, is
    hidden or is a link.
    """

    async def read(self, path: str) -> str:
        """The text of a file of at most 4 MB. NotFoundError, EditRefusedError."""
        ...

    async def list(self, path: str, pattern: str = "*") -> Paths:
        """The files below that folder whose paths from there match, sorted. NotFoundError."""
        ...


class StateAccess(Protocol):
    """A module's own small memory, outside the vault: JSON values of at most 1 MB.

    It can be lost; what matters belongs in the vault.
    """

    async def get(self, key: str, default: object = None) -> object:
        """What was put there, or the default."""
        ...

    async def put(self, key: str, value: object) -> None:
        """Keep a JSON value."""
        ...

    async def delete(self, key: str) -> None:
        """Forget it, if it is there."""
        ...

    async def keys(self) -> list[str]:
        """All keys, sorted."""
        ...


class ContextAccess(Protocol):
    """The context files of folders, as a prompt has them."""

    async def preview(self, folders: Sequence[str], *, max_tokens: int = 50_000) -> ContextPreview:
        """The AGENTS.md or CLAUDE.md of these folders and of what these files watch, as far as the
        module may read them, with each part's tokens, age and taint.

        Over `max_tokens` the farthest are left out first. What is read marks the caller's work.
        PathRefusedError.
        """
        ...


class Services(Protocol):
    """What a `Module` uses.

    `config` is its `config:` in modules.yaml.
    """

    @property
    def name(self) -> str: ...

    @property
    def config(self) -> Mapping[str, object]: ...

    @property
    def log(self) -> logging.Logger: ...

    @property
    def vault(self) -> VaultAccess: ...

    @property
    def folders(self) -> FolderAccess:
        """The person's folders outside the vault that it may read."""
        ...

    @property
    def state(self) -> StateAccess: ...

    @property
    def data_folder(self) -> Path: ...

    @property
    def has_model(self) -> bool: ...

    @property
    def schedules(self) -> ScheduleAccess: ...

    @property
    def contexts(self) -> ContextAccess: ...

    @property
    def runs(self) -> RunAccess: ...

    @property
    def activity(self) -> ActivityAccess: ...

    @property
    def current_call(self) -> CurrentCall: ...

    def on_behalf_of(
        self, person: str, *, is_strangers: bool = False
    ) -> AbstractContextManager[None]:
        """Inside, and in all that begins there, the module acts for that person.

        ActRefusedError: its manifest does not say `people: true`, it is not trusted, or something
        else than the module began the work.
        """
        ...

    def publish(self, event: str, data: Mapping[str, object]) -> None:
        """Say that something happened; the name begins with the module's own."""
        ...

    def get_interface(self, name: str) -> object | None:
        """The object that provides that interface now, or None."""
        ...

    async def run_agent(self, agent: str, prompt: str, options: Mapping[str, object]) -> str: ...

    async def suggest(
        self,
        action: str,
        path: str,
        payload: Mapping[str, object],
        reasoning: str,
        base: str | None = None,
    ) -> str:
        """Put a change before a person, and return its id.

        ActRefusedError, EditRefusedError, NotFoundError, PathRefusedError.
        """
        ...

    async def resolve_suggestion(self, suggestion_id: str, decision: str) -> str:
        """Decide on one for the person on whose behalf the module acts; returns its status.

        ActRefusedError, EditRefusedError, NotFoundError.
        """
        ...
