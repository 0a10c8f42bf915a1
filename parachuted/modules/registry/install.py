"""Fetches a module's files into the vault, and its packages into a folder of the home.

Nothing of them is run or approved. Only wheels are installed, so no package code runs during
installation. The installed files are hashed as part of the approval.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import secrets
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import distributions
from pathlib import Path, PurePosixPath

from parachuted.errors import UnfitError
from parachuted.home_files.bundled import bundled_folder
from parachuted.modules.registry.copies import ModuleTree, copy_tree, read_tree, remove_tree
from parachuted.modules.registry.manifest import FILE, Manifest, read_manifest
from parachuted.texts.visible import visible

FOLDER = "Modules"
OFFICIAL = "parachute://"
LITTER = frozenset(
    {".git", "__pycache__", ".DS_Store", ".mypy_cache", ".pytest_cache", ".ruff_cache"}
)
_GIT_WAIT_S, _PACKAGES_WAIT_S = 300.0, 600.0
_PACKAGE_LIMITS = 100_000, 4_000_000_000
_GITHUB = re.compile(r"^github://([\w.-]+/[\w.-]+)(?=#|$)")
# a password in it would be written down
_ADDRESS = re.compile(
    r"(https|ssh|file)://(?![^/]*:[^/]*@)[^\s\x00-\x1f]+"
    r"|[A-Za-z0-9_][\w.-]*@[A-Za-z0-9][\w.-]*:[^\s\x00-\x1f-][^\s\x00-\x1f]*"
)
_REF = re.compile(r"[A-Za-z0-9_][\w./+-]{0,200}|")
# no settings of the machine's or the person's, and nothing that asks
_GIT_ENV: Mapping[str, str] = {
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
_SECRET = ("PARACHUTE_", "ANTHROPIC_", "CLAUDE_")  # neither git nor pip sees these variables
_PIP_OPTIONS = (
    *("--no-input", "--disable-pip-version-check", "--no-compile", "--no-warn-script-location"),
    *("--only-binary", ":all:", "--quiet"),
)


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
    with `#` and a tag, a branch or a whole commit. Raises UnfitError.
    """
    inner = PurePosixPath(path or "")
    if inner.is_absolute() or not {"..", ".git"}.isdisjoint(inner.parts):
        raise UnfitError(f"{visible(str(path))[:200]!r} is not a folder inside the source")
    address, _, ref = _GITHUB.sub(r"https://github.com/\1", source).partition("#")
    if source in {f"{OFFICIAL}{module.name}" for module in official_modules()}:
        folder = bundled_folder("modules") / source.removeprefix(OFFICIAL)
        yield FetchedModule(folder=folder / inner, source=source)
    elif _ADDRESS.fullmatch(address) and _REF.fullmatch(ref):
        with tempfile.TemporaryDirectory(prefix="parachute-clone-") as temporary:
            clone = Path(temporary).resolve()
            commit = _clone(address, ref or "HEAD", clone, env)
            described = f"{source} {inner}" if inner.parts else source
            yield FetchedModule(folder=clone / inner, source=described, commit=commit)
    else:
        folder = _local(source) / inner
        yield FetchedModule(folder=folder, source=f"file://{folder}")


def official_modules() -> list[Manifest]:
    """The manifests of the modules that come with parachuted, by name."""
    files = sorted(bundled_folder("modules").glob(f"*/{FILE}"))
    return [read_manifest(file.read_bytes()) for file in files]


def manifest_of(tree: ModuleTree, reserved: Collection[str]) -> Manifest:
    """Raises ManifestError, UnfitError."""
    if FILE not in tree.files:
        raise UnfitError(
            f"it has no {FILE}, so it is not a module (is it in a folder below? say --path)"
        )
    data = (tree.folder / FILE).read_bytes()
    return read_manifest(data, reserved=reserved, files=tree.files)


def place(module: FetchedModule, vault: Path, name: str, installed: str | None = None) -> str:
    """Put its files into `Modules/`, whole or not at all; their digest. Other files there than
    these and those of the digest `installed` are nowhere else: raises UnfitError.
    """
    modules, target = vault / FOLDER, vault / FOLDER / name
    try:
        modules.mkdir(exist_ok=True)
        if modules.resolve() != modules:
            raise UnfitError(f"{FOLDER} of the vault is a link, so nothing is put there")
        with tempfile.TemporaryDirectory(
            prefix=".new-", dir=modules, ignore_cleanup_errors=True
        ) as temporary:
            new = Path(temporary, "new")
            copy_tree(module.folder, new, ignored=LITTER)
            digest = read_tree(new).digest
            if os.path.lexists(target):
                if read_tree(target, ignored=LITTER).digest not in {digest, installed}:
                    raise UnfitError(
                        f"{FOLDER}/{name} holds other files than were installed, which would be "
                        "lost; move it away, then install again"
                    )
                target.rename(Path(temporary, "old"))
            new.rename(target)
    except OSError as error:
        raise UnfitError(f"{FOLDER}/{name} could not be written: {error.strerror}") from error
    return digest


def without_ref(source: str) -> str:
    """The source, whichever tag or commit of it is meant."""
    return re.sub(r"#\S*", "", source, count=1)


def _local(source: str) -> Path:
    with contextlib.suppress(OSError, ValueError, RuntimeError):  # too long, a NUL, a circle
        folder = Path(source).resolve()
        if source and folder.is_dir():
            return folder
    raise UnfitError(
        "that is not a folder, an address of git (https, ssh, file or github://USER/REPO, with no "
        "password, and # before a tag, a branch or a whole commit) or one of parachuted's own, "
        f"such as {OFFICIAL}daily"
    )


def _clone(address: str, ref: str, folder: Path, env: Mapping[str, str]) -> str:
    fetch = ("fetch", "--quiet", "--depth", "1", "--no-tags", "--no-recurse-submodules")
    run_git(["init", "--quiet", "--template="], env, folder)
    run_git([*fetch, "--", address, ref], env, folder)
    run_git(["checkout", "--quiet", "--detach", "FETCH_HEAD"], env, folder)
    return run_git(["rev-parse", "HEAD"], env, folder).strip()


def run_git(
    words: Sequence[str], env: Mapping[str, str], folder: Path, *, most_status: int = 0
) -> str:
    """In a folder outside any repository, whose settings git would read. Raises UnfitError."""
    others = {name: value for name, value in env.items() if not name.startswith("GIT_")}
    own = {**others, **_GIT_ENV, "GIT_CEILING_DIRECTORIES": str(folder.parent)}
    return _run(["git", *words], own, folder, _GIT_WAIT_S, most_status)


def _run(
    words: Sequence[str], env: Mapping[str, str], folder: Path, wait_s: float, most_status: int = 0
) -> str:
    name = Path(words[0]).name
    try:
        done = subprocess.run(  # noqa: S603  git, or our interpreter; what they are given was checked
            words,
            env={name: value for name, value in env.items() if not name.startswith(_SECRET)},
            cwd=folder,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=wait_s,
            check=False,
            start_new_session=True,
        )
    except subprocess.TimeoutExpired as error:
        raise UnfitError(f"{name} took longer than {wait_s:g} s") from error
    except FileNotFoundError as error:
        raise UnfitError(f"{name} is not installed") from error
    if done.returncode > most_status:
        says = (done.stdout + done.stderr).decode(errors="replace").strip()[-2_000:]
        raise UnfitError(f"{name} failed:\n{visible(says, keep=chr(10))}")
    return done.stdout.decode(errors="backslashreplace")


def build(
    folder: Path, requirements: Sequence[str], env: Mapping[str, str]
) -> tuple[str, tuple[str, ...]]:
    """Install those packages in a new folder below that one: its name, and its lock. Raises
    UnfitError, and has then left nothing behind.
    """
    place = folder / f"venv-{secrets.token_hex(4)}"
    site = site_packages(place)
    pip = [sys.executable, "-I", "-m", "pip", "install", "--target", str(site), *_PIP_OPTIONS]
    try:
        site.mkdir(parents=True)
        _run([*pip, "--", *requirements], env, site, _PACKAGES_WAIT_S)
        for cache in list(site.rglob("__pycache__")):
            remove_tree(cache)  # a wheel may bring bytecode, which the lock does not count
        return place.name, lock_of(place)
    except BaseException:
        remove_tree(place)
        raise


def site_packages(environment: Path) -> Path:
    names = dict.fromkeys(("base", "platbase", "installed_base"), str(environment))
    return Path(sysconfig.get_path("purelib", "venv", names))


def lock_of(environment: Path) -> tuple[str, ...]:
    """What is installed there, to the last byte, without bytecode. Raises UnfitError, also where it
    was made for another Python.
    """
    site = site_packages(environment)
    tree, lines = read_tree(site, ignored={"__pycache__"}, limits=_PACKAGE_LIMITS), set[str]()
    for distribution in distributions(path=[str(site)]):
        record = hashlib.sha256((distribution.read_text("RECORD") or "").encode()).hexdigest()
        lines.add(f"{distribution.name}=={distribution.version} sha256:{record}")
    return (*sorted(lines), f"site-packages {tree.digest}")
