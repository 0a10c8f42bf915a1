"""Files of official modules, imported as the daemon does: as parts of a package."""

from __future__ import annotations

import importlib
import sys
from types import ModuleType

from parachuted.home_files.bundled import bundled_folder


def brain_file(name: str) -> ModuleType:
    return _module_file("brain", name)


def chat_file(name: str) -> ModuleType:
    return _module_file("chat", name)


def daily_file(name: str) -> ModuleType:
    return _module_file("daily", name)


def _module_file(module: str, name: str) -> ModuleType:
    package = f"{module}_of_the_tests"
    if package not in sys.modules:
        made = ModuleType(package)
        made.__path__ = [str(bundled_folder("modules") / module)]
        sys.modules[package] = made
    return importlib.import_module(f"{package}.{name}")
