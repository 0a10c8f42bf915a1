"""Fetches a module's files into the vault's `Modules/`. Nothing is run or approved."""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import shutil
import subprocess
import tempfile
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from parachuted.bundled import bundled_folder
from parachuted.errors import ParachuteError
from parachuted.modules.registry.approved_copies import WritingSink, opened_folder
from parachuted.modules.registry.manifest import FILE, NAME, Manifest, read_manifest
from parachuted.modules.registry.module_tree import SIGNATURE, ModuleTree, read_one, read_tree
from parachuted.visible import visible

FOLDER = "Modules"
_MANIFEST_LIMIT = 256 * 1024
_SIGNATURE_LIMIT = 200
_WAIT_S = 300.0
OFFICIAL = "parachute://"
_GITHUB = re.compile(r"github://([\w.-]+)/([\w.-]+)")
_ADDRESS = re.compile(
    r"(https|ssh|file)://[^\s\x00-\x1f]+|[A-Za-z0-9_][\w.-]*@[A-Za-z0-9][\w.-]*:[^\s\x00-\x1f-][^\s\x00-\x1f]*"
)
_PASSWORD = re.compile(r"\w+://[^/@]*:[^/@]*@")
_REF = re.compile(r"[A-Za-z0-9_][\w./+-]{0,200}")
_COMMIT = re.compile(r"[0-9a-f]{40}([0-9a-f]{24})?")
_QUIET = (
    "core.hooksPath=/dev/null",
    "protocol.ext.allow=never",
    "core.fsmonitor=false",
    "credential.helper=",
    "submodule.recurse=false",
)
_GIT_ENV = {
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_ATTR_NOSYSTEM": "1",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_ASKPASS": "/bin/false",
    "SSH_ASKPASS": "/bin/false",
    "SSH_ASKPASS_REQUIRE": "never",
    "GIT_SSH_COMMAND": "ssh -oBatchMode=yes",
    "GIT_ALLOW_PROTOCOL": "https:ssh:file",
    "GIT_LFS_SKIP_SMUDGE": "1",
    "LC_ALL": "C.UTF-8",
}
LITTER = frozenset(
    {".git", "__pycache__", ".DS_Store", ".mypy_cache", ".pytest_cache", ".ruff_cache"}
)


class InstallRefusedError(ParachuteError):
    """The module could not be installed; nothing was changed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchedModule:
    """A module's folder, for as long as it is needed: where it is, below what no
    other program moves, and what is known of its origin.
    """

    folder: Path
    root: Path
    source: str
    commit: str | None = None


@contextlib.contextmanager
def fetched(
    source: str, env: Mapping[str, str], *, path: str | None = None
) -> Iterator[FetchedModule]:
    """Get what the source names: an address that git understands, a folder, `parachute://daily`.

    Raises ParachuteError.

    An address may end with `#` and a tag, a branch or a whole commit:
    `github://someone/garden#v1.2.0`.
    """
    inner = _inner(path)
    if source.startswith(OFFICIAL):
        name = source.removeprefix(OFFICIAL)
        root = bundled_folder("modules")
        if not NAME.fullmatch(name) or not (root / name).is_dir():
            raise InstallRefusedError(
                f"there is no official module {visible(name)[:80]!r} in this version"
            )
        yield FetchedModule(folder=_below(root / name, inner), root=root, source=source)
    elif (address := _address(without_ref(source))) is not None:
        with tempfile.TemporaryDirectory(prefix="parachute-clone-") as temporary:
            clone = Path(temporary).resolve() / "clone"
            commit = _clone(address, _ref(source), clone, env)
            described = source if inner is None else f"{source} {inner}"
            yield FetchedModule(
                folder=_below(clone, inner), root=clone.parent, source=described, commit=commit
            )
    else:
        local = _local(source)
        folder = _below(local, inner) if local is not None else None
        if folder is None or not folder.is_dir():
            raise InstallRefusedError(
                f"{visible(source)[:200]!r} is not a folder, a git address (https, ssh) or a "
                f"parachute:// name{_meant(source)}"
            )
        yield FetchedModule(folder=folder, root=folder.parent, source=f"file://{folder}")


def _meant(source: str) -> str:
    """What to write for an official module that is called by its bare name."""
    name = source.strip().lower()
    is_official = NAME.fullmatch(name) and (bundled_folder("modules") / name / FILE).is_file()
    return f"; `parachute modules install {OFFICIAL}{name}` installs {name}" if is_official else ""


def official_modules() -> list[Manifest]:
    """The manifests of the modules that come with parachuted, by name."""
    root = bundled_folder("modules")
    folders = sorted(one.parent for one in root.glob(f"*/{FILE}"))
    return [
        manifest_of(FetchedModule(folder=one, root=root, source=f"{OFFICIAL}{one.name}"), ())
        for one in folders
    ]


def manifest_of(found: FetchedModule, reserved: Collection[str]) -> Manifest:
    """Its manifest, for its name and version.

    Raises ManifestError, TreeRefusedError, InstallRefusedError.
    """
    data = read_one(found.folder, FILE, root=found.root, limit=_MANIFEST_LIMIT)
    if data is None:
        raise InstallRefusedError(
            f"{found.folder.name} has no {FILE}, so it is not a module (is it in a folder "
            "below? say --path)"
        )
    return read_manifest(data, reserved=reserved)


def place(found: FetchedModule, vault: Path, name: str, *, may_replace: bool) -> ModuleTree:
    """Put its files into the vault's `Modules/<name>/`, whole or not at all.

    Raises InstallRefusedError and TreeRefusedError.
    """
    unfinished = f".new-{secrets.token_hex(8)}"
    try:
        with _modules_folder(vault) as modules:
            os.mkdir(unfinished, 0o755, dir_fd=modules)
            try:
                with opened_folder(unfinished, modules) as target:
                    sink = WritingSink(target)
                    tree = read_tree(found.folder, root=found.root, sink=sink, ignored=LITTER)
                    signature = read_one(
                        found.folder, SIGNATURE, root=found.root, limit=_SIGNATURE_LIMIT
                    )
                    if signature is not None:
                        with sink.file(SIGNATURE, 0o644) as write:
                            write(signature)
                _exchange(modules, unfinished, name, may_replace=may_replace)
            finally:
                shutil.rmtree(unfinished, ignore_errors=True, dir_fd=modules)
    except OSError as error:
        raise InstallRefusedError(
            f"{FOLDER}/{name} could not be written: {error.strerror}"
        ) from error
    return tree


def unplace(vault: Path, name: str) -> None:
    """Remove `Modules/<name>/` from the vault."""
    with contextlib.suppress(FileNotFoundError), _modules_folder(vault) as modules:
        away = f".old-{secrets.token_hex(8)}"
        os.rename(name, away, src_dir_fd=modules, dst_dir_fd=modules)
        shutil.rmtree(away, ignore_errors=True, dir_fd=modules)


@contextlib.contextmanager
def _modules_folder(vault: Path) -> Iterator[int]:
    with contextlib.suppress(FileExistsError):
        (vault / FOLDER).mkdir()
    with opened_folder(vault.resolve()) as root, opened_folder(FOLDER, root) as modules:
        yield modules


def _exchange(modules: int, unfinished: str, name: str, *, may_replace: bool) -> None:
    """Give it its name; what had the name is put in its place and removed after."""
    away = f".old-{secrets.token_hex(8)}"
    try:
        os.stat(name, dir_fd=modules, follow_symlinks=False)
    except FileNotFoundError:
        os.rename(unfinished, name, src_dir_fd=modules, dst_dir_fd=modules)
        return
    if not may_replace:
        raise InstallRefusedError(
            f"there is another {FOLDER}/{name} already, with other files than these; move it "
            "away, then install again"
        )
    os.rename(name, away, src_dir_fd=modules, dst_dir_fd=modules)
    os.rename(unfinished, name, src_dir_fd=modules, dst_dir_fd=modules)
    shutil.rmtree(away, ignore_errors=True, dir_fd=modules)


def _inner(path: str | None) -> str | None:
    if path is None or path.strip("/") in {"", "."}:
        return None
    names = path.strip("/").split("/")
    if any(name in {"", ".", "..", ".git"} for name in names):
        raise InstallRefusedError(f"{visible(path)[:200]!r} is not a folder inside the source")
    return "/".join(names)


def _below(folder: Path, inner: str | None) -> Path:
    return folder / inner if inner else folder


def without_ref(source: str) -> str:
    """The source, whichever tag or commit of it is meant."""
    address, _, inner = source.partition(" ")
    bare = address.partition("#")[0]
    return f"{bare} {inner}" if inner else bare


def _ref(source: str) -> str | None:
    ref = source.partition("#")[2]
    if ref and (not _REF.fullmatch(ref) or ".." in ref):
        raise InstallRefusedError(
            f"{visible(ref)[:200]!r} is not a tag, a branch or a whole commit (40 digits)"
        )
    return ref or None


def _address(source: str) -> str | None:
    """What git is given; None: the source is not an address."""
    if found := _GITHUB.fullmatch(source):
        return f"https://github.com/{found[1]}/{found[2]}"
    if _PASSWORD.match(source):
        raise InstallRefusedError(
            "the address holds a password, which would be written down; use ssh, or a clone of "
            "your own"
        )
    if _ADDRESS.fullmatch(source):
        return source
    if "://" in source:
        raise InstallRefusedError(
            f"{visible(source)[:200]!r}: modules are cloned over https, ssh or from file:// only, "
            "or as github://USER/REPO#TAG, with --path for a folder inside"
        )
    local = _local(source) if source.endswith(".git") else None
    return local.as_uri() if local is not None else None


def _local(source: str) -> Path | None:
    """The folder of which it is the path."""
    try:
        folder = Path(source).expanduser().resolve()
        return folder if folder.is_dir() else None
    except (OSError, RuntimeError, ValueError):  # too long, no such user, a NUL
        return None


def _clone(address: str, ref: str | None, target: Path, env: Mapping[str, str]) -> str:
    options = [part for setting in _QUIET for part in ("-c", setting)]
    own = {
        name: value
        for name, value in env.items()
        if not name.startswith(("GIT_", "SSH_ASKPASS", "PARACHUTE_", "ANTHROPIC_", "CLAUDE_"))
    }
    own |= _GIT_ENV
    _git([*options, "init", "--quiet", "--template=", "--", str(target)], own)
    there = [*options, "-C", str(target)]
    _git(
        [
            *there,
            "fetch",
            "--quiet",
            "--depth",
            "1",
            "--no-tags",
            "--no-recurse-submodules",
            "--",
            address,
            ref or "HEAD",
        ],
        own,
    )
    _git([*there, "checkout", "--quiet", "--detach", "FETCH_HEAD"], own)
    commit = _git([*options, "-C", str(target), "rev-parse", "HEAD"], own).strip()
    if not _COMMIT.fullmatch(commit):
        raise InstallRefusedError(f"{visible(address)[:200]} has no commit")
    return commit


def _git(words: list[str], env: Mapping[str, str]) -> str:
    program = shutil.which("git", path=env.get("PATH", os.defpath))
    if program is None:
        raise InstallRefusedError("git is not installed, and the source is an address of git")
    try:
        done = subprocess.run(  # noqa: S603  the address was checked and stands behind `--`
            [program, *words],
            env=dict(env),
            cwd="/",  # never a folder whose own configuration it would read
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_WAIT_S,
            check=False,
            start_new_session=True,
        )
    except subprocess.TimeoutExpired as error:
        raise InstallRefusedError(f"git took longer than {_WAIT_S:g} s") from error
    if done.returncode:
        says = done.stderr.decode(errors="replace")
        for place in (word.removeprefix("file://") for word in words if word.startswith("file://")):
            says = (
                says.replace(place, "the folder") if len(place) > 1 else says
            )  # an error names no folder of this machine
        raise InstallRefusedError(
            f"git could not get it: {visible(says.strip()[-1_000:], keep=chr(10))}"
        )
    return done.stdout.decode(errors="replace")
