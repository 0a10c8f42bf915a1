"""Shapes: answers held against what their routes declare, strictly: no field missing, none too
many, no number as a text.
"""

from __future__ import annotations

import json

import aiohttp
from aiohttp import web
from pydantic import TypeAdapter
from typing_extensions import is_typeddict

from parachuted.api.http.route import Route
from tests.stories.daemon_rig import DaemonRig


def declared(daemon_rig: DaemonRig, method: str, path: str) -> Route:
    """The route of that name."""
    app: web.Application = daemon_rig.daemon.http.make_app()
    return next(
        route.handler.__self__
        for route in app.router.routes()
        if (route.method, route.resource.canonical) == (method, path)
    )


async def answer_of(
    daemon_rig: DaemonRig,
    method: str,
    path: str,
    *,
    name: str = "",
    status: int = 200,
    **options: object,
) -> dict:
    """The JSON of a call, which has that status and the shape declared for it.

    `name`: the route's path, where it holds names.
    """
    async with (
        aiohttp.ClientSession() as session,
        session.request(method, daemon_rig.url + path, **options) as answer,
    ):
        data = await answer.read()
        assert answer.status == status, data
        assert answer.content_type == "application/json"
    shape = declared(daemon_rig, method, name or path.partition("?")[0]).answers[status]
    assert is_typeddict(shape), shape
    return strict(shape, data)


def strict(shape: type, data: bytes) -> dict:
    """The document, which is exactly of that shape."""
    document = json.loads(data)
    adapter = TypeAdapter(shape)
    reported = adapter.dump_python(adapter.validate_json(data, strict=True), mode="json")
    assert reported == document  # a name that is not declared would be missing
    return document
