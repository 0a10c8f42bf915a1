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
from parachuted.modules.registry.consent import QUIET_GIT
from parachuted.modules.registry.copies import copy_tree, read_tree
from parachuted.modules.registry.manifest import FILE, NAME, Manifest, read_manifest
from parachuted.visible import visible

FOLDER = "Modules"
OFFICIAL = "parachute://"
LITTER = frozenset(
    {".git", "__pycache__", ".DS_Store", ".mypy_cache", ".pytest_cache", ".ruff_cache"}
)
_WAIT_S = 300.0
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
_GIT_ENV = {
    **QUIET_GIT,
    "SSH_ASKPASS": "/bin/false",
    "SSH_ASKPASS_REQUIRE": "never",
    "GIT_SSH_COMMAND": "ssh -oBatchMode=yes",
    "GIT_ALLOW_PROTOCOL": "https:ssh:file",
    "GIT_LFS_SKIP_SMUDGE": "1",
}
_NOT_FOR_GIT = ("GIT_", "SSH_ASKPASS", "PARACHUTE_", "ANTHROPIC_", "CLAUDE_")


class InstallRefusedError(ParachuteError):
    """The module could not be installed; nothing was changed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchedModule:
    """A module's folder, for as long as it is needed, and what is known of its origin."""

    folder: Path
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
        folder = bundled_folder("modules") / name
        if not NAME.fullmatch(name) or not folder.is_dir():
            raise InstallRefusedError(
                f"there is no official module {visible(name)[:80]!r} in this version"
            )
        yield FetchedModule(folder=folder / inner, source=source)
    elif (address := _address(without_ref(source))) is not None:
        with tempfile.TemporaryDirectory(prefix="parachute-clone-") as temporary:
            clone = Path(temporary).resolve() / "clone"
            commit = _clone(address, _ref(source), clone, env)
            described = f"{source} {inner}" if inner else source
            yield FetchedModule(folder=clone / inner, source=described, commit=commit)
    else:
        local = _local(source)
        if local is None or not (local / inner).is_dir():
            raise InstallRefusedError(
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
    """Its manifest, for its name and version.

    Raises ManifestError, TreeRefusedError, InstallRefusedError.
    """
    data = read_tree(found.folder, ignored=LITTER, keep=FILE.__eq__).kept.get(FILE)
    if data is None:
        raise InstallRefusedError(
            f"{found.folder.name} has no {FILE}, so it is not a module (is it in a folder "
            "below? say --path)"
        )
    return read_manifest(data, reserved=reserved)


def place(found: FetchedModule, vault: Path, name: str, *, may_replace: bool) -> str:
    """Put its files into the vault's `Modules/<name>/`, whole or not at all; their digest.

    Raises InstallRefusedError and TreeRefusedError.
    """
    modules = vault / FOLDER
    target, random = modules / name, secrets.token_hex(8)
    unfinished, away = modules / f".new-{random}", modules / f".old-{random}"
    try:
        modules.mkdir(exist_ok=True)
        if modules.resolve() != modules:
            raise InstallRefusedError(f"{FOLDER} of the vault is a link, so nothing is put there")
        unfinished.mkdir(0o755)
        try:
            copy_tree(found.folder, unfinished, ignored=LITTER)
            digest = read_tree(unfinished).digest
            if target.exists() or target.is_symlink():
                if not may_replace:
                    raise InstallRefusedError(
                        f"there is another {FOLDER}/{name} already, with other files than these; "
                        "move it away, then install again"
                    )
                target.rename(away)
            unfinished.rename(target)
        finally:
            for leftover in (unfinished, away):
                shutil.rmtree(leftover, ignore_errors=True)
    except OSError as error:
        raise InstallRefusedError(
            f"{FOLDER}/{name} could not be written: {error.strerror}"
        ) from error
    return digest


def unplace(vault: Path, name: str) -> None:
    """Remove `Modules/<name>/` from the vault."""
    away = vault / FOLDER / f".old-{secrets.token_hex(8)}"
    with contextlib.suppress(FileNotFoundError):
        (vault / FOLDER / name).rename(away)
        shutil.rmtree(away, ignore_errors=True)


def _inner(path: str | None) -> str:
    if path is None or path.strip("/") in {"", "."}:
        return ""
    names = path.strip("/").split("/")
    if any(name in {"", ".", "..", ".git"} for name in names):
        raise InstallRefusedError(f"{visible(path)[:200]!r} is not a folder inside the source")
    return "/".join(names)


def without_ref(source: str) -> str:
    """The source, whichever tag or commit of it is meant."""
    address, _, inner = source.partition(" ")
    bare = address.partition("#")[0]
    return f"{bare} {inner}" if inner else bare


def _ref(source: str) -> str:
    ref = source.partition("#")[2]
    if ref and (not _REF.fullmatch(ref) or ".." in ref):
        raise InstallRefusedError(
            f"{visible(ref)[:200]!r} is not a tag, a branch or a whole commit (40 digits)"
        )
    return ref or "HEAD"


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


def _clone(address: str, ref: str, target: Path, env: Mapping[str, str]) -> str:
    own = {name: value for name, value in env.items() if not name.startswith(_NOT_FOR_GIT)}
    own |= _GIT_ENV
    there = ("-C", str(target))
    _git(["init", "--quiet", "--template=", "--", str(target)], own)
    fetch = ("fetch", "--quiet", "--depth", "1", "--no-tags", "--no-recurse-submodules")
    _git([*there, *fetch, "--", address, ref], own)
    _git([*there, "checkout", "--quiet", "--detach", "FETCH_HEAD"], own)
    commit = _git([*there, "rev-parse", "HEAD"], own).strip()
    if not _COMMIT.fullmatch(commit):
        raise InstallRefusedError(f"{visible(address)[:200]} has no commit")
    return commit


def _git(words: list[str], env: Mapping[str, str]) -> str:
    program = shutil.which("git", path=env.get("PATH", os.defpath))
    if program is None:
        raise InstallRefusedError("git is not installed, and the source is an address of git")
    settings = [word for setting in _SETTINGS for word in ("-c", setting)]
    try:
        done = subprocess.run(  # noqa: S603  the address was checked and stands behind `--`
            [program, *settings, *words],
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
        for word in words:  # an error names no folder of this machine
            folder = word.removeprefix("file://")
            says = says.replace(folder, "the folder") if word != folder != "/" else says
        raise InstallRefusedError(
            f"git could not get it: {visible(says.strip()[-1_000:], keep=chr(10))}"
        )
    return done.stdout.decode(errors="replace")
