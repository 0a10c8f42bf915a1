"""Load: clients that ask again and again over raw sockets, cheap enough that it is the server who
is measured. Run as a program: JSON.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from dataclasses import dataclass, field
from functools import partial


@dataclass
class Tally:
    """What all clients together saw: milliseconds an answer, and answers that were not 200."""

    until: float
    spans_ms: list[float] = field(default_factory=list)
    refused: int = 0


class Asker(asyncio.Protocol):
    """One connection: asks, waits for the whole answer, asks again."""

    def __init__(self, request: bytes, tally: Tally, done: asyncio.Future[None]) -> None:
        self._request, self._tally, self._done = request, tally, done
        self._got = b""
        self._asked = 0.0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Ask for the first time."""
        assert isinstance(transport, asyncio.Transport)  # noqa: S101  for the types
        self._transport = transport
        self._ask()

    def data_received(self, data: bytes) -> None:
        """Ask again once all of an answer is there."""
        self._got += data
        head, mark, body = self._got.partition(b"\r\n\r\n")
        if not mark:
            return
        at = head.lower().find(b"content-length:")
        length = int(head[at + 15 :].split(b"\r\n", 1)[0])
        if len(body) < length:
            return
        now = time.perf_counter()
        self._tally.spans_ms.append((now - self._asked) * 1e3)
        self._tally.refused += not head.startswith(b"HTTP/1.1 200")
        self._got = b""
        if now < self._tally.until:
            self._ask()
        else:
            self._transport.close()

    def connection_lost(self, _error: Exception | None) -> None:
        """Done."""
        if not self._done.done():
            self._done.set_result(None)

    def _ask(self) -> None:
        self._asked = time.perf_counter()
        self._transport.write(self._request)


async def ask(port: int, path: str, clients: int, seconds: float, headers: str = "") -> Tally:
    """Ask for so long with so many clients."""
    loop = asyncio.get_running_loop()
    tally = Tally(until=time.perf_counter() + seconds)
    request = f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n{headers}\r\n".encode()
    ends = [loop.create_future() for _ in range(clients)]
    for end in ends:
        await loop.create_connection(partial(Asker, request, tally, end), "127.0.0.1", port)
    await asyncio.gather(*ends)
    return tally


if __name__ == "__main__":
    spoken = json.loads(sys.argv[1])
    tally = asyncio.run(ask(**spoken))
    print(json.dumps({"spans_ms": tally.spans_ms, "refused": tally.refused}))
