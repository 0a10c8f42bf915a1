"""Answers the requests of a module host, each with the authority of a call that it is working
on.

Every request of the process names one of them and uses its authority. The process reports when a
call's last task has ended, and is trusted no further: a call that is not open gives no authority,
and a process with too many open calls gets no more. It can name another of its open calls than the
one it works on, since all its tasks share one process; so what a module may do by its approved
permissions, it can reveal to anyone who may call it.

The process may be hostile, so its requests are checked like any from outside: known verbs and
fields of the right types.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncIterator, Callable, Mapping
from types import MappingProxyType
from typing import Annotated

from pydantic import Field

from parachuted.access.authority import Authority, pass_on
from parachuted.access.notes import ContextPreview, Hits, NoteChange, NoteEdit, Paths, Upload
from parachuted.access.origin import Taint
from parachuted.errors import ActRefusedError, EditRefusedError, ModuleFailedError
from parachuted.modules.agent_runs import RunAccess
from parachuted.modules.hosting.codec import note_to_json
from parachuted.modules.hosting.framing import AskFrame
from parachuted.modules.hosting.module_runs import ModuleRuns
from parachuted.modules.hosting.pipe_access import PipeMethod, pipe_methods
from parachuted.modules.module import is_every_modules
from parachuted.modules.scheduling import ScheduleAccess
from parachuted.modules.services import (
    ActivityAccess,
    ContextAccess,
    CurrentCall,
    FolderAccess,
    Services,
    StateAccess,
    VaultAccess,
)
from parachuted.vault import printable

MOST_OPEN = 1_000


class OpenCalls:
    """The open calls of one process.

    Untrusted text read on one of them taints all, since they share the process.
    """

    def __init__(self, module: str, taint: Taint) -> None:
        """`taint` is what the module's processes have read; it outlives this one."""
        self._module, self._taint = module, taint
        self._open: dict[int, Authority] = {}

    def check_room(self) -> None:
        """Raises ModuleFailedError while it holds too many."""
        if len(self._open) >= MOST_OPEN:
            raise ModuleFailedError(
                f"the module {self._module} still works on {MOST_OPEN:,} calls, and gets no more "
                "until some have ended; "
                f"`parachute modules restart {self._module}` ends them"
            )

    def open(self, asked: int, authority: Authority) -> None:
        self._open[asked] = authority
        self.read(authority)

    def close(self, asked: int) -> None:
        self._open.pop(asked, None)

    def find(self, of: int | None) -> Authority:
        """The authority of a request that names that call.

        Raises ActRefusedError if the call is not open.
        """
        found = self._open.get(of) if of is not None else None
        if found is None:
            said = (
                "names no call of the daemon"
                if of is None
                else "names a call that has ended, or that there never was"
            )
            raise ActRefusedError(
                f"what the module {self._module} asks {said}: only work that a call led to can "
                "ask for anything"
            )
        if self._taint and not found.taint:
            pass_on(self._taint, found.taint)
        return found

    def read(self, authority: Authority) -> None:
        """What that work has read, the whole process may know."""
        if authority.taint and not self._taint:
            pass_on(authority.taint, self._taint)


_NOTHING = object()
_MOST_UPLOADS = 8
_MOST_IN_BATCH, _MOST_PARTS = 1_500_000, 8_000  # characters; sections and links
# what still fits into a frame; more than that is not even made ready for one, which takes long
_LARGEST = 6_000_000
_ROOMS: Mapping[str, type] = MappingProxyType(
    {
        "vault": VaultAccess,
        "folders": FolderAccess,
        "state": StateAccess,
        "schedules": ScheduleAccess,
        "activity": ActivityAccess,
        "contexts": ContextAccess,
        "runs": RunAccess,
    }
)
_PLAIN = ("publish", "run_agent", "suggest")


class _LimitedRequests:
    """The requests that are not passed on as they are: they have limits, or cross in parts."""

    def __init__(self, services: Services) -> None:
        self._services, self._vault = services, services.vault
        self._uploads: dict[int, _OpenUpload] = {}

    async def vault_search(self, query: str, limit: Annotated[int, Field(ge=0, le=200)]) -> Hits:
        return await self._vault.search(query, limit)

    async def vault_readable(self, paths: Annotated[list[str], Field(max_length=10_000)]) -> Paths:
        return await self._vault.readable(paths)

    async def vault_edit(
        self,
        path: str,
        edits: Annotated[list[NoteEdit], Field(max_length=1_000)],
        base: str | None,
    ) -> str:
        return await self._vault.edit(path, edits, base=base)

    async def vault_edit_all(
        self, changes: Annotated[list[NoteChange], Field(max_length=10_000)], reason: str
    ) -> str:
        return await self._vault.edit_all(changes, reason=reason)

    async def vault_note(self, path: str) -> object:
        note = await self._vault.note(path)
        _check_size(note.text)
        return note_to_json(note)

    async def vault_read_notes(self, paths: Annotated[list[str], Field(max_length=200)]) -> object:
        """The first of these notes, as many as fit into one frame."""
        notes: list[Mapping[str, object]] = []
        shown, left_out = [printable(path) for path in paths], dict[str, str]()
        at = characters = parts = 0
        stream = self._vault.read_notes(paths)
        async for note in stream:
            size, number = len(note.text), len(note.sections) + len(note.links)
            characters, parts = characters + size, parts + number
            at = shown.index(note.path, at)
            if notes and (characters > _MOST_IN_BATCH or parts > _MOST_PARTS):
                break
            if size > _LARGEST or number > _MOST_PARTS:
                left_out[note.path] = f"{note.path} is more than a module's process is given"
            else:
                notes.append(note_to_json(note))
        else:
            at = len(paths)
        left_out |= {path: stream.left_out[path] for path in shown[:at] if path in stream.left_out}
        return {"notes": notes, "left_out": left_out, "read": at}

    async def vault_upload(self, path: str, number: int) -> Upload:
        if number in self._uploads or len(self._uploads) >= _MOST_UPLOADS:
            raise ModuleFailedError(f"it has {len(self._uploads)} uploads open already")
        upload = self._uploads[number] = _OpenUpload()
        try:
            return await self._vault.upload(path, upload.pieces())
        finally:
            del self._uploads[number]
            upload.end()

    async def vault_upload_piece(self, number: int, data: bytes) -> bool:
        upload = self._uploads.get(number)
        return upload is not None and await upload.take(data)

    async def state_get(self, key: str) -> object:
        found = await self._services.state.get(key, _NOTHING)
        return {} if found is _NOTHING else {"value": found}

    async def contexts_preview(
        self, folders: Annotated[list[str], Field(max_length=1_000)], max_tokens: int
    ) -> ContextPreview:
        return await self._services.contexts.preview(folders, max_tokens=max_tokens)

    async def current_call(self) -> CurrentCall:
        return self._services.current_call

    async def has_interface(self, interface: str) -> bool:
        return self._services.get_interface(interface) is not None

    async def interface(
        self, interface: str, method: str, args: list[object], kwargs: dict[str, object]
    ) -> object:
        """Call another module's object: its own methods, never those that every module has, for
        they carry that module's rights.
        """
        found = self._services.get_interface(interface)
        if found is None:
            raise ModuleFailedError(f"no module provides {interface[:80]} now")
        is_its_own = (
            method.isidentifier()
            and not method.startswith("_")
            and not is_every_modules(method, found)
        )
        function = getattr(found, method, None) if is_its_own else None
        if not callable(function):
            raise ModuleFailedError(f"{interface[:80]} has no method {method[:80]}")
        result = function(*args, **kwargs)
        return await result if inspect.isawaitable(result) else result


_LIMITED = pipe_methods(_LimitedRequests)
_METHODS: Mapping[str, PipeMethod] = MappingProxyType(
    {
        **{
            f"{room}.{name}": method
            for room, access in _ROOMS.items()
            for name, method in pipe_methods(access).items()
        },
        **{name: pipe_methods(Services)[name] for name in _PLAIN},
        **{
            name.replace("_", ".", 1) if name.partition("_")[0] in _ROOMS else name: method
            for name, method in _LIMITED.items()
        },
    }
)
VERBS = tuple(_METHODS)
"""All that a module's process can ask for."""


class RequestServer:
    """Answers one module's requests."""

    def __init__(self, services: Services) -> None:
        self._services, self._limited = services, _LimitedRequests(services)

    async def serve(self, ask: AskFrame) -> object:
        """Do what is asked.

        Raises what the services raise, and ModuleFailedError for an invalid request.
        """
        method = _METHODS.get(ask.verb)
        if method is None:
            raise ModuleFailedError(f"a module cannot ask for {ask.verb[:80]!r}")
        asked = method.load_body(ask.body)
        result = self._function(ask.verb)(*asked.args, **asked.kwargs)
        answer = await result if inspect.isawaitable(result) else result
        _check_size(answer)
        return method.dump_result(answer)

    def close(self) -> None:
        """The process is gone: nothing waits for what it had agents do."""
        if isinstance(self._services.runs, ModuleRuns):
            self._services.runs.close()

    def _function(self, verb: str) -> Callable[..., object]:
        limited = verb.replace(".", "_")
        if limited in _LIMITED:
            found = getattr(self._limited, limited)
        else:
            room, _, name = verb.rpartition(".")
            found = getattr(getattr(self._services, room) if room else self._services, name)
        function: Callable[..., object] = found
        return function


class _OpenUpload:
    """The pieces of an upload, one waiting at a time; an empty one is the last."""

    def __init__(self) -> None:
        self._piece: bytes | None = None
        self._is_ended = False
        self._ready, self._taken = asyncio.Event(), asyncio.Event()

    async def take(self, piece: bytes) -> bool:
        """Wait until the one before was taken; False: the upload has ended."""
        while self._piece is not None and not self._is_ended:
            self._taken.clear()
            await self._taken.wait()
        if not self._is_ended:
            self._piece = piece
            self._ready.set()
        return not self._is_ended

    async def pieces(self) -> AsyncIterator[bytes]:
        while True:
            await self._ready.wait()
            self._ready.clear()
            piece, self._piece = self._piece, None
            self._taken.set()
            if not piece:
                return
            yield piece

    def end(self) -> None:
        self._is_ended = True
        self._taken.set()


def _check_size(answer: object) -> None:
    if isinstance(answer, bytes | str) and len(answer) > _LARGEST:
        raise EditRefusedError(
            f"it is larger than {_LARGEST // 1_000_000} MB, which a module in a process of its "
            "own is not given at once"
        )
