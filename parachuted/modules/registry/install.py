"""Fetches a module's files into the vault, and its packages into a virtual environment in the home.

Nothing of them is run or approved. Only wheels are installed, so no package code runs during
installation, and the environment's Python is not started afterwards, so no `.pth` runs either. The
installed files are hashed as part of the approval.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib.util
import os
import re
import secrets
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import distributions
from pathlib import Path
from types import MappingProxyType

from parachuted.errors import ModuleFailedError, UnfitError
from parachuted.home_files.bundled import bundled_folder
from parachuted.modules.registry.copies import copy_tree, read_tree, remove_tree
from parachuted.modules.registry.manifest import FILE, NAME, Manifest, read_manifest
from parachuted.texts.visible import visible

FOLDER = "Modules"
OFFICIAL = "parachute://"
LITTER = frozenset(
    {".git", "__pycache__", ".DS_Store", ".mypy_cache", ".pytest_cache", ".ruff_cache"}
)
_WAIT_S, _PACKAGES_WAIT_S = 300.0, 600.0
_PACKAGE_LIMITS = 100_000, 4_000_000_000
_GITHUB = re.compile(r"github://([\w.-]+)/([\w.-]+)")
_ADDRESS = re.compile(
    r"(https|ssh|file)://[^\s\x00-\x1f]+|[A-Za-z0-9_][\w.-]*@[A-Za-z0-9][\w.-]*:[^\s\x00-\x1f-][^\s\x00-\x1f]*"
)
_PASSWORD = re.compile(r"\w+://[^/@]*:[^/@]*@")
_REF = re.compile(r"[A-Za-z0-9_][\w./+-]{0,200}")
_COMMIT = re.compile(r"[0-9a-f]{40}([0-9a-f]{24})?")
_SETTINGS = (
    "core.hooksPath=/dev/null",
    "protocol.ext.allow=never",
    "core.fsmonitor=false",
    "credential.helper=",
    "submodule.recurse=false",
)
# no settings of the machine's or the person's, and nothing that asks
_GIT_ENV: Mapping[str, str] = MappingProxyType(
    {
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_ATTR_NOSYSTEM": "1",
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_ASKPASS": "/bin/false",
        "LC_ALL": "C.UTF-8",
        "SSH_ASKPASS": "/bin/false",
        "SSH_ASKPASS_REQUIRE": "never",
        "GIT_SSH_COMMAND": "ssh -oBatchMode=yes",
        "GIT_ALLOW_PROTOCOL": "https:ssh:file",
        "GIT_LFS_SKIP_SMUDGE": "1",
    }
)
_SECRET = ("PARACHUTE_", "ANTHROPIC_", "CLAUDE_")
_OPTIONS = (
    *("--no-input", "--disable-pip-version-check", "--no-compile", "--no-warn-script-location"),
    *("--only-binary", ":all:", "--quiet"),
)
_OF_PIP = ("pip", "setuptools", "wheel", "pkg_resources", "_distutils_hack", "distutils")


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchedModule:
    folder: Path
    source: str
    commit: str | None = None


@contextlib.contextmanager
def fetched(
    source: str, env: Mapping[str, str], *, path: str | None = None
) -> Iterator[FetchedModule]:
    """Get what the source names: a folder, `parachute://daily`, or an address of git, which may end
    with `#` and a tag, a branch or a whole commit. Raises ParachuteError.
    """
    inner = _inner(path)
    bare, ref = without_ref(source), source.partition("#")[2]
    if source.startswith(OFFICIAL):
        name = source.removeprefix(OFFICIAL)
        folder = bundled_folder("modules") / name
        if not NAME.fullmatch(name) or not folder.is_dir():
            raise UnfitError(f"there is no official module {visible(name)[:80]!r} in this version")
        yield FetchedModule(folder=folder / inner, source=source)
    elif (address := _address(bare)) is not None:
        if ref and (not _REF.fullmatch(ref) or ".." in ref):
            raise UnfitError(
                f"{visible(ref)[:200]!r} is not a tag, a branch or a whole commit (40 digits)"
            )
        with tempfile.TemporaryDirectory(prefix="parachute-clone-") as temporary:
            clone = Path(temporary).resolve() / "clone"
            commit = _clone(address, ref or "HEAD", clone, env)
            described = f"{source} {inner}" if inner else source
            yield FetchedModule(folder=clone / inner, source=described, commit=commit)
    else:
        local = _local(source)
        if local is None or not (local / inner).is_dir():
            raise UnfitError(
                f"{visible(source)[:200]!r} is not a folder, a git address (https, ssh) or a "
                f"parachute:// name{_meant(source)}"
            )
        yield FetchedModule(folder=local / inner, source=f"file://{local / inner}")


def _meant(source: str) -> str:
    """What to write for an official module that is called by its bare name."""
    name = source.strip().lower()
    is_official = NAME.fullmatch(name) and (bundled_folder("modules") / name / FILE).is_file()
    return f"; `parachute modules install {OFFICIAL}{name}` installs {name}" if is_official else ""


def official_modules() -> list[Manifest]:
    """The manifests of the modules that come with parachuted, by name."""
    files = sorted(bundled_folder("modules").glob(f"*/{FILE}"))
    return [read_manifest(file.read_bytes()) for file in files]


def manifest_of(found: FetchedModule, reserved: Collection[str]) -> Manifest:
    """Raises ManifestError, UnfitError."""
    if FILE not in read_tree(found.folder, ignored=LITTER).files:
        raise UnfitError(
            f"{found.folder.name} has no {FILE}, so it is not a module (is it in a folder "
            "below? say --path)"
        )
    return read_manifest((found.folder / FILE).read_bytes(), reserved=reserved)


def place(found: FetchedModule, vault: Path, name: str, *, may_replace: bool) -> str:
    """Put its files into `Modules/`, whole or not at all; their digest. Raises UnfitError."""
    modules = vault / FOLDER
    target, random = modules / name, secrets.token_hex(8)
    unfinished, away = modules / f".new-{random}", modules / f".old-{random}"
    try:
        modules.mkdir(exist_ok=True)
        if modules.resolve() != modules:
            raise UnfitError(f"{FOLDER} of the vault is a link, so nothing is put there")
        unfinished.mkdir(0o755)
        try:
            copy_tree(found.folder, unfinished, ignored=LITTER)
            digest = read_tree(unfinished).digest
            if target.exists() or target.is_symlink():
                if not may_replace:
                    raise UnfitError(
                        f"there is another {FOLDER}/{name} already, with other files than these; "
                        "move it away, then install again"
                    )
                target.rename(away)
            unfinished.rename(target)
        finally:
            for leftover in (unfinished, away):
                shutil.rmtree(leftover, ignore_errors=True)
    except OSError as error:
        raise UnfitError(f"{FOLDER}/{name} could not be written: {error.strerror}") from error
    return digest


def unplace(vault: Path, name: str) -> None:
    """Remove `Modules/<name>/` from the vault, at once."""
    away = vault / FOLDER / f".old-{secrets.token_hex(8)}"
    with contextlib.suppress(FileNotFoundError):
        (vault / FOLDER / name).rename(away)
        shutil.rmtree(away, ignore_errors=True)


def _inner(path: str | None) -> str:
    if path is None or path.strip("/") in {"", "."}:
        return ""
    names = path.strip("/").split("/")
    if any(name in {"", ".", "..", ".git"} for name in names):
        raise UnfitError(f"{visible(path)[:200]!r} is not a folder inside the source")
    return "/".join(names)


def without_ref(source: str) -> str:
    """The source, whichever tag or commit of it is meant."""
    address, _, inner = source.partition(" ")
    bare = address.partition("#")[0]
    return f"{bare} {inner}" if inner else bare


def _address(source: str) -> str | None:
    """What git is given; None: the source is not an address."""
    if found := _GITHUB.fullmatch(source):
        return f"https://github.com/{found[1]}/{found[2]}"
    if _PASSWORD.match(source):
        raise UnfitError(
            "the address holds a password, which would be written down; use ssh, or a clone of "
            "your own"
        )
    if _ADDRESS.fullmatch(source):
        return source
    if "://" in source:
        raise UnfitError(
            f"{visible(source)[:200]!r}: modules are cloned over https, ssh or from file:// only, "
            "or as github://USER/REPO#TAG, with --path for a folder inside"
        )
    local = _local(source) if source.endswith(".git") else None
    return local.as_uri() if local is not None else None


def _local(source: str) -> Path | None:
    try:
        folder = Path(source).expanduser().resolve()
        return folder if folder.is_dir() else None
    except (OSError, RuntimeError, ValueError):  # too long, no such user, a NUL
        return None


def _clone(address: str, ref: str, target: Path, env: Mapping[str, str]) -> str:
    there = ("-C", str(target))
    fetch = ("fetch", "--quiet", "--depth", "1", "--no-tags", "--no-recurse-submodules")
    _git(["init", "--quiet", "--template=", "--", str(target)], env)
    _git([*there, *fetch, "--", address, ref], env)
    _git([*there, "checkout", "--quiet", "--detach", "FETCH_HEAD"], env)
    commit = _git([*there, "rev-parse", "HEAD"], env).strip()
    if not _COMMIT.fullmatch(commit):
        raise UnfitError(f"{visible(address)[:200]} has no commit")
    return commit


def _git(words: Sequence[str], env: Mapping[str, str]) -> str:
    git = find_git(env)
    if git is None:
        raise UnfitError("git is not installed, and the source is an address of git")
    done = run_git(git, words, env, "/")
    if done.returncode:
        says = done.stderr.decode(errors="replace")
        for word in words:  # an error names no folder of this machine
            folder = word.removeprefix("file://")
            says = says.replace(folder, "the folder") if word != folder != "/" else says
        raise UnfitError(f"git could not get it: {visible(says.strip()[-1_000:], keep=chr(10))}")
    return done.stdout.decode(errors="replace")


def find_git(env: Mapping[str, str]) -> str | None:
    return shutil.which("git", path=env.get("PATH", os.defpath))


def run_git(
    git: str, words: Sequence[str], env: Mapping[str, str], folder: str
) -> subprocess.CompletedProcess[bytes]:
    """In a folder outside any repository, whose settings git would read. Raises UnfitError."""
    ceiling = {"GIT_CEILING_DIRECTORIES": str(Path(folder).resolve().parent)}
    own = {**_without(env, "GIT_", "SSH_ASKPASS"), **_GIT_ENV, **ceiling}
    settings = [word for setting in _SETTINGS for word in ("-c", setting)]
    try:
        return _run([git, *settings, *words], own, folder, _WAIT_S)
    except subprocess.TimeoutExpired as error:
        raise UnfitError(f"git took longer than {_WAIT_S:g} s") from error


def _without(env: Mapping[str, str], *prefixes: str) -> dict[str, str]:
    return {name: env[name] for name in env if not name.startswith((*_SECRET, *prefixes))}


def _run(
    words: Sequence[str], env: Mapping[str, str], folder: str, wait_s: float
) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(  # noqa: S603  git, or our interpreter; what they are given was checked
        words,
        env=env,
        cwd=folder,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=wait_s,
        check=False,
        start_new_session=True,
    )


def build(
    folder: Path, requirements: Sequence[str], env: Mapping[str, str]
) -> tuple[str, tuple[str, ...]]:
    """Make an environment with those packages in that folder: its name there, and its lock. Raises
    ModuleFailedError, and has then left nothing behind.
    """
    place = folder / f"venv-{secrets.token_hex(4)}"
    python, inner = [sys.executable, "-I", "-m"], str(place / "bin" / "python")
    pip, without = [*python, "pip", "--python", inner], ["--without-pip"]
    has_pip = importlib.util.find_spec("pip") is not None
    if not has_pip:
        pip, without = [inner, "-I", "-m", "pip"], []
    try:
        _run_python([*python, "venv", *without, str(place)], env, "no environment could be made")
        install = [*pip, "install", *_OPTIONS, "--", *requirements]
        _run_python(install, env, "its packages could not be installed")
        for found in [] if has_pip else list(site_packages(place).iterdir()):
            if found.name.partition("-")[0] in _OF_PIP:
                shutil.rmtree(found) if found.is_dir() else found.unlink()
        for cache in list(site_packages(place).rglob("__pycache__")):
            remove_tree(cache)  # a wheel may bring bytecode, which the lock does not count
        return place.name, lock_of(place)
    except BaseException:
        remove_tree(place)
        raise


def site_packages(environment: Path) -> Path:
    names = dict.fromkeys(("base", "platbase", "installed_base"), str(environment))
    return Path(sysconfig.get_path("purelib", "venv", names))


def lock_of(environment: Path) -> tuple[str, ...]:
    """What is installed there, to the last byte, without bytecode. Raises ModuleFailedError."""
    site = site_packages(environment)
    try:
        tree = read_tree(site, ignored={"__pycache__"}, limits=_PACKAGE_LIMITS)
    except UnfitError as error:
        raise ModuleFailedError(
            "its packages cannot be read, or were made for another Python; approve it again "
            f"({error})"
        ) from error
    lines = set[str]()
    for found in distributions(path=[str(site)]):
        record = hashlib.sha256((found.read_text("RECORD") or "").encode()).hexdigest()
        lines.add(f"{found.name}=={found.version} sha256:{record}")
    return (*sorted(lines), f"site-packages {tree.digest}")


def _run_python(words: Sequence[str], env: Mapping[str, str], failed: str) -> None:
    """In an empty folder: what lies in the working folder could stand in for a part of Python."""
    with tempfile.TemporaryDirectory(prefix="parachute-empty-") as empty:
        try:
            done = _run(words, _without(env, "PYTHON"), empty, _PACKAGES_WAIT_S)
        except subprocess.TimeoutExpired as error:
            raise ModuleFailedError(f"{failed} within {_PACKAGES_WAIT_S:g} s") from error
        except OSError as error:
            raise ModuleFailedError(f"{failed}: {error.strerror}") from error
    if done.returncode:
        says = (done.stdout + done.stderr).decode(errors="replace")[-2_000:].strip()
        raise ModuleFailedError(f"{failed}:\n{visible(says, keep=chr(10))}")
