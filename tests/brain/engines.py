"""Brain's engines as a package, without the module: what the tests of pure files import."""

from __future__ import annotations

import importlib
import sys
from types import ModuleType

from parachuted.home_files.bundled import bundled_folder

_PACKAGE = "brain_engines"


def engine(name: str) -> ModuleType:
    """One file of modules/brain, whose own imports of files beside it work."""
    if _PACKAGE not in sys.modules:
        package = ModuleType(_PACKAGE)
        package.__path__ = [str(bundled_folder("modules") / "brain")]
        sys.modules[_PACKAGE] = package
    return importlib.import_module(f"{_PACKAGE}.{name}")
