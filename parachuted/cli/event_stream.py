"""Event stream: follows server-sent events of the running daemon."""

from __future__ import annotations

import http.client
import json
from collections.abc import Iterator, Mapping
from contextlib import closing

from parachuted.cli.client import daemon_record
from parachuted.errors import NoDaemonError, NotFoundError, ParachuteError

TYPE_CHECKING = False  # as in client.py
if TYPE_CHECKING:
    from typing import Any

_SILENCE_S = 180.0  # the daemon gives a sign of life every 15 s
_NOT_FOUND, _REFUSED = 404, 400


def follow_events(method: str, path: str, body: Mapping[str, object]) -> Iterator[Any]:
    """The data of each event, as JSON, until the stream ends.

    Raises NoDaemonError, NotFoundError, and ParachuteError with the daemon's own sentence.
    """
    record = daemon_record()
    headers = {"Content-Type": "application/json", "Accept": "text/event-stream"}
    if "token" in record:
        headers["Authorization"] = f"Bearer {record['token']}"
    with closing(
        http.client.HTTPConnection(
            str(record["host"]), int(str(record["port"])), timeout=_SILENCE_S
        )
    ) as connection:
        try:
            connection.request(method, path, json.dumps(body), headers)
            response = connection.getresponse()
            if response.status >= _REFUSED:
                raise _refusal(response.status, response.read())
            for line in response:
                if line.startswith(b"data:"):
                    yield json.loads(line.removeprefix(b"data:"))
        except (OSError, http.client.HTTPException, ValueError) as error:
            raise NoDaemonError(
                f"the connection to the daemon was lost ({error}); the answer goes on there"
            ) from error


def _refusal(status: int, text: bytes) -> ParachuteError:
    try:
        message = str(json.loads(text)["message"])
    except (ValueError, KeyError, TypeError):
        message = f"the daemon answered {status}"
    return (NotFoundError if status == _NOT_FOUND else ParachuteError)(message)
