"""The Docker engine of this machine, through the `docker` package. Every call blocks."""

from __future__ import annotations

import contextlib
import io
import json
import socket
import sys
import tarfile
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Any

import docker
import docker.constants
from docker.errors import APIError, DockerException, ImageNotFound, NotFound

from parachuted.agents.sandbox.options import (
    BUILT_IMAGE,
    HOME_IN_BOX,
    HOST_IMAGE,
    LABEL,
    LIFE_LABEL,
    MOST_BYTES,
    OUTSIDE_IN_BOX,
    SOCKETS_IN_BOX,
    VAULT_IN_BOX,
    ContainerOwner,
    Image,
)
from parachuted.errors import AgentUnavailableError

_NONE = (
    "no Docker engine answers at {}; install and start Docker, then run `parachute sandbox doctor`"
)
_ROOTLESS = (
    "the engine runs without root, where its users are others than this machine's; agents "
    "with a shell need one that runs as root"
)
_HAD_ENDED = "the agent's container had ended before its files were read"
_ANSWER_S = 20
_STREAMS = {"stdin": 1, "stdout": 1, "stderr": 1, "stream": 1}
_READY_BYTES = 9
_KILLED = 137
_MEMORY_EVENTS = (  # of either version of control groups
    "/sys/fs/cgroup/memory.events",
    "/sys/fs/cgroup/memory/memory.oom_control",
)
_PIECE = 1 << 20
_MOST_READ = 2 * MOST_BYTES  # holes in files count in full
_GONE_S, _LOOK_S = 10.0, 0.02
_USED = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32")
_OF_ETC = ("/etc/alternatives", "/etc/ssl/certs")
_EMPTY = (
    "tmp",
    "run",
    "var/tmp",
    "proc",
    "dev",
    "sys",
    "etc",
    "opt/parachute",
    VAULT_IN_BOX[1:],
    HOME_IN_BOX[1:],
    SOCKETS_IN_BOX[1:],
    OUTSIDE_IN_BOX[1:],
)
_ANYBODYS = ("tmp", "run", "var/tmp")
_BUILD_S = 3600


class Engine:
    """`problem` is why no agent may run a shell there. Failures raise AgentUnavailableError."""

    def __init__(self, env: Mapping[str, str]) -> None:
        given = {name: value for name, value in env.items() if name.startswith("DOCKER_")}
        host = given.get("DOCKER_HOST") or docker.constants.DEFAULT_UNIX_SOCKET
        with contextlib.ExitStack() as undone, _in_words(_NONE.format(host.removeprefix("http+"))):
            _check_socket(host)
            self._client = docker.DockerClient.from_env(
                environment=given, version="auto", timeout=_ANSWER_S, max_pool_size=32
            )
            undone.callback(self._client.close)
            self.version = str(self._client.version()["Version"])
            options = [str(option) for option in self._client.info().get("SecurityOptions") or []]
            undone.pop_all()
        self.problem = None
        if any("rootless" in option for option in options):
            self.problem = _ROOTLESS
        elif not any("seccomp" in option for option in options):
            self.problem = "the engine has no seccomp, without which no agent runs a shell"

    def image(self) -> Image | None:
        """The built one, else the one of this machine's own programs."""
        if self._has_image(BUILT_IMAGE):
            return Image(name=BUILT_IMAGE, kind="built")
        return _host_image() if self._has_image(HOST_IMAGE) else None

    def host_image(self) -> Image:
        """Made where there is none."""
        if not self._has_image(HOST_IMAGE):
            for _line in self.build_offline():
                pass
        return _host_image()

    def _has_image(self, name: str) -> bool:
        with _in_words("the engine does not tell its images"):
            try:
                self._client.images.get(name)
            except ImageNotFound:
                return False
        return True

    def start(
        self, options: Mapping[str, object], name: str, *, is_held: bool = False
    ) -> socket.socket:
        """A container with these options; its stdin and stdout. One that `is_held` is ready."""
        api = self._client.api
        with contextlib.ExitStack() as undone, _in_words("the engine did not start the container"):
            api.create_container_from_config(options, name=name)
            stream = _raw(api.attach_socket(name, params=_STREAMS))
            undone.callback(stream.close)
            api.start(name)
            if is_held:
                stream.settimeout(_ANSWER_S)
                if not stream.recv(_READY_BYTES):
                    raise AgentUnavailableError("the container did not begin")
            undone.pop_all()
        return stream

    def run(self, container: str, command: Sequence[str]) -> tuple[str, socket.socket]:
        """Another program in a container that runs: its id, and its stdin and stdout."""
        api = self._client.api
        with _in_words("the engine did not start the program"):
            program = api.exec_create(container, list(command), stdin=True)["Id"]
            return program, _raw(api.exec_start(program, socket=True))

    def fill(self, container: str, place: str, archive: Path) -> None:
        """Unpack an archive in a folder of a container that runs."""
        with _in_words("the engine did not take the agent's files"), archive.open("rb") as file:
            self._client.api.put_archive(container, place, file)

    def pause(self, container: str) -> None:
        with _in_words(_HAD_ENDED):
            self._client.api.pause(container)

    def read(self, container: str, place: str, archive: Path) -> None:
        """Write a file or folder of a container that is paused into an archive."""
        with _in_words("the engine did not give the agent's files"), archive.open("wb") as file:
            pieces, _ = self._client.api.get_archive(container, place, chunk_size=_PIECE)
            with contextlib.closing(pieces):  # until then the engine holds it
                for piece in pieces:
                    if file.tell() > _MOST_READ:
                        raise AgentUnavailableError(
                            f"the agent left more than {_MOST_READ >> 20} MB, so none of it is "
                            "taken"
                        )
                    file.write(piece)
            # else the files were gone, and a vault without notes was read
            if not self._client.api.inspect_container(container)["State"]["Running"]:
                raise AgentUnavailableError(_HAD_ENDED)

    def exit_code(self, container: str, program: str | None) -> tuple[int | None, bool]:
        """How that program, or else the container, ended, and whether memory was short in it."""
        api = self._client.api
        with _in_words("the engine does not tell how the container ended"):
            if program is None:
                api.wait(container, timeout=_ANSWER_S)
                state = api.inspect_container(container)["State"]
                return int(state["ExitCode"]), bool(state["OOMKilled"])
            until = time.monotonic() + _ANSWER_S
            while (ended := api.exec_inspect(program))["Running"] and time.monotonic() < until:
                time.sleep(_LOOK_S)  # its streams end before the engine has heard of its end
            code, said = ended["ExitCode"], b""
            if code == _KILLED:
                said = api.exec_start(api.exec_create(container, ["cat", *_MEMORY_EVENTS])["Id"])
        return code, any(
            line.startswith(b"oom_kill ") and not line.endswith(b" 0") for line in said.splitlines()
        )

    def remove(self, container: str) -> None:
        """End it, whatever runs in it, and leave nothing of it. None there is as good."""
        until = time.monotonic() + _GONE_S
        while True:
            try:
                self._client.api.remove_container(container, force=True, v=True)
            except NotFound:
                return
            except (DockerException, OSError) as error:  # such as: it is being removed already
                if time.monotonic() > until:
                    raise AgentUnavailableError(
                        f"the engine did not end a container: {_words(error)}"
                    ) from error
            time.sleep(_LOOK_S)

    def strays(self, owner: ContainerOwner) -> list[str]:
        """The containers of that daemon's earlier lives, running or not."""
        with _in_words("the engine does not tell its containers"):
            found = self._client.api.containers(
                all=True, filters={"label": f"{LABEL}={owner.daemon}"}
            )
        return [str(one["Id"]) for one in found if one["Labels"].get(LIFE_LABEL) != owner.life]

    def build(self, dockerfile: str) -> Iterator[str]:
        with _in_words("the image was not built"):
            file, kept = io.BytesIO(dockerfile.encode()), {"rm": True, "forcerm": True}
            lines = self._client.api.build(
                fileobj=file, tag=BUILT_IMAGE, decode=True, timeout=_BUILD_S, **kept
            )
            error = ""
            # to the end, also after an error: only then does the library give its connection back
            for line in lines:
                error = error or str(line.get("error", "")).strip()[:500]
                text = str(line.get("stream") or line.get("status") or "").rstrip()
                if text and not error:
                    yield text
        if error:
            raise AgentUnavailableError(f"the image was not built: {error}")

    def build_offline(self) -> Iterator[str]:
        """Empty but for the folders that programs are mounted on, so it needs no network."""
        if sys.platform != "linux":
            raise AgentUnavailableError(
                "only Linux programs run in a container; run `parachute sandbox build` without "
                "--offline"
            )
        yield (
            f"an empty image, into which {', '.join(_host_mounts())} of this machine are "
            "mounted, read only"
        )
        repository, _, tag = HOST_IMAGE.partition(":")
        with _in_words("the image was not made"):
            said = self._client.api.import_image_from_data(
                _host_tar(), repository=repository, tag=tag
            )
            answer = json.loads(str(said).strip().splitlines()[-1])
        if "error" in answer:
            raise AgentUnavailableError(f"the image was not made: {answer['error']}")
        yield f"made {HOST_IMAGE}"

    def close(self) -> None:
        self._client.close()


@contextlib.contextmanager
def _in_words(what: str) -> Iterator[None]:
    try:
        yield
    except (DockerException, OSError) as error:
        raise AgentUnavailableError(f"{what} ({_words(error)})") from error


def _check_socket(host: str) -> None:
    """The library would leave its own socket open otherwise."""
    path = host.removeprefix("http+").removeprefix("unix:")
    if path != host:
        with socket.socket(socket.AF_UNIX) as probe_socket:
            probe_socket.settimeout(_ANSWER_S)
            probe_socket.connect(f"/{path.lstrip('/')}")


def _words(error: BaseException) -> str:
    text = str(error.explanation if isinstance(error, APIError) and error.explanation else error)
    return " ".join(text.split())[:300]


def _raw(attached: Any) -> socket.socket:  # noqa: ANN401  docker has no types
    found = getattr(attached, "_sock", attached)
    if not isinstance(found, socket.socket):
        raise AgentUnavailableError(
            "the engine's connection is of a kind that cannot be used here; use its unix socket"
        )
    stream = found.dup()
    # The answer first: Python 3.13 reports one whose socket was closed before it.
    attached._response.close()  # noqa: SLF001  where docker keeps it
    attached.close()
    found.close()
    found.close()
    return stream


def _host_image() -> Image:
    return Image(name=HOST_IMAGE, kind="host", mounts=tuple(_host_mounts()))


def _host_mounts() -> list[str]:
    folders = [path for path in _USED if Path(path).is_dir() and not Path(path).is_symlink()]
    return [*folders, *(path for path in _OF_ETC if Path(path).is_dir())]


def _host_tar() -> bytes:
    """Mount points, this machine's links such as /bin, and the agent's name."""
    passwd = f"agent:x:1000:1000:agent:{HOME_IN_BOX}:/bin/sh\n".encode()
    wanted = {*_EMPTY, *(path[1:] for path in _host_mounts())}
    above = {str(parent) for path in wanted for parent in PurePosixPath(path).parents} - {"."}
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w") as archive:
        for name in sorted(wanted | above):
            folder = tarfile.TarInfo(name)
            folder.type = tarfile.DIRTYPE
            # a tmpfs takes over the mode of what it is mounted on
            folder.mode = 0o1777 if name in _ANYBODYS else 0o755
            archive.addfile(folder)
        for path in filter(Path.is_symlink, map(Path, _USED)):
            link = tarfile.TarInfo(path.name)
            link.type, link.linkname = tarfile.SYMTYPE, str(path.readlink())
            archive.addfile(link)
        names = tarfile.TarInfo("etc/passwd")
        names.size, names.mode = len(passwd), 0o644
        archive.addfile(names, io.BytesIO(passwd))
    return made.getvalue()
