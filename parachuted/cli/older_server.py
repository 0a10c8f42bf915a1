"""Older server: what an earlier server kept in a folder of its own, as settings and keys of this
one. The folder itself is only read.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from parachuted.cli.show import say
from parachuted.config import set_setting
from parachuted.errors import ParachuteError
from parachuted.home_files import PlainValue, read_document
from parachuted.keys import USUAL, ApiKey, KeyFile
from parachuted.keys.api_key import parse_time

_FOLDER = ".parachute"
_PROFILE = "Profile.md"
_MOST_BYTES = 1 << 20
_HASH = re.compile(r"(?:sha256:)?([0-9a-f]{64})")
_SETTINGS = {
    "vault_path": "vault",
    "port": "port",
    "host": "host",
    "default_model": "agent.model",
    "log_level": "log_level",
    "auth_mode": "auth_mode",
}


@dataclass(frozen=True, slots=True)
class MigrationStep:
    """One thing that was found.

    `act` takes it over; None: it is not taken over, and `says` tells why.
    """

    says: str
    act: Callable[[], object] | None = None


def plan(folder: Path, home: Path) -> list[MigrationStep]:
    """What is taken over from the folder of an older server: a vault with a .parachute in it, or
    that folder itself.

    Raises ParachuteError where there is nothing to take over.
    """
    kept = folder if folder.name == _FOLDER else folder / _FOLDER
    steps = [*_config(folder, kept, home), *_server(kept, home), *_rest(kept)]
    vault = kept.parent
    names_vault = any(step.says.startswith("setting vault ") for step in steps)
    if not steps:
        raise ParachuteError(
            f"{folder} holds nothing of an older server: no {_FOLDER}/server.yaml, workspaces, "
            "profile or bots"
        )
    if not names_vault and vault != Path.home():
        steps.insert(0, _setting(home, "vault", os.fspath(vault), "the folder itself"))
    return steps


def tell_and_take(steps: list[MigrationStep], *, may_act: Callable[[], bool]) -> bool:
    """Show the plan, and carry it out if `may_act` says so; whether it was."""
    for step in steps:
        say(f"{'take    ' if step.act is not None else 'leave   '}  {step.says}")
    if not may_act():
        return False
    for step in steps:
        if step.act is not None:
            step.act()
    return True


def _config(folder: Path, kept: Path, home: Path) -> Iterator[MigrationStep]:
    for file in dict.fromkeys((folder / "config.yaml", kept / "config.yaml")):
        if file.parent.resolve() == home.resolve():
            continue  # its older names are understood where they are
        found = _read(file)
        for name, value in found.items() if isinstance(found, dict) else ():
            if name in _SETTINGS and isinstance(value, str) and value:
                yield _setting(home, _SETTINGS[name], value, f"{name} in {file}")
            else:
                yield MigrationStep(f"{name} in {file}: this setting no longer exists")


def _server(kept: Path, home: Path) -> Iterator[MigrationStep]:
    file = kept / "server.yaml"
    found = _read(file)
    server, security = (_part(found, name) for name in ("server", "security"))
    port = server.get("port")
    if isinstance(port, str) and port:
        yield _setting(home, "port", port, f"server.port in {file}")
    if security.get("require_auth") is not None:
        yield MigrationStep(
            f"require_auth in {file}: here this machine needs no key and every other does; the "
            "setting auth_mode changes that"
        )
    entries = security.get("api_keys")
    for number, entry in enumerate(entries if isinstance(entries, list) else (), 1):
        yield _key(entry, number, home)


def _key(entry: PlainValue, number: int, home: Path) -> MigrationStep:
    held = entry if isinstance(entry, dict) else {}
    name = " ".join(str(held.get("label") or f"older key {number}").split())[:100]
    found = _HASH.fullmatch(str(held.get("key_hash") or ""))
    if found is None:
        return MigrationStep(
            f"the key {name!r}: what is kept of it is not a SHA-256; `parachute keys create` makes "
            "another"
        )
    key = ApiKey(
        id=f"k_{found[1][:12]}",
        key_hash=f"sha256:{found[1]}",
        name=name,
        scopes=USUAL,
        created=_time(held.get("created_at")),
        last_used=_time(held.get("last_used_at")),
    )
    if any(one.key_hash == key.key_hash for one in KeyFile(home).load().keys):
        return MigrationStep(f"the key {name!r}: it is taken over already")
    return MigrationStep(
        f"the key {name!r}, which may read and write everything and administer nothing",
        lambda: KeyFile(home).add(key),
    )


def _rest(kept: Path) -> Iterator[MigrationStep]:
    for file in sorted(kept.glob("workspaces/*/config.yaml")):
        found = _read(file)
        held = found if isinstance(found, dict) else {}
        facts = ", ".join(
            f"{name} {held[name]}"
            for name in ("working_directory", "model", "default_trust_level")
            if held.get(name)
        )
        name = f"{held.get('name') or file.parent.name}{f' ({facts})' if facts else ''}"
        yield MigrationStep(
            f"the workspace {name}: an agent's folders and rights are in its module's manifest "
            "here, and are asked for again"
        )
    profile, target = kept / "profile.md", kept.parent / _PROFILE
    if profile.is_file() and target.exists():
        yield MigrationStep(f"{profile}: {target} is there already")
    elif profile.is_file():
        yield MigrationStep(
            f"{profile} becomes the note {target}, where agents can read it",
            lambda: _copy(profile, target),
        )
    for name, why in (
        (
            "bots.yaml",
            (
                "what a bot may do, and its token, are asked for again when a module for it is "
                "installed"
            ),
        ),
        (
            "module_hashes.json",
            "these hashes approve nothing; `parachute modules approve` does",
        ),
    ):
        if (kept / name).exists():
            yield MigrationStep(f"{kept / name}: {why}")


def _copy(source: Path, target: Path) -> None:
    with target.open("xb") as file:
        file.write(source.read_bytes())


def _setting(home: Path, key: str, value: str, where: str) -> MigrationStep:
    return MigrationStep(
        f"setting {key} = {value} ({where})", lambda: set_setting(home, key, value)
    )


def _part(found: PlainValue, name: str) -> dict[str, PlainValue]:
    part = found.get(name) if isinstance(found, dict) else None
    return part if isinstance(part, dict) else {}


def _read(file: Path) -> PlainValue:
    """What the file says, None where there is none.

    Raises ParachuteError for one that cannot be understood.
    """
    try:
        with file.open("rb") as opened:
            data = opened.read(_MOST_BYTES)
        text = data.decode().replace("\r\n", "\n").removeprefix("---\n").rstrip() + "\n"
        document = read_document(text, limit=_MOST_BYTES, is_strict=True)
        return document.plain() if document is not None else None
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise ParachuteError(
            f"{file} cannot be understood: {error}; nothing was taken over"
        ) from error


def _time(text: PlainValue) -> datetime | None:
    try:
        return parse_time(text).astimezone(UTC) if isinstance(text, str) else None
    except (ValueError, OverflowError):
        return None
