"""Page files: `static/`, named by a digest over all, to be cached for ever, and compressed once."""

from __future__ import annotations

import gzip
import hashlib
import json
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

_STATIC = Path(__file__).with_name("static")
_FIRST = "main.js"
_SCREEN = "screens/journal/journal.js"  # of the address that names none
_SERVICE_WORKER = "service-worker.js"
_UNUSED = ("vendor/LICENSES", "vendor/vendor.json")  # no page loads them
_TYPES = {
    ".css": "text/css",
    ".html": "text/html",
    ".js": "text/javascript",
    ".json": "application/json",
    ".png": "image/png",
    ".svg": "image/svg+xml",
    ".txt": "text/plain",
    ".webmanifest": "application/manifest+json",
}
_IMPORT = re.compile(rb"""^(?:import|export)\b[^'";(]*?['"](\.{1,2}/[^'"]+)['"]""", re.MULTILINE)
_STYLES = re.compile(rb"""^@import "([^"/]+\.css)";$""", re.MULTILINE)
_COMMENT = re.compile(rb"^[ \t]*/\*\*(?:[^*]|\*(?!/))*\*/[ \t]*$", re.MULTILINE)
_LEAST = 512  # bytes; below that, compressing gains nothing


@dataclass(frozen=True, slots=True)
class PageFile:
    """`packed` is compressed, where that is shorter."""

    body: bytes
    type: str
    tag: str
    packed: bytes | None = None


@dataclass(frozen=True, slots=True)
class _Loaded:
    """`stamps` tell whether the files are still the same."""

    stamps: tuple[tuple[str, int, int], ...]
    version: str
    files: dict[str, PageFile]
    first: tuple[str, ...] = field(default=())


class PageFiles:
    def __init__(self, folder: Path = _STATIC) -> None:
        self._folder = folder
        self._loaded = _Loaded((), "", {})

    def look(self) -> str:
        """Read the files if they changed; the version in their addresses. It reads the disk."""
        stamps = tuple(sorted(self._stamps()))
        if stamps != self._loaded.stamps:
            self._loaded = self._load(stamps)
        return self._loaded.version

    def find(self, version: str, name: str) -> PageFile | None:
        """The file of that name, if the version is the one that `look` saw last."""
        return self._loaded.files.get(name) if version == self._loaded.version else None

    def index(self) -> str:
        """The page, with links to all scripts of its first view: they are fetched at once."""
        page = self._loaded.files["index.html"].body.decode()
        links = "\n    ".join(
            f'<link rel="modulepreload" href="/web/{self._loaded.version}/{name}">'
            for name in self._loaded.first
        )
        return page.replace("{version}", self._loaded.version).replace("<!-- preload -->", links)

    def service_worker(self) -> str:
        """The service worker, which names the version and all files to keep."""
        names = [
            f"/web/{self._loaded.version}/{name}"
            for name in self._loaded.files
            if name != _SERVICE_WORKER
            and not name.endswith(".html")
            and not name.startswith(_UNUSED)
        ]
        text = self._loaded.files[_SERVICE_WORKER].body.decode()
        return text.replace("{version}", self._loaded.version).replace(
            "[/* files */]", json.dumps(names)
        )

    def scripts(self, start: str = _FIRST) -> dict[str, PageFile]:
        """The script and all that it imports at its top, by name."""
        return {name: self._loaded.files[name] for name in _closure(self._loaded.files, start)}

    def _stamps(self) -> Iterator[tuple[str, int, int]]:
        for place, _, names in os.walk(self._folder):
            folder = Path(place)
            within = folder.relative_to(self._folder)
            for name in names:
                seen = (folder / name).stat()
                yield (within / name).as_posix(), seen.st_mtime_ns, seen.st_size

    def _load(self, stamps: tuple[tuple[str, int, int], ...]) -> _Loaded:
        bodies = {name: (self._folder / name).read_bytes() for name, _, _ in stamps}
        files = {name: _file(name, _whole(name, body, bodies)) for name, body in bodies.items()}
        whole = hashlib.sha256()
        for name, file in files.items():
            whole.update(f"{name}\0{file.tag}\0".encode())
        starts = [name for name in (_FIRST, _SCREEN) if name in files]
        first = tuple(dict.fromkeys(name for start in starts for name in _closure(files, start)))
        return _Loaded(stamps, whole.hexdigest()[:16], files, first)


def _whole(name: str, body: bytes, bodies: dict[str, bytes]) -> bytes:
    """A style sheet with its imports; a script without comments on lines of their own."""
    if name.endswith(".js") and not name.startswith("vendor/"):
        return _COMMENT.sub(lambda found: b"\n" * found[0].count(b"\n"), body)
    if not name.endswith(".css"):
        return body
    folder = PurePosixPath(name).parent
    return _STYLES.sub(lambda match: bodies[(folder / match[1].decode()).as_posix()], body)


def _file(name: str, body: bytes) -> PageFile:
    tag = f'"{hashlib.sha256(body).hexdigest()[:32]}"'
    kind = _TYPES.get(PurePosixPath(name).suffix, "application/octet-stream")
    packed = gzip.compress(body, 9, mtime=0) if len(body) >= _LEAST else None
    return PageFile(body, kind, tag, packed)


def _closure(files: dict[str, PageFile], start: str) -> list[str]:
    found, open_ = [start], [start]
    while open_:
        name = open_.pop()
        for target in _IMPORT.findall(files[name].body):
            other = _resolved(PurePosixPath(name).parent, target.decode())
            if other in files and other not in found:
                found.append(other)
                open_.append(other)
    return found


def _resolved(folder: PurePosixPath, target: str) -> str:
    parts: list[str] = list(folder.parts)
    for part in target.split("/"):
        if part == "..":
            parts.pop()
        elif part != ".":
            parts.append(part)
    return "/".join(parts)
