"""All walls together, as a module's process raises them."""

from __future__ import annotations

import subprocess
import sys
import time

import pytest

from parachuted.modules.hosting.isolation_rules import landlock_version
from parachuted.modules.hosting.seccomp import can_filter
from tests.modules.escape_attempts import ROOT, run

RAISED = """
from parachuted.modules.hosting.isolation_rules import IsolationRules, apply_isolation
import resource
mine = dict(readable=(Path(sys.base_prefix),), memory={memory}, most_open=64, parent=os.getppid())
apply_isolation(IsolationRules(landlock={landlock}, seccomp={landlock}, **mine))
"""
ALL = RAISED.format(landlock=True, memory=1 << 29)
LIMITS = RAISED.format(landlock=False, memory=1 << 29)
walled = pytest.mark.skipif(
    not (landlock_version() and can_filter()), reason="this machine has not the kernel's walls"
)


def test_limits_hold_without_the_kernels_walls():
    tried = run(
        LIMITS
        + """
attempt("memory", lambda: bytearray(1 << 30))
attempt("files", lambda: [os.open("/dev/null", 0) for _ in range(100)])
attempt("more", lambda: resource.setrlimit(resource.RLIMIT_AS, (1 << 40, 1 << 40)) if os.getuid() else bytearray(1 << 30))
tried["core"] = resource.getrlimit(resource.RLIMIT_CORE)[1]
tried["nice"] = os.nice(0)
"""  # noqa: E501
    )

    assert tried["memory"] == "MemoryError"
    assert tried["files"] == "EMFILE"
    assert tried["more"] in {"MemoryError", "ValueError"}
    assert tried["core"] == 0
    assert tried["nice"] >= 5


@walled
def test_root_behind_the_walls_has_no_powers():
    tried = run(
        ALL
        + """
import ctypes
header, data = (ctypes.c_uint32 * 2)(0x20080522, 0), (ctypes.c_uint32 * 6)()
assert ctypes.CDLL(None).capget(header, data) == 0
tried["powers"] = list(data)
attempt("another user", lambda: os.setuid(12345) if os.getuid() == 0 else os.setuid(0))
attempt("limits", lambda: resource.setrlimit(resource.RLIMIT_AS, (1 << 40, 1 << 40)))
attempt("mknod", lambda: os.mknod("/tmp/m5-device", 0o60600, os.makedev(254, 0)))
attempt("root's file", lambda: open("/etc/shadow").read())
"""
    )

    assert tried["powers"] == [0] * 6
    assert "done" not in tried.values()


@walled
def test_nothing_is_written_not_even_a_file_in_memory():
    tried = run(
        ALL
        + """
attempt("in memory", lambda: os.write(os.memfd_create("x"), b"x"))
attempt("a temporary file", lambda: __import__("tempfile").TemporaryFile())
"""
    )

    assert tried["in memory"] == "EFBIG"
    assert tried["a temporary file"] != "done"


def test_a_process_whose_daemon_has_ended_raises_no_walls():
    tried = run(
        f"""
from parachuted.modules.hosting.isolation_rules import IsolationRules, apply_isolation
attempt("raise", lambda: apply_isolation(IsolationRules(landlock=False, seccomp=False, readable=(), memory=1 << 29, most_open=64, parent={2**22 - 7})))
"""  # noqa: E501
    )

    assert tried == ({"raise": "None"} if sys.platform == "linux" else {"raise": "done"})


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux ends a process with its parent")
def test_it_ends_with_the_daemon_however_that_ended():
    inner = f"""
import os, sys, time
sys.path.append({str(ROOT)!r})
from parachuted.modules.hosting.isolation_rules import IsolationRules, apply_isolation
apply_isolation(IsolationRules(landlock=False, seccomp=False, readable=(), memory=1 << 29, most_open=64, parent=os.getppid()))
print(os.getpid(), flush=True)
time.sleep(600)
"""  # noqa: E501
    outer = (
        f"import subprocess, sys; p = subprocess.Popen([sys.executable, '-I', '-c', {inner!r}], "
        "stdout=subprocess.PIPE);"
        "print(int(p.stdout.readline()), flush=True); sys.stdin.read()"
    )
    daemon = subprocess.Popen(
        [sys.executable, "-c", outer], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    pid = int(daemon.stdout.readline())

    daemon.kill()
    daemon.communicate()

    until = time.monotonic() + 30
    while (ROOT / f"/proc/{pid}/stat").exists() and time.monotonic() < until:
        time.sleep(0.01)
    assert not (ROOT / f"/proc/{pid}/stat").exists()


@pytest.mark.skipif(sys.platform != "linux", reason="only there a limit counts a namespace alone")
def test_threads_are_limited_in_a_namespace_of_its_own():
    tried = run(
        """
import threading
from parachuted.modules.hosting.isolation_rules import MOST_THREADS, limit_threads
if os.getuid() == 0:
    os.setgid(12345)
    os.setuid(12345)
held = threading.Event()
made = []
def begin():
    for _ in range(1000):
        threading.Thread(target=held.wait, daemon=True).start()
        made.append(1)
tried["limited"] = limit_threads()
attempt("a thousand", begin)
tried["enough"] = MOST_THREADS > len(made) > 32
"""
    )
    if not tried["limited"]:
        pytest.skip("this machine gives no user namespace; the daemon's watch alone counts threads")

    assert tried == {"limited": True, "a thousand": "RuntimeError", "enough": True}
