"""Daily's files, imported as the daemon does: as a package."""

from __future__ import annotations

import importlib
import sys
from types import ModuleType

from parachuted.home_files.bundled import bundled_folder

_NAME = "daily_of_the_tests"


def daily_file(name: str) -> ModuleType:
    """`modules/daily/{name}.py`."""
    if _NAME not in sys.modules:
        package = ModuleType(_NAME)
        package.__path__ = [str(bundled_folder("modules") / "daily")]
        sys.modules[_NAME] = package
    return importlib.import_module(f"{_NAME}.{name}")
