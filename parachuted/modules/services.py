"""The services of a module, the same in the daemon and in its own process."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from parachuted.access.notes import (
    Activity,
    ContextPreview,
    Paths,
)
from parachuted.modules.agent_runs import RunAccess
from parachuted.modules.scheduling import ScheduleAccess
from parachuted.runs.granted_vault import GrantedVault


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
    def vault(self) -> GrantedVault: ...

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
