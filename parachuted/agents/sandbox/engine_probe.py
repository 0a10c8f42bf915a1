"""A quick check that an engine answers and has the image, for pages that poll every few seconds.

Two requests on the engine's socket, without the `docker` package, which would cost the daemon 8 MB.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass

from parachuted.agents.sandbox.sandbox_spec import BUILT_IMAGE, HOST_IMAGE

_USUAL = "/var/run/docker.sock"
_ANSWER_S = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineProbe:
    """What was seen. An engine that is not behind a socket of this machine is taken for none."""

    is_there: bool
    has_image: bool


async def probe_engine(env: Mapping[str, str]) -> EngineProbe:
    """Look."""
    host = env.get("DOCKER_HOST") or f"unix://{_USUAL}"
    if not host.startswith("unix:"):
        return EngineProbe(is_there=False, has_image=False)
    path = f"/{host.removeprefix('unix:').lstrip('/')}"
    statuses = [await _status(path, f"/images/{image}/json") for image in (BUILT_IMAGE, HOST_IMAGE)]
    return EngineProbe(
        is_there=any(status is not None for status in statuses), has_image=b"200" in statuses
    )


async def _status(path: str, url: str) -> bytes | None:
    """The engine's HTTP status; None if it does not answer."""
    try:
        async with asyncio.timeout(_ANSWER_S):
            reader, writer = await asyncio.open_unix_connection(path)
            try:
                writer.write(f"GET {url} HTTP/1.0\r\nHost: docker\r\n\r\n".encode())
                _, status, *_ = (await reader.readline()).split(b" ")
            finally:
                writer.close()
    except (OSError, TimeoutError, ValueError):
        return None
    return status
