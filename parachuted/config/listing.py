"""Listing: every setting as a running daemon has it and as its next start will, and its source."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from parachuted.config.load import NAME, load_settings, set_setting, setting_places
from parachuted.config.settings import Settings, describe_settings, setting_text


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedSetting:
    """`value` is what the daemon runs with, `next` what its next start will take. `source`: the
    line of config.yaml, the variable or the option that says so; None: the default. `editable`: no
    variable or option goes before config.yaml.
    """

    key: str
    kind: str
    default: str
    means: str
    value: str
    next: str
    source: str | None
    editable: bool


class SettingsListing:
    """The settings of one daemon. Calls read or write the disk, a few milliseconds at most."""

    def __init__(
        self,
        running: Settings,
        home: Path,
        env: Mapping[str, str],
        flags: Mapping[str, object],
    ) -> None:
        """`flags` are what its next start is given beside the file and the variables."""
        known = {described.key for described in describe_settings()}
        self._running, self._home, self._env = running, home, env
        self._flags = {key: value for key, value in flags.items() if key in known}

    def all(self) -> list[ListedSetting]:
        """Every setting, in order. Raises ConfigError where the next start would refuse them."""
        coming = load_settings(self._home, self._env, self._flags)
        places = setting_places(self._home, self._env, self._flags)
        return [
            ListedSetting(
                **setting._asdict(),
                value=setting_text(self._running, setting.key),
                next=setting_text(coming, setting.key),
                source=places.get(setting.key),
                editable=places.get(setting.key, NAME).startswith(NAME),
            )
            for setting in describe_settings()
        ]

    def set(self, key: str, value: str) -> None:
        """Write it for the next start; empty: the default. ConfigError, StorageFailedError."""
        set_setting(self._home, key, value)
