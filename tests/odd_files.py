"""Odd files: what may stand where a module reads from a vault, and that it stays as it is."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

_TEXT = b"---\npara_id: para:brain:oddoddoddodd\n---\n# Odd\n\nWords of an odd file.\n"
_DEEP = 5_000


def _front(yaml: bytes) -> bytes:
    return b"---\n" + yaml + b"\n---\n# Odd\n\nWords.\n"


def _folder(path: Path) -> None:
    path.mkdir()
    (path / "inside.md").write_bytes(_TEXT)


def _unreadable(path: Path) -> None:
    path.write_bytes(_TEXT)
    path.chmod(0)


CONTENTS: Mapping[str, bytes] = {
    "empty": b"",
    "only a byte order mark": b"\xef\xbb\xbf",
    "a byte order mark": b"\xef\xbb\xbf" + _TEXT,
    "latin-1": "# Caf\xe9\n".encode("latin-1"),
    "UTF-16": "# Odd\n".encode("utf-16"),
    "NULs": b"\x00" * 4_096,
    "3 MB in one line": b"# Odd\n\n" + b"x" * 3_000_000,
    "CR alone": _TEXT.replace(b"\n", b"\r"),
    "YAML that is a list": _front(b"- a\n- b"),
    "YAML that is a scalar": _front(b"just words"),
    "YAML nested deeply": _front(b"a: " + b"[" * _DEEP + b"]" * _DEEP),
    "YAML with duplicate keys": _front(b"name: A\nname: B\ntype: person\ntype: [b]"),
    "YAML with dates that are none": _front(
        b"date: 2026-13-45\ncreated: 99999-01-01\nid: 0001-01-01"
    ),
    "YAML with tabs": _front(b"a:\n\t- b\n\tc: d"),
    "YAML with an alias of itself": _front(b"a: &a [*a]\nb: *nowhere"),
    "YAML that is not closed": b"---\nname: Odd\nschedule: {time: 3:00\n",
    "YAML of wrong kinds": _front(
        b"para_id: [a]\nid: {b: c}\ntitle: [x]\nname: 7\ntype: {b: c}\ntags: 1\naliases: {d: e}\n"
        b"schedule: [1]\noutput: 3\ntools: {a: b}\ndays: -1\ncreated: [1]\nmentions: {a: b}\n"
        b"context_folders: 7\npermissions: [1]\nmessages: x\nlinked_bot: [1]\nforks: 3\nhistory: 3"
    ),
    "media that are none": _front(
        b"audio: ../../../etc/passwd\nimage: /etc/passwd\nduration: x\nstatus: recorded"
    ),
    "entries at no time": b"# para:daily:oddoddoddodd 25:99\n\nWords.\n\n# 99:99\n\n"
    b"# para:daily:oddoddoddodd\n\n### para:daily: | 2026-99-99T99:99 | text\n\nx\n",
    "YAML of types": b"types:\n  - person\n  - {a: [b]}\n",
    "YAML of types with odd values": b"types:\n  person: [1]\n  7: {}\n"
    b"  plant: {folder: ../x, fields: 3}\n  tree: {fields: {a: {values: 3, type: [b]}}}\n",
    "JSON that is a list": b"[1, null, []]\n",
    "JSON that is a number": b"7",
    "JSON of wrong kinds": b'{"queries": {"a": 1}, "id": [1], "path": {}}\n[]\nnull\n',
    "JSON nested deeply": b"[" * _DEEP + b"]" * _DEEP,
    "two sections of one name": b"# Odd\n\n## Facts\n- Role: Baker\n\n## Facts\n- Role: Smith\n"
    b"\n## Relationships\n- [[kim]]\n\n## Relationships\n- [[|]]\n",
    "a contradiction": b"# Odd\n\n## Facts\n- Role: Baker (since 2020)\n- Role: Smith\n",
    "a contradiction on the first day of all": b"# Odd\n\n## Facts\n- Role: Baker\n"
    b"- Role: Smith (since 0001-01-01)\n- Role: X (9999-12-31 to 0001-01-01)\n",
    "a name of punctuation": b"---\nname: '...'\naliases: ['?', '\"\"', '#']\n---\n# !!!\n",
    "headings without words": b"# \n#\n## \n### !!!\n# ...\n",
    "conflict markers": b"<<<<<<< HEAD\n# A\n=======\n# B\n>>>>>>> other\n",
    "messages of wrong kinds": b'# Odd\n\n<!-- message {"id": [1]} -->\n### User\n'
    b"<!-- message: " + b"[" * 2_000 + b" -->\n### Who?\n",
    "control characters": b"# A\x1b[31m\x07\x7f\xe2\x80\xae\n\n\x0c\x0b\xc2\x85\n",
}
KINDS: Mapping[str, Callable[[Path], None]] = {
    "a folder": _folder,
    "a FIFO": os.mkfifo,
    "a socket": lambda path: os.mknod(path, stat.S_IFSOCK | 0o600),
    "a link to nowhere": lambda path: path.symlink_to("nowhere.md"),
    "a link to itself": lambda path: path.symlink_to(path.name),
    "a link out of the vault": lambda path: path.symlink_to("/etc/hostname"),
    "a file that nobody may read": _unreadable,
}
ODD = (*CONTENTS, *KINDS)
NAMES = (
    b"\xff\xfe.md", b"a\nb.md", b"\x1b[31m.md", b"#.md", b"[[kim]].md", b" .md", b"...md", b"~.md",
    b"con.md", b"*?.md", b"a:b.md", b"\\.md", b"'\".md", b"%00.md", b"x" * 250 + b".md",
    "\N{FOX FACE}.md".encode(), "e\N{COMBINING ACUTE ACCENT}.md".encode(), b"2026-13-45.md",
    b"0000-00-00.md", b"9999-12-31.md", b"2026-02-23 .md", b".md", b"-.md", b"status.md", b"A.MD",
)  # fmt: skip


def put(name: str, path: Path) -> None:
    """Put the odd thing of that name there."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if name in CONTENTS:
        path.write_bytes(CONTENTS[name])
    else:
        KINDS[name](path)


def put_names(folder: Path) -> dict[bytes, bytes]:
    """Put a note of each odd name into that folder; the files with what they hold."""
    folder.mkdir(parents=True, exist_ok=True)
    files = {os.fsencode(folder) + b"/" + name: b"# Odd\n\nOdd words.\n" for name in NAMES}
    for path, data in files.items():
        Path(os.fsdecode(path)).write_bytes(data)
    return files


def changed(files: Mapping[bytes, bytes]) -> list[bytes]:
    """Those of the files that do not hold this any more."""
    return [path for path, data in files.items() if Path(os.fsdecode(path)).read_bytes() != data]


def state_of(path: Path) -> tuple[int, object]:
    """What stands there, so that two looks can be compared."""
    mode = path.lstat().st_mode
    if stat.S_ISLNK(mode):
        return mode, path.readlink()
    if stat.S_ISDIR(mode):
        return mode, sorted((one.name, state_of(one)) for one in path.iterdir())
    if not stat.S_ISREG(mode):
        return mode, None
    path.chmod(0o600)
    try:
        return mode, path.read_bytes()
    finally:
        path.chmod(stat.S_IMODE(mode))


def mistakes_in(caplog: pytest.LogCaptureFixture) -> list[str]:
    """What was read and failed by the module's own fault."""
    return [
        record.getMessage()
        for record in caplog.records
        if record.name == "parachuted.modules.results"
    ]
