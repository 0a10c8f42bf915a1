"""Isolates the process of an untrusted module, by what this machine offers.

It uses the `docker` command, which exists wherever the engine does and connects the pipe; a library
would be one more dependency.

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
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import Literal, TypeAlias
from uuid import uuid4

from pydantic import TypeAdapter

from parachuted.errors import ModuleFailedError
from parachuted.modules.hosting.cgroup import Cgroup, Cgroups, is_group
from parachuted.modules.hosting.isolation_rules import (
    MOST_THREADS,
    IsolationRules,
    landlock_version,
)
from parachuted.modules.hosting.seccomp import can_filter
from parachuted.modules.registry.approved import ApprovedModule
from parachuted.processes.reaper import began_at, kill_family

_IMAGE = "parachute-module:empty"
_EMPTY_TAR = bytes(10_240)
_ANSWER_S = 10.0
_LOOK_S = 3.0
_TRIES, _AGAIN_S = 50, 0.1
_PIDS = 64
_CPUS = "1"
_NOBODY = 1000
_PASSED_ON = ("PATH", "HOME", "XDG_RUNTIME_DIR")


class DockerError(Exception):
    """The engine did not do what it was asked."""


class Docker:
    """The engine of this machine, if there is one."""

    def __init__(self, env: Mapping[str, str]) -> None:
        self.env = {
            name: value
            for name, value in env.items()
            if name in _PASSED_ON or name.startswith("DOCKER_")
        }
        self._program = shutil.which("docker", path=env.get("PATH"))
        self._has_image = False

    async def is_there(self) -> bool:
        if self._program is None:
            return False
        try:
            await self._run("version", "--format", "{{.Server.Version}}", within_s=_LOOK_S)
        except DockerError:
            return False
        return True

    async def make_room(self, module: str) -> str:
        """See to the image; a new container's name. Raises DockerError."""
        if not self._has_image:
            await self._make_image()
            self._has_image = True
        return f"parachute-module-{module}-{uuid4().hex[:12]}"

    async def _make_image(self) -> None:
        with suppress(DockerError):
            await self._run("image", "inspect", "--format", "{{.Id}}", _IMAGE)
            return
        await self._run("import", "-", _IMAGE, stdin=_EMPTY_TAR)

    def command(
        self,
        name: str,
        program: Sequence[str],
        *,
        readable: Iterable[Path],
        writable: Iterable[Path] = (),
        memory: int,
    ) -> tuple[str, ...]:
        """What runs the program in the container, with its pipes as our own."""
        user, group = (os.getuid(), os.getgid()) if os.getuid() else (_NOBODY, _NOBODY)
        for folder in writable if os.getuid() == 0 else ():
            os.chown(folder, user, group, follow_symlinks=False)
        mounts = [
            *(f"--mount=type=bind,source={path},target={path},readonly" for path in readable),
            *(f"--mount=type=bind,source={path},target={path}" for path in writable),
        ]
        return (
            self._program or "docker",
            "run",
            "--interactive",
            "--rm",
            "--pull=never",
            f"--name={name}",
            "--network=none",
            "--read-only",
            "--cap-drop=ALL",
            "--security-opt=no-new-privileges",
            f"--user={user}:{group}",
            f"--pids-limit={_PIDS}",
            f"--cpus={_CPUS}",
            f"--memory={memory}",
            f"--memory-swap={memory}",
            "--ulimit=core=0",
            "--log-driver=none",
            "--ipc=none",
            "--hostname=module",
            "--workdir=/",
            "--env=LANG=C.UTF-8",
            *mounts,
            "--entrypoint=",
            _IMAGE,
            *program,
        )

    async def end(self, name: str) -> bool:
        """End that container, whatever runs in it; whether it is known to be gone."""
        for _ in range(_TRIES):
            try:
                await self._run("rm", "--force", "--volumes", name)
            except DockerError as error:
                if "already in progress" in str(error):  # its own `--rm` is at it
                    await asyncio.sleep(_AGAIN_S)
                    continue
                return "No such container" in str(error)
            return True
        return False

    async def _run(self, *words: str, stdin: bytes = b"", within_s: float = _ANSWER_S) -> str:
        try:
            process = await asyncio.create_subprocess_exec(
                self._program or "docker",
                *words,
                env=self.env,
                cwd="/",
                start_new_session=True,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
            )
        except OSError as error:
            raise DockerError(str(error)) from error
        try:
            async with asyncio.timeout(within_s):
                stdout, stderr = await process.communicate(stdin)
        except TimeoutError as error:
            raise DockerError(
                f"`docker {words[0]}` did not answer within {within_s:g} s"
            ) from error
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
        if process.returncode:
            raise DockerError(
                stderr.decode(errors="replace").strip()[-500:] or f"`docker {words[0]}` failed"
            )
        return stdout.decode(errors="replace")


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
_BOOT = (
    "import sys; sys.path += [one for one in sys.argv[1:] if one not in sys.path]; from "
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
    """Makes cages.

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
