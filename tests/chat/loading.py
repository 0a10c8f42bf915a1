"""Chat's files, imported as the daemon does: as a package."""

from __future__ import annotations

import importlib
import sys
from types import ModuleType

from parachuted.home_files.bundled import bundled_folder

_NAME = "chat_of_the_tests"


def chat_file(name: str) -> ModuleType:
    """`modules/chat/{name}.py`."""
    if _NAME not in sys.modules:
        package = ModuleType(_NAME)
        package.__path__ = [str(bundled_folder("modules") / "chat")]
        sys.modules[_NAME] = package
    return importlib.import_module(f"{_NAME}.{name}")
