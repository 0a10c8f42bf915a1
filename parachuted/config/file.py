"""File: config.yaml as keys with the text of their values, and a change to one of them that leaves
every other byte.

Nothing is read as anything but text here, so YAML's own ideas of `10:30`, `no` and `010` never
arise; settings have types of their own.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from parachuted.errors import ConfigError, StorageFailedError
from parachuted.home_files import (
    CannotEditError,
    Changes,
    YamlNode,
    YamlRejectedError,
    edit_document,
    read_document,
)
from parachuted.private import locked, replace_private

NAME = "config.yaml"
_LIMIT = 256 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigEntry:
    """A key, dotted where it is in a section, with its value's text (None: nothing, or a list) and
    its line, from 1.
    """

    key: str
    text: str | None
    line: int
    is_list: bool = False


def read_file(home: Path) -> str:
    """The text of `home`'s config.yaml, empty if there is none.

    Raises ConfigError if it cannot be read.
    """
    try:
        with (home / NAME).open("rb") as file:
            data = file.read(_LIMIT + 1)
    except FileNotFoundError:
        return ""
    except OSError as error:
        raise ConfigError([f"{NAME} cannot be read: {error.strerror}"]) from error
    if len(data) > _LIMIT:
        raise ConfigError([f"{NAME} is larger than {_LIMIT // 1024} KB"])
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise ConfigError([f"{NAME} is not UTF-8 text"]) from error


@contextmanager
def changing(home: Path) -> Iterator[None]:
    """Inside, no other program or thread changes `home`'s config.yaml through this package.

    Raises StorageFailedError.
    """
    try:
        with locked(home, f"{NAME}.lock"):
            yield
    except OSError as error:
        raise _failed(error) from error


def write_file(home: Path, text: str) -> None:
    """Replace `home`'s config.yaml, or what it links to, at once and for its owner alone.

    Raises StorageFailedError.
    """
    try:
        home.mkdir(mode=0o700, parents=True, exist_ok=True)
        home.chmod(0o700)
        replace_private((home / NAME).resolve(), text.encode())
    except OSError as error:
        raise _failed(error) from error


def read_entries(text: str) -> list[ConfigEntry]:
    """The entries of the file in their order. Raises ConfigError if it cannot be read."""
    return [
        ConfigEntry(key=key, text=node.text, line=node.line, is_list=node.items is not None)
        for key, node in _walk(_read(text))
        if node.entries is None
    ]


def set_entry(text: str, key: str, value: str) -> str:
    """The file's text with `key` set to `value` (empty: to null, so that the default holds), and
    nothing else changed.

    Raises ConfigError if that cannot be done line by line.
    """
    root = _read(text)
    section, _, name = key.rpartition(".")
    is_dotted = root is not None and key in root.children
    in_section = section and not is_dotted
    changes: Changes = (
        {(section,): {name: value or None}} if in_section else {(): {key: value or None}}
    )
    try:
        return edit_document(text, changes, limit=_LIMIT)
    except CannotEditError as error:
        raise ConfigError(
            [f"{NAME} allows no change to one line ({error}); set {key} in it by hand"]
        ) from error


def _failed(error: OSError) -> StorageFailedError:
    return StorageFailedError(f"{NAME} could not be written: {error.strerror}", errno=error.errno)


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
