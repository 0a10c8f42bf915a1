"""The services of a module, the same in the daemon and in its own process."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from parachuted.access.notes import Activity, Paths
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

    async def read(self, day: str) -> list[Activity]:
        """What was logged on that day of UTC, such as 2026-11-23, oldest first.

        ActRefusedError: only for a trusted module or one that may read the whole vault, and not on
        behalf of a key that is limited to some paths.
        """


@dataclass(frozen=True, slots=True, kw_only=True)
class CurrentCall:
    """On whose behalf the code works now.

    `run` is the id of the agent's run that called a tool, or None: a person, the clock or another
    module called. `is_strangers`: strangers' text led to it, so what it writes is marked. `key` is
    the id of the API key that asked; empty for a person at the machine, a schedule and the module
    itself. `is_limited`: it reaches only some paths of the vault. `own_run` is the id of the run
    that this call's writes are recorded as, which `parachute undo` takes back; None before its
    first write.
    """

    run: str | None
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

    async def list(self, path: str, pattern: str = "*") -> Paths:
        """The files below that folder whose paths from there match, sorted. NotFoundError."""


class StateAccess(Protocol):
    """A module's own small memory, outside the vault: JSON values of at most 1 MB.

    It can be lost; what matters belongs in the vault.
    """

    async def get(self, key: str, default: object = None) -> object:
        """What was put there, or the default."""

    async def put(self, key: str, value: object) -> None:
        """Keep a JSON value."""

    async def delete(self, key: str) -> None:
        """Forget it, if it is there."""

    async def keys(self) -> list[str]:
        """All keys, sorted."""


class Services(Protocol):
    """What a `Module` uses; its methods of the same names say what each does and raises."""

    name: str
    config: Mapping[str, object]
    log: logging.Logger
    vault: GrantedVault
    folders: FolderAccess
    state: StateAccess
    has_model: bool
    schedules: ScheduleAccess
    runs: RunAccess
    activity: ActivityAccess

    @property
    def data_folder(self) -> Path: ...

    @property
    def current_call(self) -> CurrentCall: ...

    def on_behalf_of(
        self, person: str, *, is_strangers: bool = False
    ) -> AbstractContextManager[None]: ...

    def publish(self, event: str, data: Mapping[str, object]) -> None: ...

    def get_interface(self, name: str) -> object | None: ...

    async def run_agent(self, agent: str, prompt: str, options: Mapping[str, object]) -> str: ...

    async def suggest(
        self,
        action: str,
        path: str,
        payload: Mapping[str, object],
        reasoning: str,
        base: str | None = None,
    ) -> str: ...

    async def resolve_suggestion(self, suggestion_id: str, decision: str) -> str: ...
