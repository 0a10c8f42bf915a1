"""Load: settings from config.yaml, the environment and the command line, where later ones win. All
is read as text, so YAML's own ideas of `10:30`, `no` and `010` never arise.
"""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from parachuted.config.settings import Settings, describe_settings, is_loopback, is_open_to_others
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
    in_section = section and not is_dotted
    changes: Changes = (
        {(section,): {name: value or None}} if in_section else {(): {key: value or None}}
    )
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
    "conversation.keep_processes": None,
    "conversation.keep_process_s": None,
    "conversation.spare_process": None,
}
_FOREIGN = {
    "ANTHROPIC_BASE_URL": "agent.base_url",
    "VAULT_PATH": "vault",
    "PORT": "port",
}  # other programs', below what is ours
_ANTHROPIC = "https://api.anthropic.com"
_TRUE, _FALSE = frozenset({"true", "yes", "on", "1"}), frozenset({"false", "no", "off", "0"})
_KEYS = [described.key for described in describe_settings()]
_VARIABLES = {f"{_PREFIX}{key.upper().replace('.', '_')}": key for key in _KEYS}
_SECTIONS = {key.rpartition(".")[0] for key in _KEYS}
_ADAPTER = TypeAdapter(Settings)


@dataclass(frozen=True, slots=True)
class _Layer:
    texts: dict[str, str] = field(default_factory=dict)
    places: dict[str, str] = field(default_factory=dict)
    mistakes: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def take(self, key: str, text: str, place: str, env: Mapping[str, str]) -> None:
        self.texts[key] = absolute(text, env) if key == "vault" else text
        self.places[key] = place


def home_folder(env: Mapping[str, str]) -> Path:
    return Path(home_of(env))


def load_settings(home: Path, env: Mapping[str, str], flags: Mapping[str, object]) -> Settings:
    """config.yaml, under PARACHUTE_* variables, under `flags` (by dotted key); below all,
    ANTHROPIC_BASE_URL, VAULT_PATH and PORT. Empty variables and flags that are None do not count.
    Raises ConfigError with all mistakes.
    """
    return _settings(home, _layers(home, env, flags))


def setting_places(
    home: Path, env: Mapping[str, str], flags: Mapping[str, object]
) -> dict[str, str]:
    """Where each setting that is not a default comes from: a line, a variable or an option."""
    layers = _layers(home, env, flags)
    places = {key: place for layer in layers for key, place in layer.places.items()}
    return {key: place for key, place in places.items() if place != _BY_DEFAULT}


def set_setting(home: Path, dotted_key: str, text_value: str) -> Settings:
    """Set one key (empty: back to the default), keeping comments, order and quotes; returns what
    the file then says. Raises ConfigError, having written nothing, and StorageFailedError.
    """
    if dotted_key not in _KEYS:
        raise ConfigError([_unknown(dotted_key, _KEYS)])
    found: list[Settings] = []

    def edited(before: str | None) -> str:
        text = set_entry(before or "", dotted_key, text_value)
        entries = _from_entries(read_entries(text), {}, new_key=dotted_key)
        try:
            found.append(_settings(home, [_from_defaults({}), entries]))
        except ConfigError as error:
            raise ConfigError([*error.problems, f"{NAME} was not changed"]) from error
        return text

    try:
        config_file(home).change(edited)
    except UntrustedFileError as error:
        raise ConfigError([str(error)]) from error
    return found[0]


def _layers(home: Path, env: Mapping[str, str], flags: Mapping[str, object]) -> list[_Layer]:
    layers = [_from_file(home, env), _from_variables(env), _from_flags(flags, env)]
    taken = {key for layer in layers for key in layer.texts}
    return [_from_defaults(env), _from_foreign_variables(env, taken), *layers]


def _settings(home: Path, layers: Sequence[_Layer]) -> Settings:
    mistakes = [mistake for layer in layers for mistake in (*layer.mistakes, *_invalid(layer))]
    if mistakes:
        raise ConfigError(mistakes)
    texts = {key: text for layer in layers for key, text in layer.texts.items()}
    settings = _ADAPTER.validate_strings(_nested(texts))
    places = {key: place for layer in layers for key, place in layer.places.items()}
    if mistakes := [
        f"{places.get(key) or places[other]}: {key} {why}"
        for key, other, why in _contradictions(settings, home)
    ]:
        raise ConfigError(mistakes)
    return replace(settings, notes=tuple(note for layer in layers for note in layer.notes))


def _contradictions(settings: Settings, home: Path) -> Iterator[tuple[str, str, str]]:
    if settings.bubble.max_wait_s < settings.bubble.quiet_s:
        yield (
            "bubble.max_wait_s",
            "bubble.quiet_s",
            f"should be at least bubble.quiet_s, which is {settings.bubble.quiet_s:g}",
        )
    if settings.auth_mode == "disabled" and is_open_to_others(settings):
        yield (
            "auth_mode",
            "host",
            (
                f"may not be disabled while {_opening(settings)}, where others could connect; "
                "remote asks them for keys"
            ),
        )
    if is_in(real_path(home), real_path(settings.vault)):
        yield (
            "vault",
            "vault",
            (
                f"may not hold the folder of settings and keys, {home}: agents and sync reach "
                "what is in a vault"
            ),
        )


def _opening(settings: Settings) -> str:
    if not is_loopback(settings.host):
        return f"host is {settings.host}"
    return f"tls.host is {settings.tls.host}"


def _invalid(layer: _Layer) -> Iterator[str]:
    try:
        _ADAPTER.validate_strings(_nested(layer.texts))
    except ValidationError as error:
        for mistake in error.errors(include_url=False, include_context=False):
            key = ".".join(map(str, mistake["loc"]))
            why = (
                mistake["msg"]
                .removeprefix("Value error, ")
                .removeprefix("Input ")
                .removeprefix("String ")
                .partition(", unable")[0]
            )
            yield f"{layer.places[key]}: {key} {why}, not {layer.texts[key][:80]!r}"


def _nested(texts: Mapping[str, str]) -> dict[str, object]:
    tree: dict[str, object] = {}
    for key, text in texts.items():
        section, _, name = key.rpartition(".")
        holder = tree.setdefault(section, {}) if section else tree
        holder[name] = text  # type: ignore[index]  # one level of sections
    return tree


def _from_defaults(env: Mapping[str, str]) -> _Layer:
    layer = _Layer()
    layer.take("vault", str(Settings().vault), _BY_DEFAULT, env)
    return layer


def _from_file(home: Path, env: Mapping[str, str]) -> _Layer:
    try:
        return _from_entries(read_entries(read_file(home)), env)
    except ConfigError as error:
        return _Layer(mistakes=error.problems)


def _from_entries(
    entries: Sequence[tuple[str, YamlNode]], env: Mapping[str, str], *, new_key: str | None = None
) -> _Layer:
    """`new_key` is not in the file yet, so its line is not named."""
    layer = _Layer()
    lines: dict[str, int] = {}
    for key, node in entries:
        place = "the new value" if key == new_key else f"{NAME} line {node.line}"
        if key in lines:
            layer.mistakes.append(
                f"{place}: {key} is there a second time; line {lines[key]} has it too"
            )
        elif key in _KEYS:
            _take_entry(layer, key, node, place, env)
        elif key in _OLDER:
            _take_older(layer, key, node, place, env, present=dict(entries))
        elif not node.is_nothing or key not in _SECTIONS:
            layer.mistakes.append(f"{place}: {_unknown(key, _KEYS)}")
        lines.setdefault(key, node.line)
    return layer


def _take_entry(
    layer: _Layer, key: str, node: YamlNode, place: str, env: Mapping[str, str]
) -> None:
    if node.items is not None:
        layer.mistakes.append(f"{place}: {key} should be one value, not a list")
    elif node.text is not None and key == "vault" and not node.text.startswith(("/", "~/")):
        layer.mistakes.append(f"{place}: vault should begin with / or ~/, not {node.text!r}")
    elif node.text is not None:
        layer.take(key, node.text, place, env)


def _take_older(
    layer: _Layer,
    key: str,
    node: YamlNode,
    place: str,
    env: Mapping[str, str],
    *,
    present: Collection[str],
) -> None:
    newer = _OLDER[key]
    if newer is None or newer in present:
        layer.notes.append(
            f"{place}: {key} means nothing{f' beside {newer}' if newer else ' any more'}, "
            "and is ignored"
        )
    elif key != "debug":
        layer.notes.append(f"{place}: {key} is called {newer} now")
        _take_entry(layer, newer, node, place, env)
    elif str(node.text).lower() in _TRUE:
        layer.notes.append(f"{place}: debug is called log_level: debug now")
        layer.take(newer, "debug", place, env)
    elif str(node.text).lower() not in _FALSE:
        layer.mistakes.append(f"{place}: debug should be true or false, not {node.text!r}")


def _from_foreign_variables(env: Mapping[str, str], taken: Collection[str]) -> _Layer:
    layer = _Layer()
    for name, key in _FOREIGN.items():
        text = env.get(name, "")
        if not text or key in taken or (key == "agent.base_url" and text.rstrip("/") == _ANTHROPIC):
            continue
        tried = _Layer()
        tried.take(key, text, name, env)
        if mistakes := list(_invalid(tried)):
            layer.notes.append(f"{mistakes[0]}, and is ignored")
            continue
        layer.take(key, text, name, env)
        if key != "agent.base_url":
            layer.notes.append(
                f"{name} is taken for the setting {key}; {_PREFIX}{key.upper()} says the same to "
                "this program alone"
            )
    return layer


def _from_variables(env: Mapping[str, str]) -> _Layer:
    layer = _Layer()
    for name in sorted(
        name for name in env if name.startswith(_PREFIX) and name not in _NOT_SETTINGS
    ):
        if name not in _VARIABLES:
            layer.mistakes.append(_unknown(name, list(_VARIABLES)))
        elif env[name]:
            layer.take(_VARIABLES[name], env[name], name, env)
    return layer


def _from_flags(flags: Mapping[str, object], env: Mapping[str, str]) -> _Layer:
    layer = _Layer()
    for key, value in flags.items():
        place = f"--{key.replace('.', '-').replace('_', '-')}"
        if key not in _KEYS:
            layer.mistakes.append(f"{place}: {_unknown(key, _KEYS)}")
        elif value is not None:
            layer.take(key, str(value), place, env)
    return layer


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
