"""What runs of modules, in the home: their approved bytes, and venvs with their packages.

A copy is made from the very bytes that were digested, is kept only if the digest is the expected
one, and is read again, whole, before anything of it runs.

Only wheels are installed, so no package code runs during installation, and the venv's Python is not
started afterwards, so no `.pth` runs either. The installed files are hashed as part of the
approval.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib.util
import os
import secrets
import shutil
import signal
import stat
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from importlib.metadata import distributions
from pathlib import Path

from parachuted.errors import ParachuteError
from parachuted.modules.registry.module_tree import (
    FileSink,
    ModuleTree,
    TreeLimits,
    TreeRefusedError,
    read_tree,
)
from parachuted.visible import visible

_FOLDER = "modules"
_UNFINISHED = ".new-"
_SHORT = 12


class ApprovedCopies:
    """The copies of one home: `<home>/modules/<name>/<first 12 of the digest>/`."""

    def __init__(self, home: Path) -> None:
        self.root = home / _FOLDER

    def folder(self, name: str) -> Path:
        return self.root / name

    def place(self, name: str, digest: str) -> Path:
        return self.folder(name) / digest.removeprefix("sha256:")[:_SHORT]

    def read(self, name: str, digest: str, sink: FileSink | None = None) -> ModuleTree:
        """Read the copy again.

        Raises TreeRefusedError when it is not, to the last bit, what was approved.
        """
        tree = read_tree(self.place(name, digest), root=self.root, sink=sink)
        if tree.digest != digest:
            raise TreeRefusedError(
                f"the approved copy of {name} is damaged; approve the module again"
            )
        return tree

    @contextlib.contextmanager
    def taking(
        self, name: str, folder: Path, *, root: Path, ignored: Collection[str] = ()
    ) -> Iterator[UnplacedCopy]:
        """Read the folder into an unfinished copy, which is gone again afterwards unless it was
        kept.
        """
        self._make_folder(name)
        unfinished = self.folder(name) / f"{_UNFINISHED}{secrets.token_hex(8)}"
        unfinished.mkdir(mode=0o700)
        try:
            with opened_folder(unfinished) as descriptor:
                tree = read_tree(
                    folder,
                    root=root,
                    sink=WritingSink(descriptor, is_read_only=True),
                    ignored=ignored,
                )
            yield UnplacedCopy(self, name, unfinished, tree)
        finally:
            remove_tree(unfinished)

    def prune(self, name: str, keep: Collection[str]) -> None:
        """Remove all that is kept of a module but those names of copies and environments.

        What cannot be removed stays.
        """
        with contextlib.suppress(FileNotFoundError):
            for folder in sorted(self.folder(name).iterdir()):
                if folder.name not in keep:
                    remove_tree(folder)
            if not keep:
                self.folder(name).rmdir()

    def _make_folder(self, name: str) -> None:
        for folder in (self.root, self.folder(name)):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            if not stat.S_ISDIR(folder.lstat().st_mode):
                raise TreeRefusedError(f"{folder} is a link or no folder; nothing was approved")


class UnplacedCopy:
    """A copy that has no place yet."""

    def __init__(self, copies: ApprovedCopies, name: str, folder: Path, tree: ModuleTree) -> None:
        self._copies, self._name = copies, name
        self.folder, self.tree = folder, tree

    def keep(self) -> Path:
        """Give it its place; a copy that is there already, sound, stays."""
        place = self._copies.place(self._name, self.tree.digest)
        with contextlib.suppress(TreeRefusedError):
            self._copies.read(self._name, self.tree.digest)
            return place
        remove_tree(place)
        for path, _folders, files in os.walk(self.folder, topdown=False):
            for one in (*(Path(path, name) for name in files), Path(path)):
                _sync(one)
            if Path(path) != self.folder:
                Path(path).chmod(0o555)
        self.folder.rename(place)
        place.chmod(0o555)
        _sync(place.parent)
        self._copies.read(self._name, self.tree.digest)
        return place


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def remove_tree(folder: Path) -> None:
    """Remove a folder of the home's, read-only or not; a link is removed, not followed."""
    with contextlib.suppress(FileNotFoundError, NotADirectoryError):
        if not stat.S_ISDIR(folder.lstat().st_mode):
            folder.unlink()
            return
        for path, folders, _files in os.walk(folder):
            Path(path).chmod(0o700)
            for name in folders:
                if not Path(path, name).is_symlink():
                    Path(path, name).chmod(0o700)
        shutil.rmtree(folder, ignore_errors=True)


class WritingSink:
    """A sink that writes what it is given below a folder that is open.

    It follows no link that somebody puts there meanwhile.
    """

    def __init__(self, descriptor: int, *, is_read_only: bool = False) -> None:
        self._folder, self._mask = descriptor, 0o555 if is_read_only else 0o755

    @contextlib.contextmanager
    def file(self, path: str, mode: int) -> Iterator[Callable[[bytes], object]]:
        *folders, name = path.split("/")
        with _entered(self._folder, folders) as folder:
            descriptor = os.open(
                name,
                os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC,
                0o600,
                dir_fd=folder,
            )
            with os.fdopen(descriptor, "wb") as file:
                yield file.write
                os.fchmod(file.fileno(), mode & self._mask)


@contextlib.contextmanager
def opened_folder(path: str | Path, within: int | None = None) -> Iterator[int]:
    """The descriptor of a folder that is not a link, by its path or its name in an open one."""
    flags = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC | os.O_NOFOLLOW
    descriptor = os.open(path, flags, dir_fd=within)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def _entered(folder: int, names: Sequence[str]) -> Iterator[int]:
    """The folder at those names below the open one, made where it is not there."""
    if not names:
        yield folder
        return
    with contextlib.suppress(FileExistsError):
        os.mkdir(names[0], 0o755, dir_fd=folder)
    with opened_folder(names[0], folder) as inner, _entered(inner, names[1:]) as last:
        yield last


PREFIX = "venv-"
_WAIT_S = 600.0
_MOST = TreeLimits(names=100_000, size=4_000_000_000)
_OPTIONS = (
    "--no-input",
    "--disable-pip-version-check",
    "--no-compile",
    "--only-binary",
    ":all:",
    "--no-warn-script-location",
    "--quiet",
)
_SECRET = ("PYTHON", "PARACHUTE_", "ANTHROPIC_", "CLAUDE_")
_OF_PIP = (
    "pip",
    "setuptools",
    "wheel",
    "pkg_resources",
    "_distutils_hack",
    "distutils-precedence.pth",
)


class EnvironmentFailedError(ParachuteError):
    """The module's packages could not be installed."""


def build(
    folder: Path, requirements: Sequence[str], env: Mapping[str, str]
) -> tuple[str, tuple[str, ...]]:
    """Make an environment with those packages in the module's folder of the home: its name there,
    and its lock.

    Raises EnvironmentFailedError, and has then left nothing behind. Where packages come from is
    what the machine's pip is set to.
    """
    place = folder / f"{PREFIX}{secrets.token_hex(4)}"
    try:
        has_pip = importlib.util.find_spec("pip") is not None
        venv = [
            sys.executable,
            "-I",
            "-m",
            "venv",
            *(["--without-pip"] if has_pip else []),
            str(place),
        ]
        _run(venv, env, "no environment could be made")
        python = str(place / "bin" / "python")
        pip = (
            [sys.executable, "-I", "-m", "pip", "--python", python]
            if has_pip
            else [python, "-I", "-m", "pip"]
        )
        _run(
            [*pip, "install", *_OPTIONS, "--", *requirements],
            env,
            "its packages could not be installed",
        )
        if not has_pip:
            _without_pip(site_packages(place))
        for cache in list(
            site_packages(place).rglob("__pycache__")
        ):  # a wheel may bring bytecode; the lock does not count such folders
            remove_tree(cache)
        return place.name, lock_of(place)
    except BaseException:
        remove_tree(place)
        raise


def site_packages(environment: Path) -> Path:
    """The folder that belongs at the end of the import path."""
    base = str(environment)
    return Path(
        sysconfig.get_path(
            "purelib", "venv", {"base": base, "platbase": base, "installed_base": base}
        )
    )


def lock_of(environment: Path) -> tuple[str, ...]:
    """What is installed there, to the last byte.

    Raises EnvironmentFailedError. Bytecode is the interpreter's own and does not count.
    """
    site = site_packages(environment)
    try:
        tree = read_tree(site, root=environment, ignored={"__pycache__"}, limits=_MOST)
    except TreeRefusedError as error:
        raise EnvironmentFailedError(
            "its packages cannot be read, or were made for another Python; approve it again "
            f"({error})"
        ) from error
    lines = {
        f"{found.name}=={found.version} sha256:{_record(found.read_text('RECORD'))}"
        for found in distributions(path=[str(site)])
    }
    return (*sorted(lines), f"site-packages {tree.digest}")


def _record(text: str | None) -> str:
    return hashlib.sha256((text or "").encode()).hexdigest()


def _without_pip(site: Path) -> None:
    """The installer is not part of what was installed."""
    for found in site.iterdir():
        if found.name in _OF_PIP or found.name.partition("-")[0] in _OF_PIP:
            shutil.rmtree(found) if found.is_dir() else found.unlink()


def _run(words: Sequence[str], env: Mapping[str, str], failed: str) -> None:
    """Run in an empty folder, for what lies in the working folder can stand in for a part of Python
    or be taken for a package.
    """
    with (
        tempfile.TemporaryDirectory(prefix="parachute-empty-") as empty,
        tempfile.TemporaryFile() as out,
    ):
        own = {name: value for name, value in env.items() if not name.startswith(_SECRET)}
        try:
            process = subprocess.Popen(  # noqa: S603  our interpreter, and requirements that the manifest's reader has checked
                words,
                env=own,
                cwd=empty,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        except OSError as error:
            raise EnvironmentFailedError(f"{failed}: {error.strerror}") from error
        try:
            code = process.wait(_WAIT_S)
        except BaseException as error:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            if isinstance(error, subprocess.TimeoutExpired):
                raise EnvironmentFailedError(f"{failed} within {_WAIT_S:g} s") from error
            raise
        if code:
            out.seek(max(out.seek(0, os.SEEK_END) - 2_000, 0))
            raise EnvironmentFailedError(
                f"{failed}:\n{visible(out.read().decode(errors='replace').strip(), keep=chr(10))}"
            )
