"""Docs: the API's description as an OpenAPI document, and as a page that shows it."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import re
from collections.abc import Callable, Sequence
from pathlib import Path

from aiohttp import web

from parachuted.api.http.answers import JSON, json_bytes
from parachuted.api.http.decorators import get
from parachuted.api.http.openapi import describe
from parachuted.api.http.route import KNOWN, ApiCall, MediaBody, Route
from parachuted.events import EventKind
from parachuted.modules.registry.declaration import ModuleDeclaration

_PAGE = Path(__file__).with_name("docs.html")


class DocsRoutes:
    def __init__(
        self,
        described: Sequence[Route],
        modules: Callable[[], list[ModuleDeclaration]],
        events: Callable[[], list[EventKind]],
    ) -> None:
        """`described` may grow until the first request."""
        self._described, self._modules, self._events = described, modules, events
        self._page = _PAGE.read_text("utf-8")
        self._making = asyncio.Lock()
        self._body, self._tag = b"", ""
        self._of: object = None

    @get(
        "/api/openapi.json",
        "system",
        "read",
        answers={200: dict[str, object], 304: None},
        headers={"If-None-Match": KNOWN},
    )
    async def document(self, call: ApiCall) -> web.Response:
        """This description.

        Built in a thread, at the first request and when the running modules have changed.
        """
        async with self._making:
            now = (self._modules(), self._events())
            if now != self._of:
                document = await asyncio.to_thread(describe, self._described, *now)
                self._body, self._of = json_bytes(document), now
                self._tag = f'"{hashlib.sha256(self._body).hexdigest()[:32]}"'
            body, headers = self._body, {"ETag": self._tag}
        if call.request.headers.get("If-None-Match") == headers["ETag"]:
            return web.Response(status=304, headers=headers)
        return web.Response(body=body, headers={**headers, "Content-Type": JSON})

    @get("/api/docs", "system", None, answers={200: MediaBody(type="text/html", says="The page.")})
    async def page(self) -> web.Response:
        """This description as a web page.

        The page requests the document with its reader's key.
        """
        policy = {"Content-Security-Policy": _policy(self._page)}
        return web.Response(text=self._page, content_type="text/html", headers=policy)


def _policy(page: str) -> str:
    """A browser may run the page's own script and style, known by digest, and call the daemon."""
    script, style = (_digest(page, name) for name in ("script", "style"))
    return (
        f"default-src 'none'; script-src {script}; style-src {style}; connect-src 'self'; img-src "
        "data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
        "require-trusted-types-for 'script'; trusted-types 'none'"
    )


def _digest(page: str, name: str) -> str:
    (text,) = re.findall(rf"<{name}>(.*?)</{name}>", page, re.DOTALL)
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
