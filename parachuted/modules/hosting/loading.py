"""Loads a module's class from the approved copy, and from nothing else.

The copy is read again, and what runs is compiled from those bytes: no bytecode is read or written,
so none can be planted, and no module's folder is on `sys.path`. A module is a package of its own:
`from . import tools`.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import sys
import threading
import traceback
from collections.abc import Mapping, Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import EXTENSION_SUFFIXES, ExtensionFileLoader, ModuleSpec
from importlib.readers import FileReader
from pathlib import Path
from types import CodeType, ModuleType

from parachuted.errors import ModuleFailedError
from parachuted.modules.module import Module
from parachuted.modules.registry.copies import TreeRefusedError, read_tree
from parachuted.modules.registry.manifest import Manifest

PACKAGE = "parachute_modules"
_SOURCE = ".py"
_LOCK = threading.RLock()  # sys.path and sys.meta_path are the process's


def load_class(
    copy: Path, name: str, manifest: Manifest, import_paths: Sequence[Path] = (), *, tree: str
) -> type[Module]:
    """The class that the manifest's file holds.

    `tree` is the approved digest of the files: a copy that is not that does not run.

    Raises ModuleFailedError with the traceback when the import fails. Loading again unloads first.
    """
    try:
        found = read_tree(copy, keep=lambda path: path.endswith(_SOURCE))
    except TreeRefusedError as error:
        raise ModuleFailedError(
            f"the approved copy of {name} cannot be read, so it does not run: {error}"
        ) from error
    if found.digest != tree:
        raise ModuleFailedError(
            f"the approved copy of {name} is not what was approved, so it does not run; approve "
            "it again"
        )
    package = package_name(name, tree)
    with _LOCK:  # not while its code runs: one whose import never ends must hold up no other
        unload(name, tree)
        _prepare(
            _Finder(package, copy, found.kept, frozenset(file.path for file in found.files)),
            import_paths,
        )
    try:
        module = importlib.import_module(f"{package}.{manifest.module.removesuffix(_SOURCE)}")
        return _class_of(module, name)
    except (
        BaseException
    ) as error:  # a module may raise SystemExit, or worse, at import: it is the module that failed
        unload(name, tree)
        if isinstance(error, ModuleFailedError):
            raise
        raise ModuleFailedError(
            f"the module {name} could not be imported:\n{_traceback(error)}"
        ) from error


def unload(name: str, tree: str) -> None:
    """Forget that version of the module, its own imports, and the import paths that are no longer
    needed.
    """
    package = package_name(name, tree)
    with _LOCK:
        finders = [finder for finder in sys.meta_path if isinstance(finder, _Finder)]
        for finder in finders:
            if finder.package == package:
                sys.meta_path.remove(finder)
                still = {
                    path for other in finders if other is not finder for path in other.import_paths
                }
                for path in set(finder.import_paths) - still:
                    with contextlib.suppress(ValueError):
                        sys.path.remove(path)
        for loaded in [
            one for one in list(sys.modules) if one == package or one.startswith(f"{package}.")
        ]:
            del sys.modules[loaded]


def package_name(name: str, tree: str) -> str:
    """What a module's code is called inside the process."""
    return f"{PACKAGE}.{name.replace('-', '_')}_{tree.removeprefix('sha256:')[:8]}"


def _prepare(finder: _Finder, import_paths: Sequence[Path]) -> None:
    """Put a module's dependencies last on the path, so that they cannot replace the daemon's."""
    if PACKAGE not in sys.modules:
        parent = ModuleType(PACKAGE, "Modules: the packages of the modules that are loaded.")
        parent.__path__ = []
        sys.modules[PACKAGE] = parent
    finder.import_paths = [str(path) for path in import_paths]
    sys.path.extend(path for path in finder.import_paths if path not in sys.path)
    sys.meta_path.insert(0, finder)
    importlib.invalidate_caches()


def _class_of(module: ModuleType, name: str) -> type[Module]:
    """The one class of that file; imported base classes do not count."""
    found = [
        one
        for one in vars(module).values()
        if isinstance(one, type)
        and issubclass(one, Module)
        and one.__module__ == module.__name__
        and not one.__name__.startswith("_")
    ]
    found = [
        one
        for one in dict.fromkeys(found)
        if not any(other is not one and issubclass(other, one) for other in found)
    ]
    if len(found) != 1:
        names = ", ".join(sorted(one.__name__ for one in found)) or "none"
        raise ModuleFailedError(
            f"the module {name} needs one class that inherits from Module in its file; it has "
            f"{names}"
        )
    return found[0]


def _traceback(error: BaseException) -> str:
    return "".join(traceback.format_exception(error))[-8_000:]


class _Finder(MetaPathFinder):
    """Finds the modules of one package, and refuses those that are not in the copy."""

    def __init__(
        self, package: str, copy: Path, sources: Mapping[str, bytes], files: frozenset[str]
    ) -> None:
        self.package, self._copy, self._sources, self._files = package, copy, sources, files
        self._folders = {path.rpartition("/")[0] for path in files} | {""}
        self._folders |= {part for folder in list(self._folders) for part in _above(folder)}
        self.import_paths: list[str] = []

    def find_spec(
        self, fullname: str, _path: object = None, _target: object = None
    ) -> ModuleSpec | None:
        if fullname != self.package and not fullname.startswith(f"{self.package}."):
            return None
        inner = fullname[len(self.package) + 1 :].replace(".", "/")
        init = f"{inner}/__init__.py".lstrip("/")
        if init in self._sources:
            return self._spec(fullname, init, is_package=True)
        if f"{inner}.py" in self._sources:
            return self._spec(fullname, f"{inner}.py", is_package=False)
        for suffix in EXTENSION_SUFFIXES:
            if inner and f"{inner}{suffix}" in self._files:
                origin = str(self._copy / f"{inner}{suffix}")
                return ModuleSpec(fullname, ExtensionFileLoader(fullname, origin), origin=origin)
        return self._spec(fullname, init, is_package=True) if inner in self._folders else None

    def _spec(self, fullname: str, path: str, *, is_package: bool) -> ModuleSpec:
        loader = _SourceLoader(self._copy / path, self._sources.get(path, b""))
        spec = ModuleSpec(fullname, loader, origin=loader.path, is_package=is_package)
        spec.has_location = path in self._sources
        return spec


class _SourceLoader(Loader):
    """Runs the bytes that were verified.

    A package's `__path__` stays empty, so that no other finder searches it.
    """

    def __init__(self, path: Path, source: bytes) -> None:
        self.path, self._source = str(path), source

    def create_module(self, _spec: ModuleSpec) -> None:
        return None

    def exec_module(self, module: ModuleType) -> None:
        exec(self.get_code(module.__name__), vars(module))  # noqa: S102  this is what an import is

    def get_code(self, _fullname: str) -> CodeType:
        return compile(self._source, self.path, "exec", dont_inherit=True)

    def get_source(self, _fullname: str) -> str:
        """For tracebacks: the text that ran, even if the copy is gone."""
        return importlib.util.decode_source(self._source)

    def get_resource_reader(self, _fullname: str) -> FileReader:
        return FileReader(self)  # type: ignore[arg-type]  # it asks for `path` alone


def _above(folder: str) -> list[str]:
    names = folder.split("/")
    return ["/".join(names[:count]) for count in range(1, len(names))]
