"""Module services: what an untrusted module asks of the daemon, on its container's unix socket."""

from __future__ import annotations

from aiohttp import web

from parachuted.api.http.answers import status_of
from parachuted.api.http.decorators import post
from parachuted.api.http.route import ApiCall, MediaBody
from parachuted.errors import ActRefusedError, ParachuteError
from parachuted.modules.hosting.module_containers import LARGEST, SCOPE, ModuleClient
from parachuted.modules.hosting.service_calls import CALL_HEADER, ERRORS, SERVICES, SentError

_ANSWER = MediaBody(type="application/json", says="What the service returns.")


class ModuleServiceRoutes:
    def __init__(self, client: ModuleClient) -> None:
        self._client = client

    @post(SERVICES, SCOPE, "write", answers={200: _ANSWER}, largest_body=LARGEST)
    async def ask(self, call: ApiCall) -> web.StreamResponse:
        """Call a service of the module's, such as `vault.read`."""
        service, of = call.named("service"), call.request.headers.get(CALL_HEADER, "")
        status = 200
        try:
            if call.named("name") != self._client.name:
                raise ActRefusedError("only the module itself, in its container, can ask for that")
            async with self._client.room(service, call.request.content_length):
                body = await self._client.answer(service, await call.content(), of)
        except (ParachuteError, TypeError, ValueError) as error:
            status = status_of(error) if isinstance(error, ParachuteError) else 422
            body = ERRORS.dump_json(SentError.of(error))
        return web.Response(body=body, status=status, content_type="application/json")
