"""Module services: what an untrusted module in its container asks of the daemon, with the key that
it was given. Served on the unix socket of its container, and nowhere else.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping

from aiohttp import web

from parachuted.api.http.answers import json_answer, json_bytes, status_of
from parachuted.api.http.decorators import post, put
from parachuted.api.http.route import ApiCall, MediaBody, RequestModel
from parachuted.errors import ParachuteError
from parachuted.modules.hosting.module_clients import LARGEST, SCOPE, ModuleClients
from parachuted.modules.hosting.service_calls import (
    CALL_HEADER,
    SERVICES,
    UPLOADS,
    error_document,
)

_READ_NOTES = "vault.read_notes"
_LARGEST_FILE = 4 << 30

_ANSWER = MediaBody(type="application/json", says="What the service returns.")


class UploadQuery(RequestModel):
    """The new file, relative to the vault."""

    path: str


class ModuleServiceRoutes:
    def __init__(self, clients: ModuleClients) -> None:
        self._clients = clients

    @post(
        SERVICES,
        SCOPE,
        "write",
        reach="nothing",
        answers={200: _ANSWER},
        errors=(502,),
        largest_body=LARGEST,
    )
    async def ask(self, call: ApiCall) -> web.StreamResponse:
        """Call a service of the module's, such as `vault.read`."""
        client = self._clients.find(call.identity.api_key, call.named("name"))
        of = call.request.headers.get(CALL_HEADER, "")
        service = call.named("service")
        if service == _READ_NOTES:
            return await _streamed(call, client.read_notes(await call.content(), of))
        kind = "application/octet-stream" if service == "body.read" else "application/json"
        async with client.room(call.request.content_length):
            body = await call.content()
            return await _answered(lambda: client.answer(service, body, of), kind)

    @put(
        UPLOADS,
        SCOPE,
        "write",
        reach="nothing",
        query=UploadQuery,
        answers={200: _ANSWER},
        errors=(502,),
        largest_body=_LARGEST_FILE,
    )
    async def upload(self, call: ApiCall) -> web.StreamResponse:
        """Make a new file of the body."""
        client = self._clients.find(call.identity.api_key, call.named("name"))
        path, of = call.query(UploadQuery).path, call.request.headers.get(CALL_HEADER, "")
        return await _answered(lambda: client.upload(path, call.chunks(), of), "application/json")


async def _answered(answer: Callable[[], Awaitable[bytes]], kind: str) -> web.Response:
    try:
        return web.Response(body=await answer(), content_type=kind)
    except (ParachuteError, TypeError, ValueError) as error:
        return _refusal(error)


def _refusal(error: Exception) -> web.Response:
    status = status_of(error) if isinstance(error, ParachuteError) else 422
    return json_answer(error_document(error), status=status)


async def _streamed(
    call: ApiCall, items: AsyncIterator[Mapping[str, object]]
) -> web.StreamResponse:
    """A line for each; an error is the last line."""
    response = web.StreamResponse(headers={"Content-Type": "application/x-ndjson"})
    await response.prepare(call.request)
    try:
        async for item in items:
            await response.write(json_bytes(item) + b"\n")
    except (ParachuteError, TypeError, ValueError) as error:
        await response.write(json_bytes(error_document(error)) + b"\n")
    return response
