"""Keys: who may use the API; and the page, opened with one, and encrypted for other devices.

The commands of keys work on keys.yaml itself, so no daemon is needed; one that runs sees it at
once, and knows when keys were last used before the file does.
"""

from __future__ import annotations

import os
import sys
import webbrowser
from argparse import Namespace
from datetime import UTC, datetime

from parachuted.cli.client import ask, current_settings, daemon_record, found_daemon
from parachuted.cli.commands import Columns, Command, Json, Steps, command, verb
from parachuted.cli.daemon import restart_in_place
from parachuted.cli.show import say, say_each, say_table, say_text, when
from parachuted.config import home_folder, listed, set_setting
from parachuted.errors import ConfigError, ParachuteError
from parachuted.keys import (
    KNOWN_MODULES,
    USUAL,
    ApiKey,
    KeyFile,
    KeyScope,
    key_document,
    mint,
    parse_end,
    parse_words,
)
from parachuted.processes.addresses import is_any, page_address, terminal_qr, tls_address

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
_LENDS_NOTHING = frozenset({"vault", "curator", "system", "*"})

KEYS = Command(
    "keys", "who may use the API", "The keys that open the API to other devices and programs."
)


@verb("keys list", "list the keys")
def keys_list(_options: Namespace) -> Steps:
    """List the keys: what each may do, when it was last used and when it ends."""
    file = KeyFile(home_folder(os.environ)).load()
    try:
        known = {key["id"]: key["last_used_at"] for key in ask("GET /api/auth/keys")["keys"]}
    except ParachuteError:  # none runs, or none answers
        known = {}
    keys = [_public(key) for key in file.keys]
    for key in keys:
        key["last_used"] = known.get(key["id"]) or key["last_used"]
    yield {"keys": keys, "faults": list(file.faults)}
    columns: Columns = {
        "ID": "id",
        "NAME": "name",
        "MAY": _may,
        "LAST USED (UTC)": lambda key: when(key["last_used"]) or "never",
        "ENDS (UTC)": lambda key: when(key.get("expires")) or "never",
    }
    say_table(keys, columns, nothing="No keys; `parachute keys create NAME` makes one.")
    say_each(f"problem  {fault}" for fault in file.faults)


@verb("keys create", "create a key")
def keys_create(options: Namespace) -> Steps:
    """Create a key. It is shown only once and is not stored. Unless --scope says otherwise, it
    may read and write everything but administer nothing.

    name  what it is for, such as 'my phone'
    --scope* MODULE:MAY  such as daily:read,write or '*:read' (may be given more than once)
    --path* PATTERN  for files such as 'Projects/**', and nothing else (may be given more than once)
    --expires WHEN  a span such as 90d (h, d, w, y) or a time; without it, never
    """
    now = datetime.now(UTC)
    usual = [f"{scope.module}:{','.join(sorted(scope.capabilities))}" for scope in USUAL]
    try:
        scopes = tuple(parse_words(words, options.path or []) for words in options.scope or usual)
        _refuse_unknown(scopes)
        expires = parse_end(options.expires, now) if options.expires else None
        made = mint(options.name, scopes, now=now, expires=expires)
    except ValueError as error:
        raise ParachuteError(str(error)) from error
    KeyFile(home_folder(os.environ)).add(made.key)
    key = _public(made.key)
    yield {**key, "key": made.secret}
    ends = f"ends {when(key['expires'])} UTC" if "expires" in key else "never ends"
    say(f"{key['name']} ({key['id']}) may {_may(key)}; it {ends}.")
    # a module's answers may quote any note
    lent = [scope["module"] for scope in key["scopes"] if "paths" not in scope]
    if lent := [name for name in lent if name not in _LENDS_NOTHING]:
        say(f"Through {_listed(lent)} it reaches every note that the module may read.")
        say("--path makes a key for some files and nothing else.")
    say("Your key. It is shown only once and is not stored:")
    say(f"\n    {made.secret}")
    if sys.stdout.isatty():
        link = _link(made.secret)
        say(f"\nThe web page, signed in: {link}\n" if link else "")
        terminal_qr(link or made.secret, sys.stdout.encoding)


@command("keys revoke", "revoke a key", "key  its id, or its name when no other key has it")
def keys_revoke(options: Namespace) -> None:
    """Revoke a key, and close what it has opened, at once."""
    revoked = KeyFile(home_folder(os.environ)).remove(options.key)
    say(f"Revoked {revoked}. It opens nothing any more, and streams that it had opened end.")


def _refuse_unknown(scopes: tuple[KeyScope, ...]) -> None:
    """A misspelled scope would open nothing."""
    named = {scope.module for scope in scopes}
    if named <= set(KNOWN_MODULES):
        return
    from parachuted.modules.registry.approved import ModuleRegistry

    known = dict.fromkeys([*KNOWN_MODULES, *ModuleRegistry(home_folder(os.environ)).records()])
    if unknown := sorted(named.difference(known)):
        raise ValueError(f"unknown module {unknown[0]}; a scope may name {', '.join(known)}")


def _link(secret: str) -> str:
    """Where a phone opens the page with that key, which no browser sends; empty: nowhere."""
    record = found_daemon()
    if record is None:
        return ""
    names = listed(current_settings().api.hosts)
    address = page_address(str(record["host"]), int(str(record["port"])), names)
    return f"{address}#key={secret}" if address else ""


def _public(key: ApiKey) -> Json:
    return {name: value for name, value in key_document(key).items() if name != "key_hash"}


def _may(key: Json) -> str:
    parts = []
    for scope in key["scopes"]:
        where = f" in {' '.join(scope['paths']) or 'no path'}" if "paths" in scope else ""
        what = "everything" if scope["module"] == "*" else scope["module"]
        parts.append(f"{_listed(sorted(scope['capabilities']))} {what}{where}")
    return "; ".join(parts) or "nothing"


def _listed(words: list[str]) -> str:
    return " and ".join(filter(None, (", ".join(words[:-1]), *words[-1:])))


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
