"""Keys commands: list, create, revoke.

They work on keys.yaml itself, so no daemon is needed; one that runs sees it at once, and knows
when keys were last used before the file does.
"""

from __future__ import annotations

import os
import sys
from argparse import Namespace
from datetime import UTC, datetime

from parachuted.cli.client import ask, current_settings, found_daemon
from parachuted.cli.commands import Columns, Command, Steps, command, verb
from parachuted.cli.show import say, say_each, say_table, when
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
from parachuted.processes.addresses import page_address, terminal_qr

KEYS = Command(
    "keys", "who may use the API", "The keys that open the API to other devices and programs."
)


@verb("keys list", "list the keys")
def keys_list(_options: Namespace) -> Steps:
    """List the keys: what each may do, when it was last used and when it ends."""
    file, used = _file().load(), _last_uses()
    documents = {key.id: _public(key) for key in file.keys}
    for name in filter(used.get, documents):
        documents[name]["last_used"] = used[name]
    yield {"keys": [*documents.values()], "faults": list(file.faults)}
    columns: Columns = {
        "ID": lambda key: key.id,
        "NAME": lambda key: key.name,
        "MAY": lambda key: _may(key.scopes),
        "LAST USED (UTC)": lambda key: (
            when(str(documents[key.id].get("last_used") or "")) or "never"
        ),
        "ENDS (UTC)": _end,
    }
    nothing = "No keys; `parachute keys create NAME` makes one."
    say_table(file.keys, columns, nothing=nothing)
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
    _file().add(made.key)
    yield {**_public(made.key), "key": made.secret}
    _show(made)


@command("keys revoke", "revoke a key", "key  its id, or its name when no other key has it")
def keys_revoke(options: Namespace) -> None:
    """Revoke a key, and close what it has opened, at once."""
    revoked = _file().remove(options.key)
    say(f"Revoked {revoked}. It opens nothing any more, and streams that it had opened end.")


def _file() -> KeyFile:
    return KeyFile(home_folder(os.environ))


def _last_uses() -> dict[str, str | None]:
    """When keys were last used, by id, as a running daemon knows; nothing when none answers."""
    try:
        return {key["id"]: key["last_used_at"] for key in ask("GET /api/auth/keys")["keys"]}
    except ParachuteError:
        return {}


def _refuse_unknown(scopes: tuple[Scope, ...]) -> None:
    """A misspelled scope would open nothing."""
    named = {scope.module for scope in scopes}
    if named <= set(KNOWN_MODULES):
        return
    from parachuted.modules.registry.module_registry import ModuleRegistry

    known = dict.fromkeys([*KNOWN_MODULES, *ModuleRegistry(home_folder(os.environ)).load()])
    if unknown := sorted(named.difference(known)):
        raise ValueError(f"unknown module {unknown[0]}; a scope may name {', '.join(known)}")


def _show(made: MintedKey) -> None:
    ends = "never ends" if made.key.expires is None else f"ends {_end(made.key)} UTC"
    say(f"{made.key.name} ({made.key.id}) may {_may(made.key.scopes)}; it {ends}.")
    lent = [scope.module for scope in made.key.scopes if _lends(scope)]
    if lent:
        say(f"Through {_listed(lent)} it reaches every note that the module may read.")
        say("--path makes a key for some files and nothing else.")
    say("Your key. It is shown only once and is not stored:")
    say()
    say(f"    {made.secret}")
    if sys.stdout.isatty():
        link = _link(made.secret)
        say(f"\nThe web page, signed in: {link}\n" if link else "")
        terminal_qr(link or made.secret, sys.stdout.encoding)


def _link(secret: str) -> str:
    """Where a phone opens the page with that key, which no browser sends; empty: nowhere."""
    record = found_daemon()
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
        paths = None if scope.paths is None else " ".join(glob.text for glob in scope.paths)
        where = "" if paths is None else f" in {paths or 'no path'}"
        what = "everything" if scope.module == "*" else scope.module
        parts.append(f"{_listed(sorted(scope.capabilities))} {what}{where}")
    return "; ".join(parts) or "nothing"


def _listed(words: list[str]) -> str:
    return " and ".join(filter(None, (", ".join(words[:-1]), *words[-1:])))


def _end(key: ApiKey) -> str:
    return when(str(key_document(key).get("expires") or "")) or "never"
