"""Compiled: the code of modules, compiled once in a process of tests.

Each test that starts an official module would compile all of it again, half a second for Chat.
"""

from __future__ import annotations

from functools import lru_cache
from types import CodeType


def compile_once(source: bytes, path: str) -> CodeType:
    """What `compile` makes of a file's bytes at that path."""
    return _placed(_compiled(source), path)


@lru_cache(maxsize=1_000)
def _compiled(source: bytes) -> CodeType:
    return compile(source, "", "exec", dont_inherit=True)


def _placed(code: CodeType, path: str) -> CodeType:
    """The same code of a file at that path."""
    inner = (_placed(one, path) if isinstance(one, CodeType) else one for one in code.co_consts)
    return code.replace(co_filename=path, co_consts=tuple(inner))
