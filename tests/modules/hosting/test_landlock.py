"""A process that walled itself in reads what it was left, and nothing else."""

from __future__ import annotations

import sys

import pytest

from parachuted.modules.hosting.isolation_rules import landlock_version
from tests.modules.escape_attempts import run

pytestmark = pytest.mark.skipif(not landlock_version(), reason="this kernel has no Landlock")

WALLED = """
from parachuted.modules.hosting.isolation_rules import restrict_files
import socket, threading
mine, other = Path(sys.argv[1]), Path(sys.argv[2])
opened = (other / "secret").open()
restrict_files([mine, mine / "not there", Path(sys.base_prefix)], [other.parent])
"""


@pytest.fixture
def folders(tmp_path):
    mine, other = tmp_path / "a" / "mine", tmp_path / "a" / "other"
    for folder in (mine, other):
        folder.mkdir(parents=True)
        (folder / "secret").write_text("secret")
    (mine / "link").symlink_to(other / "secret")
    (mine / "folder").symlink_to(other)
    return mine, other


def test_it_reads_below_what_it_was_left_and_nowhere_else(folders):
    tried = run(
        WALLED
        + """
attempt("read mine", (mine / "secret").read_text)
attempt("list mine", lambda: os.listdir(mine))
attempt("read other", (other / "secret").read_text)
attempt("through a link", (mine / "link").read_text)
attempt("through a linked folder", (mine / "folder" / "secret").read_text)
attempt("through dots", (mine / ".." / "other" / "secret").read_text)
attempt("root", lambda: os.listdir("/"))
attempt("passwd", Path("/etc/passwd").read_text)
attempt("proc", Path("/proc/self/environ").read_bytes)
attempt("the parent's memory", lambda: open(f"/proc/{os.getppid()}/mem", "rb"))
attempt("names that it may see", lambda: os.listdir(other))
attempt("what was open before", opened.read)
""",
        *folders,
    )

    allowed = {name for name, outcome in tried.items() if outcome == "done"}
    assert allowed == {"read mine", "list mine", "names that it may see", "what was open before"}, (
        tried
    )


def test_it_changes_no_file_anywhere(folders):
    tried = run(
        WALLED
        + """
for name, folder in {"mine": mine, "other": other}.items():
    attempt(f"write {name}", lambda: (folder / "secret").write_text("x"))
    attempt(f"append {name}", lambda: (folder / "secret").open("a"))
    attempt(f"truncate {name}", lambda: os.truncate(folder / "secret", 0))
    attempt(f"create {name}", lambda: (folder / "new").touch())
    attempt(f"remove {name}", (folder / "secret").unlink)
    attempt(f"folder {name}", (folder / "new").mkdir)
    attempt(f"rename {name}", lambda: (folder / "secret").rename(folder / "moved"))
    attempt(f"link {name}", lambda: os.link(folder / "secret", folder / "linked"))
    attempt(f"symlink {name}", lambda: os.symlink("/", folder / "linked"))
    attempt(f"pipe {name}", lambda: os.mkfifo(folder / "pipe"))
    attempt(f"socket {name}", lambda: socket.socket(socket.AF_UNIX).bind(str(folder / "sock")))
attempt("tmp", lambda: Path("/tmp/m5-landlock").touch())
""",
        *folders,
    )

    assert {name: outcome for name, outcome in tried.items() if outcome == "done"} == {}
    assert [(folder / "secret").read_text() for folder in folders] == ["secret", "secret"]


@pytest.mark.skipif(
    landlock_version() < 6, reason="this kernel's Landlock knows no TCP, or no scopes"
)
def test_it_reaches_no_one_by_tcp_or_signals(folders):
    tried = run(
        WALLED
        + """
attempt("connect", lambda: socket.create_connection(("127.0.0.1", 9), 1))
attempt("bind", lambda: socket.socket().bind(("127.0.0.1", 0)))
attempt("signal", lambda: os.kill(os.getppid(), 0))
attempt("itself", lambda: os.kill(os.getpid(), 0))
""",
        *folders,
    )

    assert tried == {"connect": "EACCES", "bind": "EACCES", "signal": "EPERM", "itself": "done"}


def test_what_it_begins_is_walled_in_too(folders):
    tried = run(
        WALLED
        + """
def inside():
    attempt("a thread", (other / "secret").read_text)
thread = threading.Thread(target=inside)
thread.start()
thread.join()
child = os.fork()
if not child:
    try:
        (other / "secret").read_text()
    except PermissionError:
        os._exit(7)
    os._exit(0)
tried["a child"] = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
""",
        *folders,
    )

    assert tried == {"a thread": "EACCES", "a child": 7}


def test_without_landlock_it_says_so_and_raises(folders):
    tried = run(
        """
from parachuted.modules.hosting import isolation_rules
isolation_rules._CREATE = 999_999  # a call that no kernel has
attempt("wall", lambda: isolation_rules.restrict_files([Path("/usr")]))
tried["version"] = isolation_rules.landlock_version()
"""
    )

    assert tried == {"wall": "ENOSYS", "version": 0}
    assert sys.platform == "linux"


def test_in_a_folder_that_it_may_write_it_makes_files_and_no_way_out(folders):
    mine, other = folders
    data = mine.parent / "data"
    data.mkdir()
    (data / "index").write_text("old")
    tried = run(
        """
from parachuted.modules.hosting.isolation_rules import restrict_files
import sqlite3
mine, other, data = map(Path, sys.argv[1:4])
restrict_files([mine, Path(sys.base_prefix)], (), [data])
attempt("change", lambda: (data / "index").write_text("new"))
attempt("create", lambda: (data / "new").write_text("x"))
attempt("folder", (data / "deep").mkdir)
attempt("rename", lambda: (data / "new").rename(data / "deep" / "moved"))
attempt("remove", (data / "deep" / "moved").unlink)
attempt("remove folder", (data / "deep").rmdir)
def database():
    with sqlite3.connect(data / "x.db") as opened:
        opened.execute("PRAGMA journal_mode=WAL")
        opened.execute("CREATE TABLE t (a)")
        opened.execute("INSERT INTO t VALUES (1)")
attempt("sqlite", database)
attempt("symlink", lambda: os.symlink("/", data / "out"))
attempt("hard link in", lambda: os.link(mine / "secret", data / "linked"))
attempt("move in", lambda: (mine / "secret").rename(data / "secret"))
attempt("pipe", lambda: os.mkfifo(data / "pipe"))
attempt("write mine", lambda: (mine / "secret").write_text("x"))
attempt("write other", lambda: (other / "secret").write_text("x"))
attempt("through dots", lambda: (data / ".." / "other" / "secret").read_text())
attempt("beside", lambda: (data.parent / "new").touch())
attempt("run", lambda: os.execv(data / "index", ["x"]))
""",
        mine,
        other,
        data,
    )

    allowed = {name for name, outcome in tried.items() if outcome == "done"}
    assert allowed == {
        "change",
        "create",
        "folder",
        "rename",
        "remove",
        "remove folder",
        "sqlite",
    }, tried
