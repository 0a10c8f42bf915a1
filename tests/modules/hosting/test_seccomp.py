"""The calls on the list are denied, and what a module needs is not."""

from __future__ import annotations

import platform
import re
import struct
from pathlib import Path

import pytest

from parachuted.modules.hosting import seccomp
from parachuted.modules.hosting.seccomp import can_filter, make_filter
from tests.modules.escape_attempts import run

here = pytest.mark.skipif(
    not can_filter(), reason="the system calls of this processor are not known"
)
HEADERS = {
    "x86_64": Path("/usr/include/x86_64-linux-gnu/asm/unistd_64.h"),
    "aarch64": Path("/usr/include/asm-generic/unistd.h"),
}

FILTERED = """
from parachuted.modules.hosting.isolation_rules import no_new_privileges
from parachuted.modules.hosting.seccomp import filter_calls
import asyncio, ctypes, socket, subprocess, tempfile, threading, mmap, resource
libc = ctypes.CDLL(None, use_errno=True)
def call(number, *arguments):
    if libc.syscall(number, *arguments) < 0:
        raise OSError(ctypes.get_errno(), "refused")
secret = Path(sys.argv[1])
no_new_privileges()
filter_calls()
"""


@here
def test_no_program_no_socket_no_change_to_files_that_are_not_opened(tmp_path):
    secret = tmp_path / "secret"
    secret.write_text("s")
    before = secret.stat()
    tried = run(
        FILTERED
        + """
attempt("program", lambda: subprocess.run(["true"]))
attempt("exec", lambda: os.execv("/bin/true", ["true"]))
attempt("fork", os.fork)
attempt("spawn", lambda: os.posix_spawn("/bin/true", ["true"], {}))
attempt("system", lambda: os._exit(3) if os.system("true") == 0 else (_ for _ in ()).throw(OSError(1, "no")))
for family in ("AF_INET", "AF_INET6", "AF_UNIX", "AF_NETLINK", "AF_PACKET", "AF_ALG", "AF_VSOCK"):
    attempt(family, lambda: socket.socket(getattr(socket, family), socket.SOCK_DGRAM if family != "AF_ALG" else socket.SOCK_SEQPACKET))
attempt("chmod", lambda: secret.chmod(0))
attempt("chown", lambda: os.chown(secret, 1, 1))
attempt("utime", lambda: os.utime(secret, (0, 0)))
attempt("xattr", lambda: os.setxattr(secret, "user.x", b"1"))
attempt("kill", lambda: os.kill(os.getppid(), 0))
attempt("kill group", lambda: os.kill(-1, 0))
import fcntl, struct
ours, theirs = socket.socketpair()
attempt("truncate", lambda: os.truncate(secret, 0))
attempt("owner", lambda: fcntl.fcntl(ours, fcntl.F_SETOWN, os.getppid()))
attempt("owner ex", lambda: fcntl.fcntl(ours, 15, struct.pack("ii", 1, os.getppid())))
attempt("signal", lambda: fcntl.fcntl(ours, 10, 9))
attempt("ioctl owner", lambda: fcntl.ioctl(ours, 0x8901, struct.pack("i", os.getppid())))
attempt("ioctl group", lambda: fcntl.ioctl(ours, 0x8902, struct.pack("i", os.getppid())))
attempt("processors", lambda: os.sched_setaffinity(os.getppid(), os.sched_getaffinity(0)))
attempt("nice", lambda: os.setpriority(os.PRIO_PROCESS, os.getppid(), 19))
attempt("limits", lambda: resource.prlimit(os.getppid(), resource.RLIMIT_NOFILE))
attempt("chroot", lambda: os.chroot("/tmp"))
attempt("session", os.setsid)
attempt("to outlive its parent", lambda: libc.prctl(1, 0, 0, 0, 0) == 0 or (_ for _ in ()).throw(OSError(ctypes.get_errno(), "no")))
attempt("pidfd", lambda: os.pidfd_open(os.getppid()))
""",  # noqa: E501
        secret,
    )

    assert {
        name: outcome
        for name, outcome in tried.items()
        if outcome not in {"EPERM", "PermissionError"}
    } == {}
    assert secret.read_text() == "s"
    assert secret.stat().st_mode == before.st_mode
    assert secret.stat().st_mtime == before.st_mtime


@here
def test_a_raw_call_is_denied_too(tmp_path):
    column = ("x86_64", "aarch64").index(platform.machine())
    names = [
        "ptrace",
        "process_vm_readv",
        "io_uring_setup",
        "bpf",
        "keyctl",
        "unshare",
        "mount",
        "inotify_add_watch",
    ]
    calls = [
        f'attempt("{name}", lambda: call({seccomp._DENIED[name][column]}, 0, 0, 0, 0, 0, 0))'
        for name in names
    ]

    assert run(FILTERED + "\n".join(calls), tmp_path) == dict.fromkeys(names, "EPERM")


@here
@pytest.mark.skipif(platform.machine() != "x86_64", reason="only that processor has these ways in")
def test_the_other_numbers_of_the_same_processor_are_no_way_around(tmp_path):
    tried = run(
        FILTERED + 'attempt("x32 socket", lambda: call(0x40000000 + 41, 2, 1, 0))', tmp_path
    )

    assert tried == {"x32 socket": "EPERM"}


@here
def test_what_python_needs_goes_on(tmp_path):
    tried = run(
        FILTERED
        + """
attempt("thread", lambda: (thread := threading.Thread(target=int), thread.start(), thread.join()))
async def loop():
    await asyncio.to_thread(int)
    await asyncio.sleep(0.001)
attempt("asyncio", lambda: asyncio.run(loop()))
attempt("memory", lambda: mmap.mmap(-1, 1 << 20))
attempt("a name", lambda: libc.prctl(15, b"x", 0, 0, 0) == 0 or (_ for _ in ()).throw(OSError(ctypes.get_errno(), "no")))
attempt("random", lambda: os.urandom(8))
attempt("read", lambda: secret.stat())
attempt("a signal to itself", lambda: os.kill(os.getpid(), 0))
attempt("its own limits", lambda: resource.getrlimit(resource.RLIMIT_NOFILE))
attempt("import", lambda: __import__("sqlite3").connect(":memory:").execute("select 1"))
""",  # noqa: E501
        tmp_path,
    )

    assert set(tried.values()) == {"done"}, tried


@pytest.mark.parametrize("machine", ["x86_64", "aarch64"])
def test_the_filter_is_whole_for_each_processor(machine):
    code = make_filter(machine, 4242)
    steps = list(struct.iter_unpack("=HBBI", code))

    assert len(code) % 8 == 0
    assert len(steps) < 4096
    assert steps[-1] == (0x06, 0, 0, 0x7FFF0000)
    for place, (_code, if_true, if_false, _value) in enumerate(steps[:-1]):
        assert place + 1 + max(if_true, if_false) < len(steps)


@pytest.mark.parametrize("machine", ["x86_64", "aarch64"])
def test_the_numbers_are_those_of_the_kernels_headers(machine):
    if not HEADERS[machine].is_file():
        pytest.skip("the kernel's headers are not on this machine")
    known = {
        name: int(number)
        for name, number in re.findall(
            r"#define __NR(?:3264)?_(\w+)\s+(\d+)", HEADERS[machine].read_text()
        )
    }
    column = ("x86_64", "aarch64").index(machine)
    ours = {name: numbers[column] for name, numbers in seccomp._DENIED.items()}

    assert {
        name: number for name, number in ours.items() if name in known and known[name] != number
    } == {}
    assert {name for name, number in ours.items() if number is None and name in known} == set()
    assert len(set(ours.values()) - {None}) == len(
        [number for number in ours.values() if number is not None]
    )
