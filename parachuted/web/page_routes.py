"""Page routes: the page at `/`, and its files below `/web/`.

They hold nothing of the vault and need no key: what the page shows, it asks the API for.
"""

from __future__ import annotations

import asyncio
import secrets

from aiohttp import web

from parachuted.api.http.decorators import get
from parachuted.api.http.route import KNOWN, ApiCall, MediaBody
from parachuted.web.page_files import PageFiles

_MEDIA = MediaBody(
    type="application/octet-stream", says="The file, as its name says: a script, a style, a text."
)
_FOR_EVER = "public, max-age=31536000, immutable"
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self' 'nonce-{nonce}'; img-src 'self' blob: "
    "data:; media-src 'self' blob:; font-src 'self'; connect-src 'self'; manifest-src 'self'; "
    "worker-src 'self'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types dompurify workers"
)

_OF_FILES = "default-src 'none'; script-src 'self'"  # of a worker


class PageRoutes:
    def __init__(self, files: PageFiles | None = None) -> None:
        self._files = files or PageFiles()

    @get(
        "/",
        "system",
        None,
        answers={200: MediaBody(type="text/html", says="The page.")},
    )
    async def page(self) -> web.Response:
        """The web page, for a browser.

        The nonce lets the editor add its own styles, and nothing else.
        """
        await asyncio.to_thread(self._files.look)
        nonce = secrets.token_urlsafe(16)
        return web.Response(
            text=self._files.index().replace("{nonce}", nonce),
            content_type="text/html",
            headers={
                "Content-Security-Policy": _POLICY.format(nonce=nonce),
                "X-DNS-Prefetch-Control": "off",  # a link that is only shown asks for no address
                "Cross-Origin-Opener-Policy": "same-origin",
                "Permissions-Policy": "camera=(), geolocation=(), microphone=(self)",
            },
        )

    @get(
        "/service-worker.js",
        "system",
        None,
        answers={200: MediaBody(type="text/javascript", says="The script.")},
    )
    async def service_worker(self) -> web.Response:
        """The page's service worker, by which a browser opens it while the daemon is away.

        It stands at the top, since a browser lets it answer only for what is below it.
        """
        await asyncio.to_thread(self._files.look)
        return web.Response(
            text=self._files.service_worker(),
            content_type="text/javascript",
            headers={
                "Cache-Control": "no-cache",
                "Content-Security-Policy": "default-src 'none'; connect-src 'self'",
            },
        )

    @get(
        "/web/{version}/{name:.+}",
        "system",
        None,
        answers={200: _MEDIA, 304: None},
        names={
            "version": "The digest over all files of the page, as the page names it.",
            "name": "The file. It may hold slashes.",
        },
        headers={"If-None-Match": KNOWN},
    )
    async def file(self, call: ApiCall) -> web.Response:
        """A file of the web page. Its address holds a digest, so a browser may keep it."""
        file = self._files.find(call.named("version"), call.named("name"))
        if file is None:
            await asyncio.to_thread(self._files.look)  # the first request since the start
            file = self._files.find(call.named("version"), call.named("name"))
        if file is None:
            raise web.HTTPNotFound(
                text="the page has no such file; if it was open during an update, load it again"
            )
        headers = {
            "ETag": file.tag,
            "Cache-Control": _FOR_EVER,
            "Vary": "Accept-Encoding",
            "Content-Security-Policy": _OF_FILES,
            "X-DNS-Prefetch-Control": "off",
        }
        if call.request.headers.get("If-None-Match") == file.tag:
            return web.Response(status=304, headers=headers)
        body = file.body
        if file.packed is not None and "gzip" in call.request.headers.get("Accept-Encoding", ""):
            body, headers["Content-Encoding"] = file.packed, "gzip"
        charset = "utf-8" if file.type.startswith("text/") else None
        return web.Response(body=body, content_type=file.type, charset=charset, headers=headers)
