"""A container for a module host: an empty image and read-only mounts of this machine.

It uses the `docker` command, which exists wherever the engine does and connects the pipe; a library
would be one more dependency.
"""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from uuid import uuid4

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
