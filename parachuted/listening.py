"""Listening: sockets that accept connections before the server is ready to answer."""

from __future__ import annotations

import socket

from parachuted.errors import DaemonError

BACKLOG = 256


def listening_sockets(host: str, port: int) -> list[socket.socket]:
    """A socket for each address of the host, all on one port, 0 for a free one.

    Raises DaemonError when it cannot be used.
    """
    made: list[socket.socket] = []
    try:
        for family, kind, protocol, _name, address in socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        ):
            one = socket.socket(family, kind, protocol)
            made.append(one)
            one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                one.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            one.bind(
                (address[0], made[0].getsockname()[1] if len(made) > 1 else port, *address[2:])
            )
            one.listen(BACKLOG)
            one.settimeout(0)
    except OSError as error:
        for one in made:
            one.close()
        raise DaemonError(
            f"port {port} cannot be used ({error.strerror}); choose another with --port"
        ) from error
    return made
