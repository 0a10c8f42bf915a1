"""Page: opens the web page in a browser, signed in."""

from __future__ import annotations

import socket
import webbrowser
from argparse import Namespace
from ipaddress import ip_address

from parachuted.cli.client import ask, daemon_record
from parachuted.cli.commands import command, flag
from parachuted.cli.show import say

_ELSEWHERE = ("192.0.2.1", 9)  # an address that stands for any other; nothing is sent to it


@command(
    "open",
    "open the web page, signed in",
    flag("--print", help="print the address, and open nothing"),
)
def open_page(options: Namespace) -> int:
    """Open the daemon's web page in a browser, signed in.

    The address holds a code that serves once, within five minutes; the browser keeps a key for 90
    days, which `parachute keys` lists and revokes.
    """
    record = daemon_record()
    code = ask("POST", "/api/auth/codes", {})["code"]
    host = str(record["host"])
    named = f"[{host}]" if ":" in host else host
    address = f"http://{'127.0.0.1' if _is_any(host) else named}:{record['port']}/#code={code}"
    if options.print or not webbrowser.open(address):
        say(address)
    return 0


def address_for_others(host: str) -> str:
    """The address at which other machines reach what listens on that host; empty: none do."""
    if _is_any(host):
        return _own_address()
    try:
        return "" if ip_address(host).is_loopback else f"[{host}]" if ":" in host else host
    except ValueError:
        return "" if host == "localhost" else host


def _own_address() -> str:
    """This machine's address in the network that leads elsewhere; empty without one."""
    try:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asked:
            asked.connect(_ELSEWHERE)
            return str(asked.getsockname()[0])
    except OSError:
        return ""


def _is_any(host: str) -> bool:
    return host in {"", "0.0.0.0", "::"}  # noqa: S104  it is compared, nothing listens there
