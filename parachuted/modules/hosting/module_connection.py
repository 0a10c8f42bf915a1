"""Calls of a module in a container, over its unix socket. What it answers is not trusted."""

from __future__ import annotations

import asyncio
import base64
import json
import os
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import aiohttp
from pydantic import TypeAdapter

from parachuted.access.authority import Authority
from parachuted.agents.sandbox import Container
from parachuted.errors import ModuleFailedError
from parachuted.modules.hosting.module_clients import ModuleClient
from parachuted.modules.hosting.module_containers import ContainerPlace
from parachuted.modules.hosting.service_calls import CALL_HEADER, error_of, json_of
from parachuted.modules.results import BytesResponse, FileResponse, Response
from parachuted.modules.streams import OPENED, BodySource, ServerEvent

_GRACE_S = 2.0
_LARGEST_ANSWER, _LARGEST_LINE = 64 << 20, 16 << 20
_LARGE = 1 << 16  # takes long enough to read that the loop leaves it to a thread
_OK = 200


class ModuleConnection:
    """Calls of one container, each with an id that its requests name."""

    def __init__(
        self,
        name: str,
        place: ContainerPlace,
        client: ModuleClient,
        container: Container,
        report: Callable[[object], None],
    ) -> None:
        """`report` takes the module's problem, which a refusal tells too."""
        self._report = report
        self._name, self._client, self._container = name, client, container
        self._socket = place.socket()
        self._open: set[aiohttp.ClientResponse] = set()
        self._session = aiohttp.ClientSession(
            "http://module",
            connector=aiohttp.UnixConnector(f"/proc/self/fd/{self._socket}", limit=0),
            timeout=aiohttp.ClientTimeout(total=None),
            cookie_jar=aiohttp.DummyCookieJar(),
            auto_decompress=False,
        )

    async def close(self) -> None:
        """Whatever is still read ends with a failure: the session's end alone would not tell it."""
        for response in tuple(self._open):
            response.close()
        await self._session.close()
        os.close(self._socket)

    async def ask(
        self,
        verb: str,
        body: Mapping[str, object],
        timeout_s: float,
        authority: Authority | None = None,
        source: BodySource | None = None,
    ) -> Any:  # noqa: ANN401  JSON
        """It enforces the limit itself; one that does not answer even so is blocked, and is
        ended.
        """
        try:
            async with (
                asyncio.timeout(timeout_s + _GRACE_S),
                self._asked(verb, body, authority, source) as response,
            ):
                data = await _whole(response)
        except TimeoutError as error:
            said = f"the container of the module {self._name} did not answer within {timeout_s:g} s"
            self._container.end_soon(said)
            raise ModuleFailedError(f"{said}, and was ended") from error
        found = await asyncio.to_thread(json_of, data) if len(data) > _LARGE else json_of(data)
        if response.status != _OK:
            raise self._error(found)
        return found

    async def lines(
        self,
        verb: str,
        body: Mapping[str, object],
        authority: Authority,
        source: BodySource | None,
    ) -> AsyncIterator[Any]:
        async with self._asked(verb, body, authority, source) as response:
            if response.status != _OK:
                raise self._error(json_of(await _whole(response)))
            rest = b""
            async for piece in response.content.iter_any():
                *whole, rest = (rest + piece).split(b"\n")
                if len(rest) > _LARGEST_LINE:
                    raise ModuleFailedError("an item of the stream is longer than 16 MB")
                for line in whole:
                    item = json_of(line)
                    if not isinstance(item, dict) or "error" in item:
                        raise self._error(item)
                    if "end" in item:
                        return
                    yield item
        raise ModuleFailedError(f"the stream of the module {self._name} was cut short")

    def _error(self, found: object) -> Exception:
        if isinstance(found, dict) and "problem" in found:
            self._report(found["problem"])
        return error_of(found)

    @asynccontextmanager
    async def _asked(
        self,
        verb: str,
        body: Mapping[str, object],
        authority: Authority | None,
        source: BodySource | None,
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        """Without an authority it is the module's start, or asks for no work."""
        async with AsyncExitStack() as stack:
            headers = {"Content-Type": "application/json"}
            if authority is None:
                headers[CALL_HEADER] = self._client.own_call
            else:
                headers[CALL_HEADER] = stack.enter_context(self._client.opened(authority, source))
            if verb in {"call", "stream"}:
                kept = (
                    {"content_type": source.content_type, "size": source.size} if source else None
                )
                body = {**body, "source": kept}
            try:
                response = await stack.enter_async_context(
                    self._session.post(
                        f"/{verb}",
                        data=json.dumps(body).encode(),
                        headers=headers,
                        allow_redirects=False,
                    )
                )
                self._open.add(response)
                stack.callback(self._open.discard, response)
                yield response
            except aiohttp.ClientError as error:
                raise ModuleFailedError(
                    f"the container of the module {self._name} ended before it had answered"
                ) from error


async def _whole(response: aiohttp.ClientResponse) -> bytes:
    data = bytearray()
    async for piece in response.content.iter_any():
        data += piece
        if len(data) > _LARGEST_ANSWER:
            raise ModuleFailedError(f"the answer is longer than {_LARGEST_ANSWER:,} bytes")
    return bytes(data)


_KINDS = (Response, FileResponse, ServerEvent, BytesResponse)
_NAMES = ("response", "file", "event", "bytes")
_RESULTS = {name: TypeAdapter[Any](kind) for name, kind in zip(_NAMES, _KINDS, strict=True)}


def item_of(found: Mapping[str, Any]) -> object:
    """What a handler answered or streamed. Raises ModuleFailedError: it is not trusted."""
    try:
        fields = dict(found)
        kind = fields.pop("kind")
        if kind == "bytes":
            fields["data"] = base64.b64decode(fields["data"])
        if kind in _RESULTS:
            return _RESULTS[kind].validate_python(fields)
        return OPENED if kind == "opened" else fields["value"]
    except (TypeError, ValueError, KeyError) as error:
        raise ModuleFailedError("the module's container gave an invalid answer") from error
