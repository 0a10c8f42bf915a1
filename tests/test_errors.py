"""Errors say a sentence by themselves, and carry what a caller needs to act on."""

from __future__ import annotations

import inspect

import pytest

from parachuted import errors
from parachuted.errors import ConfigError, ConflictError, ParachuteError, StorageFailedError

KINDS = [
    kind
    for _, kind in inspect.getmembers(errors, inspect.isclass)
    if issubclass(kind, ParachuteError)
]


@pytest.mark.parametrize(
    "kind", [kind for kind in KINDS if kind not in {ConfigError, ConflictError}]
)
def test_a_message_defaults_to_the_docstring(kind: type[ParachuteError]):
    assert kind().message == " ".join(inspect.getdoc(kind).split())
    assert kind("in other words").message == "in other words"


def test_all_mistakes_of_the_settings_are_reported_at_once():
    assert (
        ConfigError(["port is no number", "colour is unknown"]).message
        == "port is no number; colour is unknown"
    )


def test_a_conflict_carries_all_three_texts():
    conflict = ConflictError(base=b"a", ours=b"b", theirs=b"c")

    assert (conflict.base, conflict.ours, conflict.theirs) == (b"a", b"b", b"c")
    assert "nothing was written" in conflict.message


def test_a_refusing_disk_is_named_by_its_number():
    assert StorageFailedError(errno=28).errno == 28
