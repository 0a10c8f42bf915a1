"""Isolates the process of an untrusted module, by what this machine offers.

`docker` is a container with no network and only what the module needs, read-only; `landlock` is the
kernel's restriction of an ordinary process. `process` contains crashes, not an attacker, and is
used only when the settings name it.
"""

from __future__ import annotations

import asyncio
import logging
import os
import shutil
import sys
import tempfile
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import Literal, TypeAlias

from pydantic import TypeAdapter

from parachuted.errors import ModuleFailedError
from parachuted.modules.hosting.cgroup import Cgroup, Cgroups, is_group
from parachuted.modules.hosting.docker import Docker, DockerError
from parachuted.modules.hosting.isolation_rules import (
    MOST_THREADS,
    IsolationRules,
    landlock_version,
)
from parachuted.modules.hosting.seccomp import can_filter
from parachuted.modules.registry.approved import ApprovedModule
from parachuted.processes.reaper import began_at, kill_family

log = logging.getLogger(__name__)

IsolationKind: TypeAlias = Literal["docker", "landlock", "process"]
Sandbox: TypeAlias = Literal["auto", "docker", "landlock", "process"]

BOUNDS: Mapping[IsolationKind, str] = MappingProxyType(
    {
        "docker": "a container with no network, no capabilities, a read-only root that holds "
        "Python and the module alone, limits on "
        "memory, processors and processes; in it no programs, no sockets",
        "landlock": "the kernel's walls: of files it reads Python and its own copy and writes "
        "those of its data folder alone, no sockets, no programs, no signals to "
        "others, a limit on memory; names and sizes of other files it can still see, and it "
        "shares the processors",
        "process": "a process of its own with limits on memory and open files, and no wall: it "
        "can do what you can do",
    }
)
MARK = "PARACHUTE_MODULE"
_FOLDER, _CONTAINER, _PROCESS = (
    "m-",
    "c-",
    "a-",
)  # processes are ended before their folders are removed
_MEMORY = 1024 * 1024 * 1024
_MOST_OPEN = 256
# A scan of all installed packages for plugins of pydantic takes a sixth of a start.
_BOOT = (
    "import os, sys; os.environ['PYDANTIC_DISABLE_PLUGINS'] = '__all__'; "
    "sys.path += [one for one in sys.argv[1:] if one not in sys.path]; from "
    "parachuted.modules.hosting.host_main import main; main()"
)
_PROGRAM_BOOT = (
    "import sys; at = sys.argv.index('--'); sys.path += [one for one in sys.argv[1:at] if one not "
    "in sys.path]; from parachuted.modules.hosting.program_main import main; "
    "main(sys.argv[at + 1:])"
)
_MOST_OPEN_OF_A_PROGRAM = 1_024
_PROGRAMS = ("/usr", "/bin", "/sbin", "/lib", "/lib64", "/opt")
_PROGRAMS_READ = (
    "/etc/ld.so.cache",
    "/etc/localtime",
    "/etc/ssl",
    "/etc/passwd",
    "/dev/null",
    "/dev/urandom",
    "/dev/zero",
)
_PACKAGE = Path(__file__).resolve().parents[2]
_SYSTEM = (
    "/usr/lib",
    "/usr/lib64",
    "/lib",
    "/lib64",
    "/usr/share/zoneinfo",
    "/etc/ld.so.cache",
    "/etc/localtime",
)
_ADVICE = (
    "install Docker, or run the daemon on Linux 5.13 or later with Landlock; or trust the "
    "module: `parachute modules approve`"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class IsolatedLaunch:
    """How to start a module host.

    `began` is called with its pid once it runs, before any of the module does. Await `end` when it
    has ended; it ends what can only be reached from outside. `group` limits it and its children,
    where the system allows.
    """

    kind: IsolationKind
    command: tuple[str, ...]
    env: Mapping[str, str]
    cwd: Path
    rules: IsolationRules
    end: Callable[[], Awaitable[None]]
    began: Callable[[int], None] = lambda _pid: None
    group: Cgroup | None = None


class IsolationFactory:
    """Makes isolations.

    `run` is a private folder of the home; `secret` are the folders that no module's process may
    see.

    `cgroups`: where the processes can be limited by the kernel; None: limits of each process and a
    watch are all there is.
    """

    def __init__(
        self,
        *,
        sandbox: Sandbox,
        run: Path,
        secret: Iterable[Path],
        env: Mapping[str, str],
        memory: int = _MEMORY,
        cgroups: Cgroups | None = None,
    ) -> None:
        self._sandbox = sandbox
        self._run = run
        self._secret = tuple(folder.resolve() for folder in secret)
        self._docker = Docker(env)
        self._memory = memory
        self._cgroups = cgroups

    async def choose(self) -> IsolationKind:
        """The isolation for the next process.

        Raises ModuleFailedError, with what to do, when there is none.
        """
        wanted = self._sandbox
        if wanted == "process":
            return wanted
        if wanted in {"auto", "docker"} and await self._docker.is_there():
            return "docker"
        if wanted in {"auto", "landlock"} and landlock_version() and can_filter():
            return "landlock"
        missing = {
            "docker": "no Docker engine answers",
            "landlock": "this kernel has no Landlock",
        }.get(wanted, "nothing here can hold it")
        raise ModuleFailedError(f"an untrusted module does not run: {missing}. {_ADVICE}")

    async def sweep(self) -> None:
        """End what an earlier daemon left, if it was killed."""
        for left in self._left():
            if left.name.startswith(_PROCESS):
                await asyncio.to_thread(_end_process, left)
            elif left.name.startswith(_FOLDER):
                shutil.rmtree(left, ignore_errors=True)
            elif left.name.startswith(_CONTAINER):
                await self._end_container(left)

    async def hold(
        self, approved: ApprovedModule, mark: str, *, data: Path | None = None
    ) -> IsolatedLaunch:
        """Prepare the isolation of one process. Raises ModuleFailedError.

        `data` is the module's data folder, the only one in which it may write.
        """
        kind = await self.choose()
        readable = self._readable(approved)
        rules = IsolationRules(
            landlock=kind == "landlock",
            seccomp=kind != "process",
            readable=readable,
            listable=(
                approved.copy.parent,
            ),  # the module's own in the home; its copy is opened from there, name by name
            writable=() if data is None else (data,),
            memory=self._memory,
            most_open=_MOST_OPEN,
            parent=0 if kind == "docker" else os.getpid(),
        )
        python = (
            sys.executable,
            "-I",
            "-B",
            "-X",
            "utf8",
            "-c",
            _BOOT,
            str(_PACKAGE.parent),
            *map(str, _packages()),
        )
        if kind == "docker":
            try:
                name = await self._docker.make_room(approved.name)
            except DockerError as error:
                raise ModuleFailedError(
                    f"Docker could not make room for the module {approved.name}: {error}"
                ) from error
            note = self._run / f"{_CONTAINER}{name}"
            self._make_run().joinpath(note.name).touch(mode=0o600)
            command = self._docker.command(
                name, python, readable=readable, writable=rules.writable, memory=self._memory
            )
            return IsolatedLaunch(
                kind=kind,
                command=command,
                env=self._docker.env,
                cwd=Path("/"),
                rules=rules,
                end=lambda: self._end_container(note),
            )
        return self._in_folder(kind, python, rules, mark)

    async def hold_program(
        self,
        program: Sequence[str],
        mark: str,
        *,
        env: Mapping[str, str],
        runnable: Iterable[Path] = (),
        readable: Iterable[Path] = (),
    ) -> IsolatedLaunch:
        """Prepare the isolation of a program that is not ours: no network, of files the system's
        programs and these to read, and a folder of its own, which ends with it.

        `program` is its file and its arguments. Raises ModuleFailedError where nothing here can
        hold it.
        """
        if not (is_open := self._sandbox == "process") and not (
            landlock_version() and can_filter()
        ):
            raise ModuleFailedError(
                "a program that is not ours does not run: this kernel has no Landlock. Run the "
                "daemon on Linux 5.13 or later"
            )
        kind: IsolationKind = "process" if is_open else "landlock"
        folder = Path(tempfile.mkdtemp(prefix=_FOLDER, dir=self._make_run()))
        rules = IsolationRules(
            landlock=not is_open,
            seccomp=not is_open,
            readable=(*map(Path, _PROGRAMS_READ), *readable),
            writable=(folder, Path("/dev/null")),
            runnable=(*map(Path, _PROGRAMS), *self._interpreter(), *runnable),
            memory=0,
            most_open=_MOST_OPEN_OF_A_PROGRAM,
            parent=os.getpid(),
        )
        boot = (sys.executable, "-I", "-B", "-X", "utf8", "-c", _PROGRAM_BOOT)
        command = (
            *boot,
            str(_PACKAGE.parent),
            *map(str, _packages()),
            "--",
            TypeAdapter(IsolationRules).dump_json(rules).decode(),
            *program,
        )
        launch = self._in_folder(kind, command, rules, mark, folder)
        return replace(launch, env={**env, **launch.env, "PATH": env.get("PATH", os.defpath)})

    def _interpreter(self) -> tuple[Path, ...]:
        """Where our Python is, which a program may be written for, unless a secret lies there."""
        places = {Path(one) for one in (sys.base_prefix, sys.prefix)} | set(_packages())
        return tuple(
            one
            for one in sorted(places)
            if not any(
                secret == one.resolve() or one.resolve() in secret.parents
                for secret in self._secret
            )
        )

    def _in_folder(
        self,
        kind: IsolationKind,
        command: tuple[str, ...],
        rules: IsolationRules,
        mark: str,
        folder: Path | None = None,
    ) -> IsolatedLaunch:
        folder = folder or Path(tempfile.mkdtemp(prefix=_FOLDER, dir=self._make_run()))
        env = {
            "PATH": "/usr/bin:/bin",
            "LANG": "C.UTF-8",
            "HOME": str(folder),
            "TMPDIR": str(folder),
            MARK: mark,
        }
        note = self._run / f"{_PROCESS}{mark}"
        group, began = self._record_process(note, mark)

        async def end() -> None:
            if group is None or await asyncio.to_thread(group.remove):
                note.unlink(missing_ok=True)
            shutil.rmtree(folder, ignore_errors=True)

        return IsolatedLaunch(
            kind=kind,
            command=command,
            env=env,
            cwd=folder,
            rules=rules,
            end=end,
            began=began,
            group=group,
        )

    def _record_process(self, note: Path, mark: str) -> tuple[Cgroup | None, Callable[[int], None]]:
        """Write what a later daemon needs to end the process into the note; returns its cgroup and
        what to call with its number once it has started.
        """
        note.touch(mode=0o600)
        group = (
            self._cgroups.make(mark, most_processes=MOST_THREADS, memory=self._memory)
            if self._cgroups is not None
            else None
        )
        place = f"\n{group.folder}" if group is not None else ""
        note.write_text(place)

        def began(pid: int) -> None:
            note.write_text(f"{pid} {began_at(pid)}{place}")
            if group is None:
                return
            try:
                group.add(pid)
            # it has ended already, or the system takes the hierarchy back: the watch is there
            except OSError as error:
                log.warning("a module's process could not be put into its cgroup: %s", error)

        return group, began

    async def _end_container(self, note: Path) -> None:
        """End the container recorded in the note.

        The note stays until the engine confirms that it is gone.
        """
        if await self._docker.end(note.name.removeprefix(_CONTAINER)):
            note.unlink(missing_ok=True)  # noqa: ASYNC240  one small file

    def _make_run(self) -> Path:
        self._run.mkdir(mode=0o700, parents=True, exist_ok=True)
        return self._run

    def _left(self) -> list[Path]:
        return sorted(self._run.iterdir()) if self._run.is_dir() else []

    def _readable(self, approved: ApprovedModule) -> tuple[Path, ...]:
        """All that the process needs to run, none of it twice.

        Raises ModuleFailedError if a secret lies in it.
        """
        ours = [
            *map(Path, _SYSTEM),
            *map(Path, (sys.base_prefix, sys.base_exec_prefix, sys.prefix, sys.exec_prefix)),
            *_packages(),
            _PACKAGE,
        ]
        for path in ours:
            within = next(
                (
                    secret
                    for secret in self._secret
                    if secret == path.resolve() or path.resolve() in secret.parents
                ),
                None,
            )
            if within is not None:
                raise ModuleFailedError(
                    f"{within} lies in {path}, which Python needs: nothing can keep a module's "
                    "process out of it"
                )
        wanted = sorted(
            {path for path in (*ours, approved.copy, *approved.import_paths) if path.exists()}
        )
        return tuple(path for path in wanted if not any(other in path.parents for other in wanted))


def _packages() -> tuple[Path, ...]:
    """Where the daemon has its packages from, which may be beside its Python: a module imports the
    same, whatever holds it.
    """
    return tuple(
        path
        for path in map(Path, sys.path)
        if path.name in {"site-packages", "dist-packages"} and path.is_dir()
    )


def _end_process(note: Path) -> None:
    """End the process that the note tells of, with what it began.

    By its number too: a module can write over its own environment.
    """
    process, _, place = note.read_text().partition("\n")
    pid, _, at = process.partition(" ")
    mark = note.name.removeprefix(_PROCESS)
    leader = int(pid) if pid.isdigit() and at and began_at(int(pid)) == at else 0
    kill_family(leader or -1, f"{MARK}={mark}")
    if not is_group(Path(place), mark) or Cgroup(Path(place)).remove():
        note.unlink(missing_ok=True)
