"""The virtual environment with a module's packages, in the home.

Only wheels are installed, so no package code runs during installation, and the environment's Python
is not started afterwards, so no `.pth` runs either. The installed files are hashed as part of the
approval.
"""

from __future__ import annotations

import hashlib
import importlib.util
import secrets
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Mapping, Sequence
from importlib.metadata import distributions
from pathlib import Path

from parachuted.errors import ParachuteError
from parachuted.modules.registry.copies import TreeLimits, TreeRefusedError, read_tree, remove_tree
from parachuted.visible import visible

_WAIT_S = 600.0
_LIMITS = TreeLimits(names=100_000, size=4_000_000_000)
_OPTIONS = (
    *("--no-input", "--disable-pip-version-check", "--no-compile", "--no-warn-script-location"),
    *("--only-binary", ":all:", "--quiet"),
)
_SECRET = ("PYTHON", "PARACHUTE_", "ANTHROPIC_", "CLAUDE_")
_OF_PIP = (
    *("pip", "setuptools", "wheel", "pkg_resources"),
    *("_distutils_hack", "distutils-precedence.pth"),
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
    place = folder / f"venv-{secrets.token_hex(4)}"
    python = [sys.executable, "-I", "-m"]
    has_pip = importlib.util.find_spec("pip") is not None
    try:
        without = ["--without-pip"] if has_pip else []
        _run([*python, "venv", *without, str(place)], env, "no environment could be made")
        inner = str(place / "bin" / "python")
        pip = [*python, "pip", "--python", inner] if has_pip else [inner, "-I", "-m", "pip"]
        install = [*pip, "install", *_OPTIONS, "--", *requirements]
        _run(install, env, "its packages could not be installed")
        for found in [] if has_pip else list(site_packages(place).iterdir()):
            if found.name in _OF_PIP or found.name.partition("-")[0] in _OF_PIP:
                shutil.rmtree(found) if found.is_dir() else found.unlink()
        for cache in list(site_packages(place).rglob("__pycache__")):
            remove_tree(cache)  # a wheel may bring bytecode, which the lock does not count
        return place.name, lock_of(place)
    except BaseException:
        remove_tree(place)
        raise


def site_packages(environment: Path) -> Path:
    """The folder that belongs at the end of the import path."""
    base = str(environment)
    names = dict.fromkeys(("base", "platbase", "installed_base"), base)
    return Path(sysconfig.get_path("purelib", "venv", names))


def lock_of(environment: Path) -> tuple[str, ...]:
    """What is installed there, to the last byte, but for the interpreter's own bytecode.

    Raises EnvironmentFailedError.
    """
    site = site_packages(environment)
    try:
        tree = read_tree(site, ignored={"__pycache__"}, limits=_LIMITS)
    except TreeRefusedError as error:
        raise EnvironmentFailedError(
            "its packages cannot be read, or were made for another Python; approve it again "
            f"({error})"
        ) from error
    lines = {
        f"{found.name}=={found.version} sha256:{_digest(found.read_text('RECORD') or '')}"
        for found in distributions(path=[str(site)])
    }
    return (*sorted(lines), f"site-packages {tree.digest}")


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _run(words: Sequence[str], env: Mapping[str, str], failed: str) -> None:
    """Run in an empty folder: what lies in the working folder can stand in for a part of Python, or
    be taken for a package.
    """
    own = {name: value for name, value in env.items() if not name.startswith(_SECRET)}
    with tempfile.TemporaryDirectory(prefix="parachute-empty-") as empty:
        try:
            done = subprocess.run(  # noqa: S603  our interpreter, and requirements that the manifest's model has checked
                words,
                env=own,
                cwd=empty,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                timeout=_WAIT_S,
                check=False,
                start_new_session=True,
            )
        except subprocess.TimeoutExpired as error:
            raise EnvironmentFailedError(f"{failed} within {_WAIT_S:g} s") from error
        except OSError as error:
            raise EnvironmentFailedError(f"{failed}: {error.strerror}") from error
    if done.returncode:
        says = done.stdout.decode(errors="replace")[-2_000:].strip()
        raise EnvironmentFailedError(f"{failed}:\n{visible(says, keep=chr(10))}")
