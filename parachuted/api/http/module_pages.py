"""The pages of modules: files of a module's own folder, as they were approved."""

from __future__ import annotations

import asyncio
import hashlib
import os
from functools import partial
from pathlib import Path
from types import MappingProxyType

from aiohttp import web

from parachuted.api.http.preconditions import etags
from parachuted.api.http.route import ApiCall, Route
from parachuted.modules.hosting.manager import ModuleManager
from parachuted.modules.registry.approved import ApprovedModule

_INDEX = "index.html"
_LARGEST = 16 << 20
_NO_NAMES = frozenset({"", ".", ".."})
_TYPES = MappingProxyType(
    {
        ".html": "text/html; charset=utf-8",
        ".css": "text/css; charset=utf-8",
        ".js": "text/javascript; charset=utf-8",
        ".mjs": "text/javascript; charset=utf-8",
        ".json": "application/json; charset=utf-8",
        ".txt": "text/plain; charset=utf-8",
        ".svg": "image/svg+xml",
        ".png": "image/png",
        ".jpg": "image/jpeg",
        ".webp": "image/webp",
        ".ico": "image/x-icon",
        ".woff2": "font/woff2",
        ".wasm": "application/wasm",
    }
)
_COMMON = "base-uri 'none'; object-src 'none'; frame-ancestors 'none'"
_TRUSTED = (
    f"default-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data: blob:; {_COMMON}"
)
_UNTRUSTED = (
    "sandbox allow-scripts; default-src 'none'; script-src 'unsafe-inline'; style-src "
    f"'unsafe-inline'; img-src data:; {_COMMON}"
)
"""A page of the daemon's origin may do what its reader may, so one of a module that is not trusted
is of no origin: it reaches nothing, this API neither, and is one file.
"""


class ModulePages:
    """Finds the file that answers, among those of the modules that run."""

    def __init__(self, modules: ModuleManager) -> None:
        self._modules = modules

    def find(self, method: str, path: str) -> Route | None:
        """The route of that path, in which only `%2F` and `%25` are encoded."""
        if method not in {"GET", "HEAD"}:
            return None
        for declared in self._modules.declared():
            approved = self._modules.approved(declared.name)
            static = None if approved is None else approved.manifest.static
            if approved is None or static is None:
                continue
            base = f"{approved.manifest.prefix}/{static.prefix}"
            if path == base or path.startswith(f"{base}/"):
                return Route(
                    method=method,
                    path=f"{base}/{{path}}",
                    module=approved.name,
                    capability="read",
                    reach="nothing",
                    summary="A page of the module.",
                    handle=partial(_answer, approved, base, path.removeprefix(base)),
                    recorded_as="module_call",
                )
        return None


async def _answer(
    approved: ApprovedModule, base: str, rest: str, call: ApiCall
) -> web.StreamResponse:
    if not rest:
        return web.Response(status=308, headers={"Location": f"{base}/"})
    names = rest.removeprefix("/").split("/")
    if names[-1] == "":
        names[-1] = _INDEX
    static = approved.manifest.static
    if static is None or any(_is_odd(name) for name in names):
        raise web.HTTPNotFound(text="there is no such page")
    file = approved.copy.joinpath(static.folder, *names)
    data = await asyncio.to_thread(_read, file, approved.copy)
    tag = hashlib.sha256(data).hexdigest()
    headers = {
        "ETag": f'"{tag}"',
        "Cache-Control": "private, no-cache",
        "X-Content-Type-Options": "nosniff",
        "Content-Type": _TYPES.get(file.suffix.lower(), "application/octet-stream"),
        "Content-Security-Policy": _UNTRUSTED if approved.trust == "untrusted" else _TRUSTED,
    }
    if not {tag, "*"}.isdisjoint(etags(call.request.headers.get("If-None-Match"))):
        return web.Response(status=304, headers={"ETag": f'"{tag}"'})
    return web.Response(body=data, headers=headers)


def _is_odd(name: str) -> bool:
    return name in _NO_NAMES or name.startswith(".") or "%" in name or "\\" in name or "\0" in name


def _read(file: Path, copy: Path) -> bytes:
    """The bytes of a file of the copy; 404 for all else. Links are not followed."""
    try:
        if file.resolve() != copy.resolve() / file.relative_to(copy):
            raise web.HTTPNotFound(text="there is no such page")
        descriptor = os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(descriptor, "rb") as opened:
            return opened.read(_LARGEST)
    except OSError as error:
        raise web.HTTPNotFound(text="there is no such page") from error
