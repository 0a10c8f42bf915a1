"""Errors say a sentence by themselves."""

from __future__ import annotations

import inspect

import pytest

from parachuted import errors
from parachuted.errors import ConfigError, ConflictError, ParachuteError

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
