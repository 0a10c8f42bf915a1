#!/usr/bin/env python3
"""Keep every state of the vault in a git repository outside it.

git is never let into the vault: a repository inside it may name programs to be run (core.fsmonitor,
filters), and what is in the vault is data. This script reads the files itself and hands git their
bytes, those of embedded repositories like all others.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

NAME = "backup.git"  # in the home, or wherever PARACHUTE_BACKUP says
# what each file was when it was last read, so that a backup reads only what changed
SEEN = "seen.json"
GIT = ".git"  # left out at any depth, in any case: git cannot keep that name
OWN = ".parachute"  # left out at the top
DEEPEST = 100  # folders in folders; what is below is not read
LARGE = 16 * 1024 * 1024  # bytes; what is larger is not held in memory
# a file that changed so shortly before it was read may change again within the same tick of its
# clock
SETTLED_NS = 1_000_000_000
ALONE = {
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_ATTR_NOSYSTEM": "1",
    "GIT_TERMINAL_PROMPT": "0",
}
QUIET = (
    "-c",
    "core.hooksPath=/dev/null",
    "-c",
    "core.fsmonitor=false",
    "-c",
    "gc.auto=500",
    "-c",
    "gc.autoDetach=false",
)

Stamp = list[int]


class Entry(NamedTuple):
    """A file as git keeps it."""

    mode: str
    blob: str


class Found(NamedTuple):
    """What the vault holds now.

    `unread`: files and folders that could not be read; what was kept of them stays.
    """

    entries: dict[str, Entry]
    stamps: dict[str, Stamp]
    unread: list[str]


class Importing:
    """git, reading from us what is new. It opens no file of the vault. Ended by `close`."""

    def __init__(self, repository: Path) -> None:
        command = ["git", *QUIET, f"--git-dir={repository}", "fast-import", "--quiet", "--done"]
        self._process = subprocess.Popen(  # noqa: S603
            command,
            env=environment(),
            cwd=repository,
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
        )

    def say(self, data: bytes) -> None:
        """Give it the next words; one that has ended said why on stderr."""
        try:
            assert self._process.stdin is not None  # noqa: S101  it is a pipe
            self._process.stdin.write(data)
        except BrokenPipeError:
            sys.exit("git fast-import ended before the backup was done")

    def add(self, data: bytes) -> None:
        """Keep those bytes."""
        self.say(b"blob\ndata %d\n%b\n" % (len(data), data))

    def close(self) -> None:
        """Wait until all is kept."""
        self.say(b"done\n")
        self._process.communicate()
        if self._process.returncode:
            sys.exit("git fast-import failed")


def main() -> None:
    """One at a time: a process that comes while another works leaves word, and that one goes
    through the vault once more.
    """
    event = json.load(sys.stdin)
    vault = Path(event["vault_path"]).resolve()
    home = Path(os.environ.get("PARACHUTE_HOME") or Path.home() / ".parachute")
    repository = Path(os.environ.get("PARACHUTE_BACKUP") or home / NAME).resolve()
    if repository.is_relative_to(vault):
        sys.exit("the backup would be inside of what it backs up; choose another PARACHUTE_BACKUP")
    repository.mkdir(parents=True, exist_ok=True, mode=0o700)
    word = repository / "again"
    word.touch()
    while word.exists():
        with (repository / "one-at-a-time").open("w") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return
            while word.exists():
                word.unlink(missing_ok=True)
                back_up(vault, repository, event)


def back_up(vault: Path, repository: Path, event: dict[str, object]) -> None:
    """Commit what is there now, if it is not what was there last."""
    if not (repository / "HEAD").exists():
        git(repository, "init", "--quiet", "--bare", "--template=", "--object-format=sha1")
    branch = git(repository, "symbolic-ref", "HEAD").decode().strip()
    last = git(repository, "rev-parse", "--verify", "--quiet", "HEAD", check=False).decode().strip()
    kept = read_tree(repository) if last else {}
    importing = Importing(repository)
    found = read_vault(vault, repository, kept, importing)
    gone = [path for path in kept if path not in found.entries and not is_below(path, found.unread)]
    changed = {path: entry for path, entry in found.entries.items() if kept.get(path) != entry}
    if gone or changed:
        message = subject(event).encode("utf-8", "replace")
        importing.say(
            f"commit {branch}\ncommitter parachuted <parachuted@localhost> {int(time.time())} "
            "+0000\n".encode()
        )
        importing.say(b"data %d\n%b\n" % (len(message), message))
        importing.say(f"from {last}\n".encode() if last else b"")
        for path in gone:
            importing.say(b"D %b\n" % quoted(path))
        for path, entry in changed.items():
            importing.say(
                b"M %b %b %b\n" % (entry.mode.encode(), entry.blob.encode(), quoted(path))
            )
    importing.close()
    if gone or changed:
        if (
            repository / "index"
        ).exists():  # of a repository that an earlier version of this script made
            git(repository, "read-tree", "HEAD")
        git(repository, "gc", "--auto", "--quiet", check=False)
    remember(
        repository, {path: (stamp, found.entries[path]) for path, stamp in found.stamps.items()}
    )


def read_tree(repository: Path) -> dict[str, Entry]:
    """What the last backup holds, by path."""
    kept = {}
    for line in git(repository, "ls-tree", "-r", "-z", "--full-tree", "HEAD").split(b"\0")[:-1]:
        meta, _, path = line.partition(b"\t")
        mode, _kind, blob = meta.decode().split()
        kept[os.fsdecode(path)] = Entry(mode, blob)
    return kept


def read_vault(
    vault: Path, repository: Path, kept: dict[str, Entry], importing: Importing
) -> Found:
    """Every file of the vault; the bytes of those that are not known are kept by the way."""
    found = Found({}, {}, [])
    known = recall(repository)
    top = os.open(vault, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    for path, name, folder in files(top, "", 0, found.unread):
        try:
            seen = os.stat(name, dir_fd=folder, follow_symlinks=False)
            stamp, entry = known.get(path, ([], None))
            if entry is not None and stamp == stamp_of(seen) and kept.get(path) == entry:
                found.entries[path], found.stamps[path] = entry, stamp
            elif stat.S_ISLNK(seen.st_mode):
                found.entries[path] = keep(
                    "120000", os.fsencode(os.readlink(name, dir_fd=folder)), importing
                )
            elif stat.S_ISREG(seen.st_mode):
                read_one(path, name, folder, repository, importing, found)
        except FileNotFoundError:
            continue  # it was there a moment ago
        except OSError:
            found.unread.append(
                path
            )  # a file that cannot be read must not keep the others from being kept
    os.close(top)
    return found


def files(folder: int, below: str, depth: int, unread: list[str]) -> Iterator[tuple[str, str, int]]:
    """Path in the vault, name and open folder of each file. Links are not followed."""
    with os.scandir(folder) as scanned:
        names = sorted((one.name, one.is_dir(follow_symlinks=False)) for one in scanned)
    for name, is_folder in names:
        path = f"{below}{name}"
        if name.lower() == GIT or path == OWN:
            continue
        if not is_folder:
            if name != ".DS_Store" and not name.endswith(".tmp"):
                yield path, name, folder
            continue
        try:
            inner = os.open(
                name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder
            )
        except OSError:
            unread.append(path)
            continue
        try:
            if depth < DEEPEST:
                yield from files(inner, f"{path}/", depth + 1, unread)
            else:
                unread.append(path)
        finally:
            os.close(inner)


def read_one(
    path: str, name: str, folder: int, repository: Path, importing: Importing, found: Found
) -> None:
    """Add a file to what was found."""
    now = time.time_ns()
    opened = os.open(
        name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder
    )
    with os.fdopen(opened, "rb") as file:
        seen = os.fstat(opened)
        if not stat.S_ISREG(seen.st_mode):
            return
        mode = "100755" if seen.st_mode & stat.S_IXUSR else "100644"
        if seen.st_size > LARGE:
            entry = Entry(
                mode,
                git(repository, "hash-object", "-w", "--no-filters", "--stdin", stdin=opened)
                .decode()
                .strip(),
            )
        else:
            entry = keep(mode, file.read(), importing)
    found.entries[path] = entry
    if now - max(seen.st_mtime_ns, seen.st_ctime_ns) > SETTLED_NS:
        found.stamps[path] = stamp_of(seen)


def keep(mode: str, data: bytes, importing: Importing) -> Entry:
    """Give git those bytes, under the name that it has for them."""
    importing.add(data)
    return Entry(mode, hashlib.sha1(b"blob %d\0%b" % (len(data), data)).hexdigest())  # noqa: S324  it is git's


def stamp_of(seen: os.stat_result) -> Stamp:
    """What tells that a file is as it was."""
    return [seen.st_mtime_ns, seen.st_ctime_ns, seen.st_size, seen.st_ino, seen.st_mode]


def quoted(path: str) -> bytes:
    """A path as fast-import reads it, whatever bytes its name is of."""
    return b'"%b"' % os.fsencode(path).replace(b"\\", b"\\\\").replace(b'"', b'\\"').replace(
        b"\n", b"\\n"
    )


def subject(event: dict[str, object]) -> str:
    """What is said of the commit: the event and the file that it is about."""
    data = event.get("data")
    path = data.get("path") if isinstance(data, dict) else None
    return " ".join(" ".join(str(part) for part in (event.get("event"), path) if part).split())[
        :200
    ]


def is_below(path: str, places: list[str]) -> bool:
    """Whether it is one of the places or in one of them."""
    return any(path == place or path.startswith(f"{place}/") for place in places)


def recall(repository: Path) -> dict[str, tuple[Stamp, Entry]]:
    """What files were when they were last read; empty where nothing is known, which costs only
    time.
    """
    try:
        document = json.loads((repository / SEEN).read_bytes())
        return {path: (stamp, Entry(*entry)) for path, (stamp, entry) in document.items()}
    except (OSError, ValueError, TypeError, AttributeError):
        return {}


def remember(repository: Path, seen: dict[str, tuple[Stamp, Entry]]) -> None:
    """The other way."""
    unfinished = repository / f"{SEEN}.new"
    unfinished.write_text(json.dumps(seen))
    unfinished.replace(repository / SEEN)


def environment() -> dict[str, str]:
    """What git is given: no settings but the repository's own."""
    return {
        **{name: value for name, value in os.environ.items() if not name.startswith("GIT_")},
        **ALONE,
    }


def git(
    repository: Path, *words: str, stdin: int = subprocess.DEVNULL, check: bool = True
) -> bytes:
    """What git prints. It works in its own repository, and in no folder of the vault."""
    command = ["git", *QUIET, f"--git-dir={repository}", *words]
    done = subprocess.run(  # noqa: S603
        command, env=environment(), cwd=repository, stdin=stdin, capture_output=True, check=False
    )
    if check and done.returncode:
        sys.exit(f"git {words[0]}: {done.stderr.decode(errors='replace').strip()}")
    return done.stdout


if __name__ == "__main__":
    main()
