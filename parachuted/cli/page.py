"""Page: opened in a browser, signed in; and served encrypted to other devices, by an authority of
the owner's own.
"""

from __future__ import annotations

import os
import sys
import webbrowser
from argparse import Namespace
from datetime import UTC, datetime

from parachuted.cli.client import ask, current_settings, daemon_record, found_daemon
from parachuted.cli.commands import Steps, command, verb
from parachuted.cli.daemon import restart_in_place
from parachuted.cli.show import say, say_text
from parachuted.config import home_folder, set_setting
from parachuted.errors import ConfigError
from parachuted.processes.addresses import is_any, terminal_qr, tls_address

_PORT, _MOST = 3443, 65_535
_INSTALL = """\
On the other device, once:
  1. Open the address above, or scan the code. The browser warns, for it does not know the authority yet; go on.
  2. iPhone, iPad: allow the profile, install it in Settings > General > VPN & Device Management, then switch it on in
     Settings > General > About > Certificate Trust Settings. Android: Settings > Security > Encryption & credentials >
     Install a certificate > CA certificate.
  3. Compare the fingerprint with the one above before you trust it.
Then `parachute keys create "my phone"` shows the link that signs it in.
"""  # noqa: E501


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


@verb("tls", "serve other devices encrypted")
def tls(options: Namespace) -> Steps:
    """Make a certificate authority of your own, serve the page and the API encrypted with it, and
    show how a phone gets it. A phone needs that for its microphone and to install the page.

    The authority is good for the names given here and for addresses of private networks alone.
    The daemon's certificate lasts 30 days, and is renewed by itself.

    --port PORT  the port (default: 3443)
    --name* NAME  a host name of this machine besides its address, such as notes.local (may be given
        more than once)
    --new  make another authority, which devices have to be given again
    --off  serve nothing encrypted any more
    """
    home = home_folder(os.environ)
    if options.off:
        _save_port(0, is_silent=options.json)
        yield {"port": 0}
        return
    from parachuted.keys.tls import CertificateAuthority, host_name

    authority = CertificateAuthority(home)
    names = tuple(map(host_name, options.name or ()))
    is_new = options.new or not authority.exists() or (names and names != authority.info().names)
    if is_new:
        home.mkdir(parents=True, exist_ok=True, mode=0o700)
        authority.make(names, datetime.now(UTC))
    chosen = current_settings().tls
    port = options.port or chosen.port or _PORT
    if not 0 < port <= _MOST:
        raise ConfigError([f"{port} is not a port; choose one from 1 to {_MOST}"])
    if is_new or port != chosen.port:
        _save_port(port, is_silent=options.json)
    info = authority.info()
    address = tls_address(chosen.host, port, info.names)
    link = f"{address}tls/authority.crt" if address else ""
    places = {"address": address, "authority": link}
    yield {**places, "fingerprint": info.fingerprint, "port": port}
    say(f"The page, encrypted:  {address or 'this machine has no address in a network'}")
    say(f"The authority:        {link or authority.certificate}")
    say(f"Its fingerprint:      {info.fingerprint}")
    say()
    say_text(_INSTALL)
    if link and sys.stdout.isatty():
        terminal_qr(link, sys.stdout.encoding)


def _save_port(port: int, *, is_silent: bool) -> None:
    set_setting(home_folder(os.environ), "tls.port", str(port))
    record = found_daemon()
    if record is not None:
        restart_in_place(record)
    if not is_silent:
        how = "`parachute start` takes it up." if record is None else "The daemon has restarted."
        say(f"Saved. {how}")
