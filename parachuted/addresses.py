"""Addresses: where other machines reach what listens here, and an address as a QR code."""

from __future__ import annotations

import socket
from collections.abc import Sequence
from ipaddress import ip_address

_ELSEWHERE = ("192.0.2.1", 9)  # an address that stands for any other; nothing is sent to it


def is_any(host: str) -> bool:
    """Whether what listens there listens on every address of this machine."""
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
    """Where another machine opens the web page: at the first of the names that a proxy answers
    to, else where the daemon listens; empty where only this machine reaches it.
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
    """The QR code of a text, a row each, its dark squares as 1."""
    import segno  # noqa: PLC0415  few keys are made

    return ["".join(map(str, row)) for row in segno.make(text, micro=False).matrix]


def terminal_qr(text: str, encoding: str | None) -> None:
    """Print the QR code of a text in a terminal."""
    import segno  # noqa: PLC0415  few keys are made

    segno.make(text, micro=False).terminal(compact=(encoding or "").lower().startswith("utf"))
