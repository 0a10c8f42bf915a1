"""Load: settings from config.yaml, the environment and the command line, where later ones win, and
where each comes from. All is read as text, so YAML's ideas of `10:30`, `no` and `010` never arise.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from parachuted.config.settings import (
    Settings,
    describe_settings,
    is_loopback,
    is_open_to_others,
    setting_text,
    setting_types,
)
from parachuted.errors import ConfigError
from parachuted.home_files import (
    Changes,
    HomeFile,
    YamlNode,
    YamlRejectedError,
    edit_document,
    read_document,
)
from parachuted.home_files.private import UntrustedFileError, is_in, real_path
from parachuted.processes.presence import absolute, home_of

NAME = "config.yaml"
_LIMIT = 256 * 1024


def config_file(home: Path) -> HomeFile:
    """config.yaml, which others may change: what it holds gives no one a right."""
    return HomeFile(home, NAME, limit=_LIMIT, may_be_shared=True)


def read_file(home: Path) -> str:
    """The text of config.yaml, empty if there is none. Raises ConfigError."""
    try:
        return config_file(home).read() or ""
    except UntrustedFileError as error:
        raise ConfigError([str(error)]) from error


def read_entries(text: str) -> list[tuple[str, YamlNode]]:
    """The values in the file's order, with their dotted keys. Raises ConfigError."""
    return [(key, node) for key, node in _walk(_read(text)) if node.entries is None]


def set_entry(text: str, key: str, value: str) -> str:
    """The text with `key` set (empty: to null, for the default). Raises ConfigError."""
    root = _read(text)
    section, _, name = key.rpartition(".")
    is_dotted = root is not None and key in root.children
    place, name = ((section,), name) if section and not is_dotted else ((), key)
    changes: Changes = {place: {name: value or None}}
    try:
        return edit_document(text, changes, limit=_LIMIT)
    except YamlRejectedError as error:
        raise ConfigError(
            [f"{NAME} allows no change by program ({error}); set {key} in it by hand"]
        ) from error


def _read(text: str) -> YamlNode | None:
    try:
        root = read_document(text, limit=_LIMIT)
    except YamlRejectedError as error:
        raise _rejected(error.line, error.reason) from error
    if root is None or root.is_nothing or root.entries is not None:
        return root
    raise _rejected(root.line, "a file of settings has lines of the form `key: value`")


def _rejected(line: int | None, why: str) -> ConfigError:
    return ConfigError([f"{NAME}{f' line {line}' if line else ''}: {why}"])


def _walk(node: YamlNode | None, prefix: str = "") -> Iterator[tuple[str, YamlNode]]:
    for name, value in (node.entries if node is not None else None) or ():
        yield f"{prefix}{name}", value
        yield from _walk(value, f"{prefix}{name}.")


_PREFIX = "PARACHUTE_"
_BY_DEFAULT = "by default"
_NOT_SETTINGS = frozenset({"PARACHUTE_HOME", "PARACHUTE_EVENT", "PARACHUTE_AGENT_RUN"})
_OLDER = {
    "vault_path": "vault",
    "default_model": "agent.model",
    "debug": "log_level",
    "cors_origins": None,
    "modules.sandbox": None,
    "modules.providers": None,
    "conversation.keep_processes": None,
    "conversation.keep_process_s": None,
    "conversation.spare_process": None,
    "suggestions.auto_approve_rate": None,
}
_FOREIGN = {
    "ANTHROPIC_BASE_URL": "agent.base_url",
    "VAULT_PATH": "vault",
    "PORT": "port",
}  # other programs', below what is ours
_ANTHROPIC = "https://api.anthropic.com"
_LEVELS = {"true": "debug", "yes": "debug", "false": "info", "no": "info"}  # of `debug`
_TYPES = setting_types()
_KEYS = list(_TYPES)
_VARIABLES = {f"{_PREFIX}{key.upper().replace('.', '_')}": key for key in _KEYS}
_SECTIONS = {key.rpartition(".")[0] for key in _KEYS}


class _Reading:
    """What each source says, a later one over an earlier, and what is wrong with it."""

    def __init__(self, env: Mapping[str, str]) -> None:
        self._env = env
        self.values: dict[str, object] = {}
        self.places: dict[str, str] = {}
        self.mistakes: list[str] = []
        self.notes: list[str] = []

    def take(self, key: str, text: str, place: str) -> None:
        self.places[key] = place
        try:
            self.values[key] = _read_value(
                key, absolute(text, self._env) if key == "vault" else text
            )
        except ValueError as error:
            self.mistakes.append(f"{place}: {error}")

    def take_file(self, home: Path) -> None:
        try:
            self.take_entries(read_entries(read_file(home)))
        except ConfigError as error:
            self.mistakes += error.problems

    def take_entries(
        self, entries: Sequence[tuple[str, YamlNode]], new_key: str | None = None
    ) -> None:
        """`new_key` is not in the file yet, so its line is not named."""
        lines, present = dict[str, int](), dict(entries)
        for key, node in entries:
            newer = _OLDER.get(key, key)
            place = "the new value" if key == new_key else f"{NAME} line {node.line}"
            if key in lines:
                also = f"is there a second time; line {lines[key]} has it too"
                self.mistakes.append(f"{place}: {key} {also}")
            elif key in _OLDER and (newer is None or newer in present):
                beside = f"beside {newer}" if newer else "any more"
                self.notes.append(f"{place}: {key} means nothing {beside}, and is ignored")
            elif newer in _KEYS:
                if newer != key:
                    self.notes.append(f"{place}: {key} is called {newer} now")
                self._take_node(newer, _as_level(node) if key == "debug" else node, place)
            elif not node.is_nothing or key not in _SECTIONS:
                self.mistakes.append(f"{place}: {_unknown(key, _KEYS)}")
            lines.setdefault(key, node.line)

    def _take_node(self, key: str, node: YamlNode, place: str) -> None:
        if node.items is not None:
            self.mistakes.append(f"{place}: {key} should be one value, not a list")
        elif node.text is not None and key == "vault" and not node.text.startswith(("/", "~/")):
            self.mistakes.append(f"{place}: vault should begin with / or ~/, not {node.text!r}")
        elif node.text is not None:
            self.take(key, node.text, place)

    def take_variables(self) -> None:
        for name in sorted(self._env):
            if name not in _VARIABLES:
                if name.startswith(_PREFIX) and name not in _NOT_SETTINGS:
                    self.mistakes.append(_unknown(name, list(_VARIABLES)))
            elif self._env[name]:
                self.take(_VARIABLES[name], self._env[name], name)

    def take_flags(self, flags: Mapping[str, object]) -> None:
        for key, value in flags.items():
            place = f"--{key.replace('.', '-').replace('_', '-')}"
            if key not in _KEYS:
                self.mistakes.append(f"{place}: {_unknown(key, _KEYS)}")
            elif value is not None:
                self.take(key, str(value), place)

    def take_foreign_variables(self) -> None:
        """What the variables of other programs say of settings that nothing else has named."""
        for name, key in _FOREIGN.items():
            text = self._env.get(name, "")
            is_default = key == "agent.base_url" and text.rstrip("/") == _ANTHROPIC
            if not text or key in self.places or is_default:
                continue
            try:
                _read_value(key, text)
            except ValueError as error:
                self.notes.append(f"{name}: {error}, and is ignored")
                continue
            self.take(key, text, name)
            if key != "agent.base_url":
                self.notes.append(
                    f"{name} is taken for the setting {key}; {_PREFIX}{key.upper()} says the same "
                    "to this program alone"
                )

    def settings(self, home: Path) -> Settings:
        """Raises ConfigError with all mistakes."""
        if "vault" not in self.places:
            self.take("vault", str(Settings().vault), _BY_DEFAULT)
        if self.mistakes:
            raise ConfigError(self.mistakes)
        settings = _make_settings(self.values)
        if mistakes := [
            f"{self.places.get(key) or self.places[other]}: {key} {why}"
            for key, other, why in _contradictions(settings, home)
        ]:
            raise ConfigError(mistakes)
        return replace(settings, notes=tuple(self.notes))


def _as_level(node: YamlNode) -> YamlNode:
    return replace(node, text=_LEVELS.get(str(node.text).lower(), node.text))


def home_folder(env: Mapping[str, str]) -> Path:
    return Path(home_of(env))


def load_settings(home: Path, env: Mapping[str, str], flags: Mapping[str, object]) -> Settings:
    """config.yaml, under PARACHUTE_* variables, under `flags` (by dotted key); below all,
    ANTHROPIC_BASE_URL, VAULT_PATH and PORT. Empty variables and flags that are None do not count.
    Raises ConfigError with all mistakes.
    """
    return _read_all(home, env, flags).settings(home)


def _read_all(home: Path, env: Mapping[str, str], flags: Mapping[str, object]) -> _Reading:
    reading = _Reading(env)
    reading.take_file(home)
    reading.take_variables()
    reading.take_flags(flags)
    reading.take_foreign_variables()
    return reading


def set_setting(home: Path, dotted_key: str, text_value: str) -> Settings:
    """Set one key (empty: back to the default), keeping comments, order and quotes; returns what
    the file then says. Raises ConfigError, having written nothing, and StorageFailedError.
    """
    if dotted_key not in _KEYS:
        raise ConfigError([_unknown(dotted_key, _KEYS)])
    found: list[Settings] = []

    def edited(before: str | None) -> str:
        text = set_entry(before or "", dotted_key, text_value)
        reading = _Reading({})
        reading.take_entries(read_entries(text), new_key=dotted_key)
        try:
            found.append(reading.settings(home))
        except ConfigError as error:
            raise ConfigError([*error.problems, f"{NAME} was not changed"]) from error
        return text

    try:
        config_file(home).change(edited)
    except UntrustedFileError as error:
        raise ConfigError([str(error)]) from error
    return found[0]


def _contradictions(settings: Settings, home: Path) -> Iterator[tuple[str, str, str]]:
    """A key, another that may say where the trouble comes from, and what is wrong."""
    quiet_s = settings.bubble.quiet_s
    if settings.bubble.max_wait_s < quiet_s:
        why = f"should be at least bubble.quiet_s, which is {quiet_s:g}"
        yield "bubble.max_wait_s", "bubble.quiet_s", why
    if settings.auth_mode == "disabled" and is_open_to_others(settings):
        is_host = not is_loopback(settings.host)
        opening = f"host is {settings.host}" if is_host else f"tls.host is {settings.tls.host}"
        why = f"may not be disabled while {opening}, where others could connect"
        yield "auth_mode", "host", f"{why}; remote asks them for keys"
    if is_in(real_path(home), real_path(settings.vault)):
        why = f"may not hold the folder of settings and keys, {home}"
        yield "vault", "vault", f"{why}: agents and sync reach what is in a vault"


def _read_value(key: str, text: str) -> object:
    """By a validator of that setting alone, for one of all of them takes long to make. Raises
    ValueError, which says what is wrong.
    """
    try:
        return TypeAdapter[Any](_TYPES[key]).validate_strings(text)
    except ValidationError as error:
        why = error.errors(include_url=False, include_context=False)[0]["msg"]
    for beginning in ("Value error, ", "Input ", "String "):
        why = why.removeprefix(beginning)
    raise ValueError(f"{key} {why.partition(', unable')[0]}, not {text[:80]!r}")


def _make_settings(values: Mapping[str, object]) -> Settings:
    settings, sections = Settings(), dict[str, dict[str, Any]]()
    for key, value in values.items():
        section, _, name = key.rpartition(".")
        sections.setdefault(section, {})[name] = value
    changes = sections.pop("", {})
    for section, changed in sections.items():
        changes[section] = replace(getattr(settings, section), **changed)
    return replace(settings, **changes)


def _unknown(name: str, known: Sequence[str]) -> str:
    if held := [key for key in known if key.startswith(f"{name}.")]:
        return f"{name} has settings of its own, such as {held[0]}, and no value"
    spellings = {key.rpartition(".")[2].lower(): key for key in known}
    spellings |= {key.lower(): key for key in known}
    near = difflib.get_close_matches(name.lower(), spellings, n=1)
    return (
        f"{name} is not a setting; "
        f"{f'did you mean {spellings[near[0]]}?' if near else '`parachute config` lists them'}"
    )


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
        self, running: Settings, home: Path, env: Mapping[str, str], flags: Mapping[str, object]
    ) -> None:
        """`flags` are what its next start is given beside the file and the variables."""
        self._running, self._home, self._env = running, home, env
        self._flags = {key: value for key, value in flags.items() if key in _KEYS}

    def all(self) -> list[ListedSetting]:
        """Every setting, in order. Raises ConfigError where the next start would refuse them."""
        reading = _read_all(self._home, self._env, self._flags)
        coming, places = reading.settings(self._home), reading.places
        return [
            ListedSetting(
                **setting._asdict(),
                value=setting_text(self._running, setting.key),
                next=setting_text(coming, setting.key),
                source=None if (place := places.get(setting.key)) == _BY_DEFAULT else place,
                editable=place is None or place.startswith((NAME, _BY_DEFAULT)),
            )
            for setting in describe_settings()
        ]

    def set(self, key: str, value: str) -> None:
        """Write it for the next start; empty: the default. ConfigError, StorageFailedError."""
        set_setting(self._home, key, value)
