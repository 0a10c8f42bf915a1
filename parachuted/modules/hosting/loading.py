"""Loads a module's class from the approved copy. What runs is compiled from the copy's source: no
bytecode is read or written, so none can be planted, and no module's folder is on `sys.path`.
"""

from __future__ import annotations

import contextlib
import importlib
import sys
import threading
import traceback
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import (
    EXTENSION_SUFFIXES,
    ExtensionFileLoader,
    ModuleSpec,
    SourceFileLoader,
)
from importlib.util import spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import NoReturn

from parachuted.errors import ModuleFailedError, UnfitError
from parachuted.modules.module import Module
from parachuted.modules.registry.copies import read_tree
from parachuted.modules.registry.manifest import Manifest

PACKAGE = "parachute_modules"
_LOCK = threading.RLock()  # sys.path and sys.meta_path are the process's


def load_class(
    copy: Path, name: str, manifest: Manifest, import_paths: Sequence[Path] = (), *, tree: str
) -> type[Module]:
    """The class that the manifest's file holds. A copy whose digest is not `tree` does not run.
    Loading again unloads first. Raises ModuleFailedError, with the traceback of a failed import.
    """
    try:
        is_approved = read_tree(copy).digest == tree
    except UnfitError as error:
        raise ModuleFailedError(
            f"the approved copy of {name} cannot be read, so it does not run: {error}"
        ) from error
    if not is_approved:
        raise ModuleFailedError(
            f"the approved copy of {name} is not what was approved, so it does not run; approve "
            "it again"
        )
    package = package_name(name, tree)
    with _LOCK:  # not while its code runs: one whose import never ends must hold up no other
        unload(name, tree)
        _prepare(_Finder(package, copy, import_paths))
    try:
        module = importlib.import_module(f"{package}.{manifest.module.removesuffix('.py')}")
        return _class_of(module, name)
    except BaseException as error:  # a module may raise SystemExit at import: it has failed
        unload(name, tree)
        if isinstance(error, ModuleFailedError):
            raise
        text = "".join(traceback.format_exception(error))[-8_000:]
        raise ModuleFailedError(f"the module {name} could not be imported:\n{text}") from error


def unload(name: str, tree: str) -> None:
    """Forget that version of the module, its imports, and the import paths that only it needs."""
    package = package_name(name, tree)
    with _LOCK:
        finders = [finder for finder in sys.meta_path if isinstance(finder, _Finder)]
        ended = [finder for finder in finders if finder.package == package]
        needed = {path for finder in finders if finder not in ended for path in finder.import_paths}
        for finder in ended:
            sys.meta_path.remove(finder)
            for path in {*finder.import_paths} - needed:
                with contextlib.suppress(ValueError):
                    sys.path.remove(path)
        for loaded in list(sys.modules):
            if loaded == package or loaded.startswith(f"{package}."):
                del sys.modules[loaded]


def package_name(name: str, tree: str) -> str:
    return f"{PACKAGE}.{name.replace('-', '_')}_{tree.removeprefix('sha256:')[:8]}"


def _prepare(finder: _Finder) -> None:
    """Put a module's dependencies last on the path, so that they cannot replace the daemon's."""
    if PACKAGE not in sys.modules:
        parent = ModuleType(PACKAGE, "Modules: the packages of the modules that are loaded.")
        parent.__path__ = []
        sys.modules[PACKAGE] = parent
    sys.path.extend(path for path in finder.import_paths if path not in sys.path)
    sys.meta_path.insert(0, finder)
    importlib.invalidate_caches()


def _class_of(module: ModuleType, name: str) -> type[Module]:
    """The one class of that file; imported base classes do not count."""
    found = {
        value
        for value in vars(module).values()
        if isinstance(value, type)
        and issubclass(value, Module)
        and value.__module__ == module.__name__
        and not value.__name__.startswith("_")
    }
    found -= {base for cls in found for base in cls.__mro__[1:]}
    if len(found) != 1:
        names = ", ".join(sorted(cls.__name__ for cls in found)) or "none"
        raise ModuleFailedError(
            f"the module {name} needs one class that inherits from Module in its file; it has "
            f"{names}"
        )
    return found.pop()


class _SourceLoader(SourceFileLoader):
    """Compiles the source at each load. A folder without `__init__.py` is an empty package."""

    def path_stats(self, path: str) -> NoReturn:
        """Without times, Python neither reads bytecode nor writes any."""
        raise OSError(f"no bytecode is kept of {path}")

    def get_data(self, path: str) -> bytes:
        if path == self.path and not Path(path).exists():
            return b""
        return super().get_data(path)


class _Finder(MetaPathFinder):
    """Finds the modules of one package in the copy. No other finder is asked for them."""

    def __init__(self, package: str, copy: Path, import_paths: Sequence[Path]) -> None:
        self.package, self._copy = package, copy
        self.import_paths = [str(path) for path in import_paths]

    def find_spec(
        self, fullname: str, _path: object = None, _target: object = None
    ) -> ModuleSpec | None:
        if fullname != self.package and not fullname.startswith(f"{self.package}."):
            return None
        place = self._copy.joinpath(*fullname.removeprefix(self.package).split(".")[1:])
        front, source = place / "__init__.py", Path(f"{place}.py")
        is_package = place.is_dir() and (front.is_file() or not source.is_file())
        if is_package or source.is_file():
            file = str(front if is_package else source)
            return spec_from_file_location(
                fullname,
                file,
                loader=_SourceLoader(fullname, file),
                submodule_search_locations=[str(place)] if is_package else None,
            )
        for binary in (f"{place}{suffix}" for suffix in EXTENSION_SUFFIXES):
            if Path(binary).is_file():
                loader = ExtensionFileLoader(fullname, binary)
                return spec_from_file_location(fullname, binary, loader=loader)
        raise ModuleNotFoundError(f"No module named {fullname!r}", name=fullname)
