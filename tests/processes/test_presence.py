from __future__ import annotations

import fcntl
import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from parachuted.errors import DaemonError
from parachuted.processes.presence import Presence, refuse_second, running_daemon

HOLDER = """
import sys, time
from parachuted.processes.presence import Presence
presence = Presence(sys.argv[1], sys.argv[2])
presence.announce({"pid": 1})
print("held", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def places(home, vault):
    return str(home), str(vault)


@pytest.fixture
def hasty(monkeypatch):
    """A lock that is held is not long taken for that of a process that only checks."""
    monkeypatch.setattr("parachuted.processes.presence._PROBED_S", 0.02)


def test_no_one_runs_before_someone_says_so(places):
    home, vault = places
    assert running_daemon(home) is None
    presence = Presence(home, vault)
    assert running_daemon(home) is None
    presence.announce({"pid": 7, "port": 3333})
    assert running_daemon(home) == {"pid": 7, "port": 3333}
    presence.release()
    assert running_daemon(home) is None
    assert sorted(os.listdir(f"{home}/run")) == ["daemon.lock"]  # noqa: PTH208


@pytest.mark.usefixtures("hasty")
def test_a_home_and_a_vault_have_one_daemon(places, tmp_path):
    home, vault = places
    (tmp_path / "other").mkdir()
    (tmp_path / "link").symlink_to(vault)
    presence = Presence(home, vault)
    for second in (
        (home, str(tmp_path / "other")),
        (str(tmp_path / "new"), vault),
        (str(tmp_path / "new"), str(tmp_path / "link")),  # the same by another name
        (home, vault),
    ):
        for refuse in (Presence, refuse_second):
            with pytest.raises(DaemonError, match=r"already (running|at work)"):
                refuse(*second)
    presence.release()
    Presence(home, vault).release()
    Presence(str(tmp_path / "new"), vault).release()  # who was refused holds nothing


@pytest.mark.parametrize("missing", ["home", "vault"])
def test_what_cannot_be_locked_is_said(tmp_path, missing):
    (tmp_path / "file").write_text("")
    (tmp_path / "folder").mkdir()
    home = str(tmp_path / "file") if missing == "home" else str(tmp_path / "h")
    with pytest.raises(DaemonError, match="cannot be locked"):
        Presence(home, str(tmp_path / ("folder" if missing == "home" else "file")))
    refuse_second(home, str(tmp_path / "none"))


def test_the_lock_of_a_killed_daemon_is_free_and_its_record_void(places):
    home, vault = places
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER, home, vault], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as holder:
        assert holder.stdout.readline() == b"held\n"
        assert running_daemon(home) == {"pid": 1}
        with pytest.raises(DaemonError):
            Presence(home, vault)
        holder.send_signal(signal.SIGKILL)
    assert os.path.exists(f"{home}/run/daemon.json")  # noqa: PTH110
    assert running_daemon(home) is None
    next_one = Presence(home, vault)
    assert (
        running_daemon(home) is None
    )  # it has said nothing yet, and the dead one's word is not taken for its own
    next_one.release()


@pytest.mark.parametrize(
    "begin", [refuse_second, lambda home, vault: Presence(home, vault).release()]
)
@pytest.mark.parametrize("asked", ["home/run/daemon.lock", "vault"])
def test_asking_does_not_keep_a_daemon_from_starting(places, tmp_path, asked, begin):
    home, vault = places
    Presence(home, vault).release()
    descriptor = os.open(tmp_path / asked, os.O_RDONLY)
    fcntl.flock(descriptor, fcntl.LOCK_EX)  # as one who asks holds it, who lets go again at once
    letting_go = threading.Timer(0.05, os.close, [descriptor])
    letting_go.start()
    begin(home, vault)
    letting_go.join()


def test_a_record_is_replaced_whole_and_a_garbled_one_is_none(places):
    home, vault = places
    presence = Presence(home, vault)
    presence.announce({"pid": 1, "x": "y" * 1000})
    presence.announce({"pid": 2})
    file = Path(home, "run/daemon.json")
    assert json.loads(file.read_text()) == {"pid": 2}
    for record in ("", "{", "[]", "null", "\0", '{"pid": 1'):
        file.write_text(record)
        assert running_daemon(home) is None
    presence.release()


def test_it_imports_nothing_that_is_slow():
    code = (
        "import sys; before = set(sys.modules); import parachuted.processes.presence; "
        "print(*sorted(set(sys.modules) - before))"
    )
    loaded = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout.split()

    assert not {"pathlib", "typing", "asyncio", "logging", "dataclasses", "socket"} & set(loaded)


@pytest.mark.usefixtures("hasty")
@pytest.mark.parametrize("by", ["its path", "a link"])
def test_a_daemon_on_a_folder_of_another_s_vault_is_refused(tmp_path, by):
    outer, inner, beside = (tmp_path / name for name in ("notes", "notes/a/shop", "notes-too"))
    inner.mkdir(parents=True)
    beside.mkdir()
    (tmp_path / "link").symlink_to(inner)
    below = str(inner if by == "its path" else tmp_path / "link")
    homes = [str(tmp_path / name) for name in ("home-1", "home-2", "home-3")]

    first = Presence(homes[0], str(outer))
    holds = r"at work on .*/notes, which holds .*; a vault has one writer"
    for refuse in (refuse_second, Presence):
        with pytest.raises(DaemonError, match=holds):
            refuse(homes[1], below)
    Presence(homes[1], str(beside)).release()
    first.release()

    first = Presence(homes[1], below)
    for refuse in (refuse_second, Presence):
        with pytest.raises(DaemonError, match=r"at work on .*/notes, or on a folder inside it"):
            refuse(homes[0], str(outer))
    neighbour = Presence(homes[2], str(beside))
    neighbour.release()
    first.release()
    Presence(homes[0], str(outer)).release()
