"""The context of folders for a module, within what it may read; and the same over the pipe."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from parachuted.access.authority import Authority
from parachuted.access.context_preview import ContextPreview
from parachuted.context import DEFAULT_TOKENS, ContextAssembly
from parachuted.errors import ModuleFailedError
from parachuted.modules.hosting.remote_vault import PipeCaller
from parachuted.modules.results import to_json
from parachuted.modules.services import ContextAccess, VaultAccess
from parachuted.runs.bounds import ModuleBounds

_PREVIEW: TypeAdapter[ContextPreview] = TypeAdapter(ContextPreview)


class ModuleContexts:
    """`ContextAccess` in the daemon."""

    def __init__(
        self,
        assembly: ContextAssembly,
        vault: VaultAccess,
        bounds: ModuleBounds,
        authority: Callable[[], Authority],
    ) -> None:
        self._assembly, self._vault = assembly, vault
        self._bounds, self._authority = bounds, authority

    async def preview(
        self, folders: Sequence[str], *, max_tokens: int = DEFAULT_TOKENS
    ) -> ContextPreview:
        authority = self._authority()
        authority.check()
        bounds = self._bounds.limited(authority.reads, authority.writes)
        return await self._assembly.load(
            folders, sees=bounds.may_read, read=self._vault.read, max_tokens=max_tokens
        )


class RemoteContexts:
    """`ContextAccess` in the module's process."""

    def __init__(self, asker: PipeCaller) -> None:
        self._asker = asker

    async def preview(
        self, folders: Sequence[str], *, max_tokens: int = DEFAULT_TOKENS
    ) -> ContextPreview:
        body = {"folders": list(folders), "max_tokens": max_tokens}
        return _PREVIEW.validate_python(await self._asker.ask("contexts.preview", body))


class _Preview(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)
    folders: list[str] = Field(max_length=1_000)
    max_tokens: int


async def serve_contexts(access: ContextAccess, verb: str, body: Mapping[str, object]) -> object:
    """Do what the module's process asks. Raises ModuleFailedError for what is no request."""
    if verb != "preview":
        raise ModuleFailedError(f"a module cannot ask for contexts.{verb[:80]}")
    try:
        asked = _Preview.model_validate(body)
    except ValidationError as error:
        raise ModuleFailedError("what the module asks is not as it should be") from error
    return to_json(await access.preview(asked.folders, max_tokens=asked.max_tokens))
