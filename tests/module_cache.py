"""What loading a module computes from its files alone, kept in a process of tests.

Each test that starts an official module would compile and describe all of it again: nearly
a second of processor time for Chat.
"""

from __future__ import annotations

from functools import lru_cache
from types import CodeType

import pytest

from parachuted.modules.hosting import in_process
from parachuted.modules.module import Module
from parachuted.modules.registry.declaration import ModuleDeclaration, describe
from parachuted.modules.registry.manifest import Manifest

_LARGEST = 1_000


def install_module_cache(patch: pytest.MonkeyPatch) -> None:
    """Let the same files be compiled and described once."""
    patch.setattr(
        in_process._SourceLoader,
        "get_code",
        lambda loader, _name: _placed(_compiled(loader.get_data(loader.path)), loader.path),
    )
    patch.setattr(in_process, "describe", _DescribedModules().describe)


class _DescribedModules:
    def __init__(self) -> None:
        self._known: dict[tuple[str, str, str], ModuleDeclaration] = {}

    def describe(self, cls: type[Module], manifest: Manifest) -> ModuleDeclaration:
        """What `describe` found in that version of the files: the package's name has its digest."""
        version = cls.__module__, cls.__qualname__, repr(manifest)
        if version not in self._known:
            self._known[version] = describe(cls, manifest)
        return self._known[version]


@lru_cache(maxsize=_LARGEST)
def _compiled(source: bytes) -> CodeType:
    return compile(source, "", "exec", dont_inherit=True)


def _placed(code: CodeType, path: str) -> CodeType:
    """The same code of a file at that path."""
    inner = (
        _placed(const, path) if isinstance(const, CodeType) else const for const in code.co_consts
    )
    return code.replace(co_filename=path, co_consts=tuple(inner))
