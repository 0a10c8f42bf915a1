"""Something small about each file, kept in the module's state by path. It can be lost."""

from __future__ import annotations

import hashlib
import json
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from typing import Generic, TypeVar, cast

from parachuted.modules import StateAccess

_LARGEST = 900_000  # bytes of JSON in one value of the state
_BUCKET = 2  # hexadecimal digits: 256 values, so that a vault of many files has few of them
Value = TypeVar("Value")


class ByPath(Generic[Value]):
    """For each path, values by the name of an entry there; an empty mapping is none."""

    def __init__(self, state: StateAccess, prefix: str) -> None:
        self._state, self._prefix = state, prefix
        self._files: dict[str, Mapping[str, Value]] = {}
        self._buckets: defaultdict[str, dict[str, Mapping[str, Value]]] = defaultdict(dict)
        self._changed: set[str] = set()
        self._stored: Counter[str] = Counter()
        self._places: dict[str, str] = {}

    def __iter__(self) -> Iterator[str]:
        return iter(self._files)

    async def load(self) -> None:
        for key in await self._state.keys():
            if not key.startswith(self._prefix):
                continue
            bucket = key.removeprefix(self._prefix).partition("-")[0]
            self._stored[bucket] += 1
            stored = cast("dict[str, Mapping[str, Value]]", await self._state.get(key))
            for path, values in stored.items():
                self._set(path, {**self.get(path), **values})

    async def save(self) -> None:
        for bucket in sorted(self._changed):
            self._changed.discard(bucket)
            try:
                await self._save(bucket)
            except BaseException:
                self._changed.add(bucket)
                raise

    async def _save(self, bucket: str) -> None:
        parts = list(_parts(self._buckets[bucket]))
        for number in range(max(len(parts), self._stored[bucket])):
            key = f"{self._prefix}{bucket}" + (f"-{number}" if number else "")
            if number < len(parts):
                await self._state.put(key, parts[number])
            else:
                await self._state.delete(key)
        self._stored[bucket] = len(parts)

    def get(self, path: str) -> Mapping[str, Value]:
        return self._files.get(path, {})

    def put(self, path: str, values: Mapping[str, Value]) -> None:
        if values != self.get(path):
            self._set(path, values)
            self._changed.add(_bucket(path))

    def move(self, source: str, path: str) -> None:
        values = self.get(source)
        self.put(path, {**self.get(path), **values})
        self.put(source, {})

    def path_of(self, name: str) -> str | None:
        path = self._places.get(name)
        if path is None or name in self.get(path):
            return path
        return next((path for path, values in self._files.items() if name in values), None)

    def paths_of(self, name: str) -> Iterator[str]:
        """The files that have it, the one that had it first before others."""
        first = self.path_of(name)
        if first is not None:
            yield first
            yield from (path for path, values in self._files.items() if name in values)

    def _set(self, path: str, values: Mapping[str, Value]) -> None:
        if values:
            self._files[path] = self._buckets[_bucket(path)][path] = dict(values)
            for name in values:
                if name not in self._files.get(self._places.get(name, ""), {}):
                    self._places[name] = path
        else:
            self._files.pop(path, None)
            self._buckets[_bucket(path)].pop(path, None)


def _parts(held: Mapping[str, Mapping[str, Value]]) -> Iterator[dict[str, dict[str, Value]]]:
    if len(json.dumps(held)) <= _LARGEST:
        if held:
            yield {path: dict(values) for path, values in held.items()}
        return
    part: dict[str, dict[str, Value]] = {}
    size = 0
    for path, values in held.items():
        for name, value in values.items():
            size += len(json.dumps({name: value})) + (0 if path in part else len(json.dumps(path)))
            if size > _LARGEST and part:
                yield part
                part, size = {}, 0
            part.setdefault(path, {})[name] = value
    if part:
        yield part


def _bucket(path: str) -> str:
    return hashlib.blake2b(path.encode(), digest_size=4).hexdigest()[:_BUCKET]
