"""Running: where the daemon that runs differs from this command: its version, its vault, its
settings, its logins.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from parachuted import __version__
from parachuted.agents import describe_credentials
from parachuted.agents.credentials import find_login_environment
from parachuted.cli.client import ask, home_of
from parachuted.config import Settings
from parachuted.errors import NotFoundError
from parachuted.presence import running_daemon

_VARIABLE = "the environment variable "


def ask_logins() -> Any:  # noqa: ANN401  JSON
    """Where the running daemon looked for a login, and what follows; None where there is no daemon,
    or one of an earlier version.
    """
    if running_daemon(home_of(os.environ)) is None:
        return None
    try:
        return ask("GET", "/api/auth/logins")
    except NotFoundError:
        return None


def find_differences(record: dict[str, object], settings: Settings) -> list[str]:
    """What the running daemon has that one which starts now would not, and the reverse; a sentence
    each.
    """
    return [*_older(record, settings), *find_login_differences(record, ask_logins())]


def find_login_differences(record: dict[str, object], logins: Any) -> Iterator[str]:  # noqa: ANN401  JSON
    """Logins in this terminal's environment that the daemon does not have, and the reverse."""
    if logins is None:
        return
    env = find_login_environment(os.environ, Path(home_of(os.environ)))
    here = {
        one.place: one.found
        for one in describe_credentials(env, Path(str(record["vault"])), Path.home())
    }
    advice = (
        "start the daemon again where it has it; docs/operating.md says how for a service"
        if _is_elsewhere(record)
        else "`parachute restart`"
    )
    for one in logins["looked"]:
        name = one["place"].removeprefix(_VARIABLE)
        if one["place"].startswith(_VARIABLE) and one["found"] != here.get(
            one["place"], one["found"]
        ):
            if one["found"]:
                yield f"the daemon was started with {name}, which this terminal does not have"
            else:
                yield (
                    f"this terminal has {name}, which the daemon was started without; to use "
                    f"it: {advice}"
                )


def _older(record: dict[str, object], settings: Settings) -> Sequence[str]:
    said = []
    if record["version"] != __version__:
        said.append(
            f"the daemon is version {record['version']}, this command is {__version__}; "
            "`parachute restart` starts the newer one"
        )
    if record["vault"] != os.fspath(settings.vault):
        said.append(
            f"the daemon was started on {record['vault']}; the settings say {settings.vault}"
        )
    file = Path(home_of(os.environ), "config.yaml")
    if file.exists() and datetime.fromtimestamp(file.stat().st_mtime, UTC) > datetime.fromisoformat(
        str(record["started"])
    ):
        said.append(
            "config.yaml was changed after the daemon started; `parachute restart` reads it"
        )
    return said


def _is_elsewhere(record: dict[str, object]) -> bool:
    flags = record.get("flags")
    return isinstance(flags, dict) and bool(flags.get("foreground"))
