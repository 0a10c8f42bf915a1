"""Page: opens the web page in a browser, signed in."""

from __future__ import annotations

import webbrowser
from argparse import Namespace

from parachuted.addresses import is_any
from parachuted.cli.client import ask, daemon_record
from parachuted.cli.commands import command, flag
from parachuted.cli.show import say


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
    address = f"http://{'127.0.0.1' if is_any(host) else named}:{record['port']}/#code={code}"
    if options.print or not webbrowser.open(address):
        say(address)
    return 0
