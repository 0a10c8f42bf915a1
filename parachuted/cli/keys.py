"""Keys commands: list, create, revoke.

They work on keys.yaml itself, so no daemon is needed; one that runs sees it at once.

When keys were last used is asked of the daemon, if one runs: it writes that down only now and then.
"""

from __future__ import annotations

import os
import sys
from argparse import Namespace
from datetime import UTC, datetime

from parachuted.addresses import page_address, terminal_qr
from parachuted.cli.client import ask, current_settings, home_of
from parachuted.cli.commands import JSON, argument, command, group
from parachuted.cli.show import say, say_json, say_table, when
from parachuted.config import home_folder, listed
from parachuted.errors import ParachuteError
from parachuted.keys import (
    KNOWN_MODULES,
    USUAL,
    ApiKey,
    KeyFile,
    MintedKey,
    Scope,
    key_document,
    mint,
    parse_end,
    parse_words,
)
from parachuted.processes.presence import running_daemon

KEYS = group(
    "keys", "who may use the API", "The keys that open the API to other devices and programs."
)


@command("keys list", "list the keys", JSON)
def keys_list(options: Namespace) -> int:
    """List the keys: what each may do, when it was last used and when it ends."""
    held = _file().load()
    used = _last_uses()
    documents = [
        {**_public(key), **({"last_used": used[key.id]} if used.get(key.id) else {})}
        for key in held.keys
    ]
    if options.json:
        return say_json({"keys": documents, "faults": list(held.faults)})
    uses = [when(str(one.get("last_used") or "")) or "never" for one in documents]
    rows = [
        (key.id, key.name, _may(key.scopes), use, _end(key))
        for key, use in zip(held.keys, uses, strict=True)
    ]
    say_table(
        rows,
        ("ID", "NAME", "MAY", "LAST USED", "ENDS"),
        nothing="No keys; `parachute keys create NAME` makes one.",
    )
    for fault in held.faults:
        say(f"problem  {fault}")
    return 0


@command(
    "keys create",
    "create a key",
    argument("name", help="what it is for, such as 'my phone'"),
    argument(
        "--scope",
        action="append",
        metavar="MODULE:MAY",
        help="such as daily:read,write or '*:read' (may be given more than once)",
    ),
    argument(
        "--path",
        action="append",
        metavar="PATTERN",
        help="only files such as 'Projects/**' (may be given more than once)",
    ),
    argument(
        "--expires",
        metavar="WHEN",
        help="a span such as 90d (h, d, w, y) or a time; without it, never",
    ),
    JSON,
)
def keys_create(options: Namespace) -> int:
    """Create a key. It is shown only once and is not stored. Unless --scope says otherwise, it
    may read and write everything but administer nothing.
    """
    now = datetime.now(UTC)
    try:
        scopes = _scopes(options.scope, options.path)
        _refuse_unknown(scopes)
        made = mint(
            options.name,
            scopes,
            now=now,
            expires=parse_end(options.expires, now) if options.expires else None,
        )
    except ValueError as error:
        raise ParachuteError(str(error)) from error
    _file().add(made.key)
    if options.json:
        say_json({**_public(made.key), "key": made.secret})
    else:
        _show(made)
    return 0


@command(
    "keys revoke",
    "revoke a key",
    argument("key", help="its id, or its name when no other key has it"),
)
def keys_revoke(options: Namespace) -> int:
    """Revoke a key, and close what it has opened, at once."""
    say(
        f"Revoked {_file().remove(options.key)}. It opens nothing any more, and streams that it "
        "had opened end."
    )
    return 0


def _file() -> KeyFile:
    return KeyFile(home_folder(os.environ))


def _last_uses() -> dict[str, str | None]:
    """When keys were last used, by id, as a running daemon knows before the file does; nothing when
    none answers.
    """
    try:
        return {key["id"]: key["last_used_at"] for key in ask("GET", "/api/auth/keys")["keys"]}
    except ParachuteError:
        return {}


def _scopes(words: list[str] | None, paths: list[str] | None) -> tuple[Scope, ...]:
    usual = [f"{scope.module}:{','.join(sorted(scope.capabilities))}" for scope in USUAL]
    return tuple(parse_words(one, paths or []) for one in words or usual)


def _refuse_unknown(scopes: tuple[Scope, ...]) -> None:
    """Raises ValueError for a scope on an unknown module: a misspelled one would silently open
    nothing.
    """
    if {scope.module for scope in scopes} <= set(KNOWN_MODULES):
        return
    from parachuted.modules.registry.module_registry import ModuleRegistry

    known = [*KNOWN_MODULES, *ModuleRegistry(home_folder(os.environ)).load()]
    unknown = sorted({scope.module for scope in scopes}.difference(known))
    if unknown:
        raise ValueError(
            f"unknown module {unknown[0]}; a scope may name {', '.join(dict.fromkeys(known))}"
        )


def _show(made: MintedKey) -> None:
    ends = "never ends" if made.key.expires is None else f"ends {_end(made.key)}"
    say(f"{made.key.name} ({made.key.id}) may {_may(made.key.scopes)}; it {ends}.")
    lent = [one.module for one in made.key.scopes if _lends(one)]
    if lent:
        say(
            f"Through {_listed(lent)} it reaches every note that the module may read: a key for "
            "chat reads what Chat reads. --path keeps a key to some notes."
        )
    say("Your key. It is shown only once and is not stored:")
    say()
    say(f"    {made.secret}")
    if sys.stdout.isatty():
        link = _link(made.secret)
        say(f"\nThe web page, signed in: {link}\n" if link else "")
        terminal_qr(link or made.secret, sys.stdout.encoding)


def _link(secret: str) -> str:
    """Where a phone opens the page with that key; empty where only this machine reaches the daemon.

    The key stands behind `#`, which a browser does not send.
    """
    record = running_daemon(home_of(os.environ))
    if record is None:
        return ""
    names = listed(current_settings().api.hosts)
    address = page_address(str(record["host"]), int(str(record["port"])), names)
    return f"{address}#key={secret}" if address else ""


def _lends(scope: Scope) -> bool:
    """Whether it opens a module's answers, which may quote any note."""
    return scope.paths is None and scope.module not in {"vault", "curator", "system", "*"}


def _public(key: ApiKey) -> dict[str, object]:
    return {name: value for name, value in key_document(key).items() if name != "key_hash"}


def _may(scopes: tuple[Scope, ...]) -> str:
    parts = []
    for scope in scopes:
        where = (
            ""
            if scope.paths is None
            else f" in {' '.join(glob.text for glob in scope.paths) or 'no path'}"
        )
        parts.append(
            f"{_listed(sorted(scope.capabilities))} "
            f"{'everything' if scope.module == '*' else scope.module}{where}"
        )
    return "; ".join(parts) or "nothing"


def _listed(words: list[str]) -> str:
    """`read`, `read and write`, `admin, read and write`."""
    return " and ".join(filter(None, (", ".join(words[:-1]), *words[-1:])))


def _end(key: ApiKey) -> str:
    return when(_time(key, "expires")) or "never"


def _time(key: ApiKey, name: str) -> str | None:
    return str(key_document(key).get(name) or "") or None
