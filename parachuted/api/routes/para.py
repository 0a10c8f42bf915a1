"""Para: a thing of any module, found by its para-id alone."""

from __future__ import annotations

import asyncio
import logging
from typing import Annotated

from aiohttp import web
from pydantic import ConfigDict, Field, StringConstraints, TypeAdapter, ValidationError
from pydantic.dataclasses import dataclass
from typing_extensions import TypedDict

from parachuted.api.http.decorators import get
from parachuted.api.http.module_dispatcher import ModuleDispatcher
from parachuted.api.http.route import ApiCall
from parachuted.errors import ModuleFailedError, NotFoundError, ParachuteError
from parachuted.modules.hosting.manager import ModuleManager
from parachuted.modules.hosting.running_module import RunningModule
from parachuted.vault import VaultPath

log = logging.getLogger(__name__)

_LIMIT_S = 5
_LONGEST = 500
_Text = Annotated[str, StringConstraints(max_length=_LONGEST)]


class ParaResponse(TypedDict):
    """What has that id. `path` is its file in the vault, `url` where this API answers with it."""

    para_id: str
    module: str
    type: str
    path: str | None
    title: str
    url: str | None


@dataclass(frozen=True, slots=True, kw_only=True, config=ConfigDict(extra="ignore"))
class _Found:
    para_id: _Text
    type: _Text = ""
    path: str | None = None
    title: _Text = ""
    url: Annotated[str, Field(pattern=r"^/api/[^\\\s]*$", max_length=_LONGEST)] | None = None


_FOUND = TypeAdapter(_Found)


class ParaRoutes:
    def __init__(self, modules: ModuleManager, dispatcher: ModuleDispatcher) -> None:
        self._modules, self._dispatcher = modules, dispatcher

    @get(
        "/api/para/{id}",
        "vault",
        "read",
        reach="paths",
        names={
            "id": "The para-id, such as para:brain:k3v1n0000000; each module knows older forms."
        },
        errors=(502,),
    )
    async def find(self, call: ApiCall, id_: str) -> ParaResponse:
        """Find a thing of any module by its para-id.

        Asks the modules that the caller may read in, the one that the id names first. A thing whose
        file the caller may not read is not found.
        """
        if len(id_) > _LONGEST:
            raise web.HTTPBadRequest(text=f"a para-id has at most {_LONGEST} characters")
        named = id_.removeprefix("para:").partition(":")[0]
        failed: list[str] = []
        for running in sorted(self._modules.running(), key=lambda one: one.declared.name != named):
            try:
                found = await self._ask(call, running, id_)
            except ModuleFailedError:
                failed.append(running.declared.name)
                continue
            if found is not None:
                return found
        if failed:
            raise ModuleFailedError(
                f"{id_} was not found, and {' and '.join(failed)} could not say whether it is there"
            )
        raise NotFoundError(f"{id_} is not known to any module")

    async def _ask(
        self, call: ApiCall, running: RunningModule, para_id: str
    ) -> ParaResponse | None:
        """What that module finds. Raises ModuleFailedError."""
        module = running.declared.name
        grant = call.identity.grant(module, "read")
        if not running.declared.finds_para or grant is None:
            return None
        try:
            answer = await running.call(
                "find_para",
                {"para_id": para_id},
                timeout_s=_LIMIT_S,
                authority=self._dispatcher.authority(call, grant),
            )
            found = None if answer is None else _FOUND.validate_python(answer)
            path = None if found is None or not found.path else VaultPath.parse(found.path)
            if path is not None:
                await asyncio.to_thread(call.sight.find, path)
        except NotFoundError:
            return None
        except ValidationError as error:
            log.warning(
                "a module answers with a thing that is none",
                extra={"of": module, "error": error.errors(include_url=False)[0]["msg"]},
            )
            raise ModuleFailedError(f"{module} answers with a thing that is none") from error
        except ParachuteError as error:
            raise ModuleFailedError(error.message) from error
        if found is None:
            return None
        call.para_ids.append(found.para_id)
        call.touched += [path] if path else []
        return {
            "para_id": found.para_id,
            "module": module,
            "type": found.type,
            "path": found.path or None,
            "title": found.title,
            "url": found.url,
        }
