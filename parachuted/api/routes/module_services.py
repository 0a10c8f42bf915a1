"""Module services: what an untrusted module asks of the daemon, on its container's unix socket."""

from __future__ import annotations

from aiohttp import web

from parachuted.api.http.answers import json_answer, status_of
from parachuted.api.http.decorators import post
from parachuted.api.http.route import ApiCall, MediaBody
from parachuted.errors import ParachuteError
from parachuted.modules.hosting.module_containers import LARGEST, SCOPE, ModuleContainers
from parachuted.modules.hosting.service_calls import CALL_HEADER, SERVICES, error_document

_ANSWER = MediaBody(type="application/json", says="What the service returns.")


class ModuleServiceRoutes:
    def __init__(self, containers: ModuleContainers) -> None:
        self._containers = containers

    @post(SERVICES, SCOPE, "write", answers={200: _ANSWER}, largest_body=LARGEST)
    async def ask(self, call: ApiCall) -> web.StreamResponse:
        """Call a service of the module's, such as `vault.read`."""
        client = self._containers.find_client(call.identity.api_key, call.named("name"))
        service, of = call.named("service"), call.request.headers.get(CALL_HEADER, "")
        try:
            async with client.room(service, call.request.content_length):
                body = await client.answer(service, await call.content(), of)
            return web.Response(body=body, content_type="application/json")
        except (ParachuteError, TypeError, ValueError) as error:
            status = status_of(error) if isinstance(error, ParachuteError) else 422
            return json_answer(error_document(error), status=status)
