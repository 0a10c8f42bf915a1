"""The packages that a module needs, in its own venv in the home.

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
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Mapping, Sequence
from importlib.metadata import distributions
from pathlib import Path

from parachuted.errors import ParachuteError
from parachuted.modules.registry.approved_copies import remove_tree
from parachuted.modules.registry.module_tree import TreeLimits, TreeRefusedError, read_tree
from parachuted.visible import visible

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
    """What installs is no part of what was installed."""
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
