"""Docs: the API's description, for programs as an OpenAPI document and for people as a page that
shows it.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import re
from collections.abc import Callable, Sequence
from pathlib import Path

from aiohttp import web

from parachuted.api.http.answers import json_bytes
from parachuted.api.http.decorators import get
from parachuted.api.http.module_paths import add_modules
from parachuted.api.http.openapi import describe
from parachuted.api.http.preconditions import KNOWN
from parachuted.api.http.route import ApiCall, MediaBody, Route
from parachuted.events import EventKind
from parachuted.modules.registry.declaration import ModuleDeclaration

_PAGE = Path(__file__).with_name("docs.html")


class DocsRoutes:
    """The routes that describe all others, and themselves."""

    def __init__(
        self,
        described: Sequence[Route],
        modules: Callable[[], list[ModuleDeclaration]],
        events: Callable[[], list[EventKind]],
    ) -> None:
        """`described` may still grow until the first request; `modules` are those that run just
        now, and `events` the kinds that there are with them.
        """
        self._described, self._modules, self._events = described, modules, events
        self._page = _PAGE.read_text("utf-8")
        self._making = asyncio.Lock()
        self._document: tuple[bytes, str] | None = None
        self._of: tuple[list[ModuleDeclaration], list[EventKind]] = ([], [])

    @get(
        "/api/openapi.json",
        "system",
        "read",
        reach="nothing",
        answers={200: dict[str, object], 304: None},
        headers={"If-None-Match": KNOWN},
    )
    async def document(self, call: ApiCall) -> web.Response:
        """This description.

        Built in a thread, at the first request and when the running modules have changed.
        """
        async with self._making:
            now = (self._modules(), self._events())
            if self._document is None or now != self._of:
                self._document, self._of = await asyncio.to_thread(self._make, *now), now
            body, tag = self._document
        if call.request.headers.get("If-None-Match") == tag:
            return web.Response(status=304, headers={"ETag": tag})
        return web.Response(
            body=body, headers={"ETag": tag}, content_type="application/json", charset="utf-8"
        )

    @get(
        "/api/docs",
        "system",
        None,
        reach="nothing",
        answers={200: MediaBody(type="text/html", says="The page.")},
    )
    async def page(self) -> web.Response:
        """This description as a web page.

        The page requests the document with its reader's key.
        """
        return web.Response(
            text=self._page,
            content_type="text/html",
            headers={"Content-Security-Policy": _policy(self._page)},
        )

    def _make(
        self, modules: Sequence[ModuleDeclaration], events: Sequence[EventKind]
    ) -> tuple[bytes, str]:
        document = describe(self._described)
        add_modules(document, modules)
        document["x-events"] = {
            kind.name: {
                "description": kind.tells,
                "x-module": kind.publisher or "core",
                "x-scope": f"{kind.scope}:read",
                "data": kind.schema(),
            }
            for kind in events
        }
        body = json_bytes(document)
        return body, f'"{hashlib.sha256(body).hexdigest()[:32]}"'


def _policy(page: str) -> str:
    """What a browser may run and load for that page: its own script and style, known by their
    digests, and calls to the daemon.
    """
    script, style = (_digest(page, name) for name in ("script", "style"))
    return (
        f"default-src 'none'; script-src {script}; style-src {style}; connect-src 'self'; img-src "
        "data:; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for "
        "'script'; trusted-types 'none'"
    )


def _digest(page: str, name: str) -> str:
    (text,) = re.findall(rf"<{name}>(.*?)</{name}>", page, re.DOTALL)
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
