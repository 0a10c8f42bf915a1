"""Page: opens the web page in a browser, signed in."""

from __future__ import annotations

import webbrowser
from argparse import Namespace

from parachuted.cli.client import ask, daemon_record
from parachuted.cli.commands import command
from parachuted.cli.show import say
from parachuted.processes.addresses import is_any


@command("open", "open the web page, signed in")
def open_page(options: Namespace) -> None:
    """Open the daemon's web page in a browser, signed in.

    The address holds a code that serves once, within five minutes; the browser keeps a key for 90
    days, which `parachute keys` lists and revokes.

    --print  print the address, and open nothing
    """
    record, code = daemon_record(), ask("POST /api/auth/codes")["code"]
    host = str(record["host"])
    named = "127.0.0.1" if is_any(host) else f"[{host}]" if ":" in host else host
    address = f"http://{named}:{record['port']}/#code={code}"
    if options.print or not webbrowser.open(address):
        say(address)
