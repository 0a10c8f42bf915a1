"""Official modules: their files, imported as the daemon does, and whole in a running daemon."""

from __future__ import annotations

import importlib
import sys
from types import ModuleType

from parachuted.home_files.bundled import bundled_folder
from tests.api.routes.test_modules import install
from tests.stories.daemon_rig import DaemonRig


async def install_official(daemon_rig: DaemonRig, *names: str) -> None:
    for name in names:
        await install(daemon_rig, bundled_folder("modules") / name, "trusted")


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
