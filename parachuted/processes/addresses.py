"""Addresses: sockets that listen, where other machines reach them, and an address as a QR code."""

from __future__ import annotations

import socket
from collections.abc import Sequence
from ipaddress import ip_address

from parachuted.errors import DaemonError

BACKLOG = 256
_ELSEWHERE = ("192.0.2.1", 9)  # an address that stands for any other; nothing is sent to it


def listening_sockets(host: str, port: int) -> list[socket.socket]:
    """A socket for each address of the host, all on one port, 0 for a free one. They take
    connections before the server is ready. Raises DaemonError when it cannot be used.
    """
    made: list[socket.socket] = []
    try:
        for family, kind, protocol, _name, address in socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        ):
            made.append(socket.socket(family, kind, protocol))
            made[-1].setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                made[-1].setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            own_port = made[0].getsockname()[1] if len(made) > 1 else port
            made[-1].bind((address[0], own_port, *address[2:]))
            made[-1].listen(BACKLOG)
            made[-1].settimeout(0)
    except OSError as error:
        for listener in made:
            listener.close()
        raise DaemonError(
            f"port {port} cannot be used ({error.strerror}); choose another with --port"
        ) from error
    return made


def is_any(host: str) -> bool:
    return host in {"", "0.0.0.0", "::"}  # noqa: S104  it is compared, nothing listens there


def address_for_others(host: str) -> str:
    """The address at which other machines reach what listens on that host; empty: none do."""
    if is_any(host):
        return own_address()
    try:
        return "" if ip_address(host).is_loopback else f"[{host}]" if ":" in host else host
    except ValueError:
        return "" if host == "localhost" else host


def own_address() -> str:
    """This machine's address in the network that leads elsewhere; empty without one."""
    try:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asked:
            asked.connect(_ELSEWHERE)
            return str(asked.getsockname()[0])
    except OSError:
        return ""


def page_address(host: str, port: int, names: Sequence[str]) -> str:
    """Where another machine opens the page: at the first name of a proxy, else where the daemon
    listens; empty where only this machine reaches it.
    """
    if names:
        return f"https://{names[0]}/"
    address = address_for_others(host)
    return f"http://{address}:{port}/" if address else ""


def tls_address(host: str, port: int, names: Sequence[str]) -> str:
    """Where another device opens the web page encrypted; empty where none reaches it."""
    name = names[0] if names else address_for_others(host)
    return f"https://{name}:{port}/" if name and port else ""


def qr_rows(text: str) -> list[str]:
    import segno  # noqa: PLC0415  few keys are made

    return ["".join(map(str, row)) for row in segno.make(text, micro=False).matrix]


def terminal_qr(text: str, encoding: str | None) -> None:
    import segno  # noqa: PLC0415  few keys are made

    segno.make(text, micro=False).terminal(compact=(encoding or "").lower().startswith("utf"))
