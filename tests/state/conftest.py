"""Faults for the journal's tests: pytest imports files one by one, so what two of them share comes
as a fixture.
"""

from __future__ import annotations

import importlib.util
import os
import sys
from pathlib import Path
from types import ModuleType

import pytest

import parachuted


@pytest.fixture(scope="session")
def faults() -> ModuleType:
    spec = importlib.util.spec_from_file_location(
        "parachuted_state_faults", Path(__file__).with_name("faults.py")
    )
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def program() -> dict[str, str]:
    """The environment in which a program of these tests finds the package."""
    return {**os.environ, "PYTHONPATH": str(Path(parachuted.__file__).parents[1])}
