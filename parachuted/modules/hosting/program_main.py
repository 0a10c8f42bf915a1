"""Becomes a program that is not ours, behind the walls that its rules name."""

from __future__ import annotations

import os
from collections.abc import Sequence

from pydantic import TypeAdapter

from parachuted.modules.hosting.isolation_rules import IsolationRules, apply_isolation


def main(given: Sequence[str]) -> None:
    """The rules as JSON, then the program and its arguments. Raises OSError: it does not run."""
    rules, *program = given
    apply_isolation(TypeAdapter(IsolationRules).validate_json(rules))
    os.execvp(program[0], program)  # noqa: S606  without a shell, as it was approved
