"""Adapters: pydantic's reader and writer of a type."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import TypeVar

from pydantic import TypeAdapter

_T = TypeVar("_T")


def late_adapter(kind: type[_T]) -> Callable[[], TypeAdapter[_T]]:
    """What makes it at the first call: each takes long, and few are needed between two starts."""

    @cache
    def adapter() -> TypeAdapter[_T]:
        return TypeAdapter(kind)

    return adapter
