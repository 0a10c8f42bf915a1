"""A module's process, with all that it starts, is counted by the kernel where the system lets the
daemon make a cgroup.
"""

from __future__ import annotations

import asyncio
import os
import sys
import uuid
from asyncio.subprocess import PIPE
from collections.abc import Iterator
from pathlib import Path

import pytest

from parachuted.modules.hosting.cgroup import Cgroup, Cgroups, is_group
from parachuted.modules.hosting.isolation import IsolationFactory
from tests.modules.small_modules import approve, until, write_module

SELF = str(os.getpid())
UNIT = "/user.slice/parachute.service"
FORKS = """
import os, sys, time
sys.stdin.readline()
made = 0
for _ in range(2000):
    try:
        if os.fork() == 0:
            os.setsid()
            time.sleep(600)
            os._exit(0)
        made += 1
    except OSError:
        break
print(made, flush=True)
time.sleep(600)
"""


@pytest.fixture
def real() -> Cgroups:
    """The cgroups of this machine."""
    found = Cgroups.find()
    if found is None:
        pytest.skip("no cgroup can be made here")
    return found


@pytest.fixture
def group(real: Cgroups) -> Iterator[Cgroup]:
    made = real.make(uuid.uuid4().hex, most_processes=20, memory=1 << 30)
    if made is None:
        pytest.skip("no cgroup can be made here")
    yield made
    assert made.remove()


def machine(tmp_path: Path, own: str, *mounts: str) -> tuple[Path, Path]:
    """Files as /proc/self has them: mountinfo, and cgroup.

    `{0}` in a mount is the folder of all hierarchies.
    """
    (tmp_path / "mountinfo").write_text(
        "22 1 0:21 / /proc rw - proc proc rw\n"
        + "".join(f"{line.format(tmp_path)}\n" for line in mounts)
    )
    (tmp_path / "cgroup").write_text(own)
    return tmp_path / "mountinfo", tmp_path / "cgroup"


def unit(
    tmp_path: Path,
    *,
    members: str = SELF,
    controllers: str = "cpu memory pids",
    delegated: str = "",
) -> Path:
    folder = tmp_path / f"v2{UNIT}"
    folder.mkdir(parents=True)
    for name, text in {
        "cgroup.controllers": controllers,
        "cgroup.subtree_control": delegated,
        "cgroup.procs": members,
    }.items():
        (folder / name).write_text(text)
    return folder


VERSION_2 = "30 22 0:26 / {0}/v2 rw - cgroup2 cgroup rw"
VERSION_1 = "31 22 0:27 / {0}/pids rw - cgroup cgroup rw,pids"


def test_in_a_delegated_unit_the_daemon_makes_room_for_limited_groups(tmp_path: Path):
    folder = unit(tmp_path)

    found = Cgroups.find(*machine(tmp_path, f"0::{UNIT}\n", VERSION_2))

    assert found == Cgroups(folder)
    assert (
        folder / "daemon/cgroup.procs"
    ).read_text() == SELF  # a group that limits others holds no process itself
    assert (folder / "cgroup.subtree_control").read_text() == "+pids +memory"


def test_a_daemon_that_lies_in_a_group_of_its_own_uses_the_one_above(tmp_path: Path):
    folder = unit(tmp_path, delegated="memory pids", members="")
    (folder / "daemon").mkdir()
    (folder / "daemon/cgroup.controllers").write_text("memory pids")

    assert Cgroups.find(*machine(tmp_path, f"0::{UNIT}/daemon\n", VERSION_2)) == Cgroups(folder)


@pytest.mark.parametrize("more", [{"members": f"1\n{SELF}"}, {"controllers": "cpu"}])
def test_a_group_of_others_too_or_without_the_controller_is_left_as_it_is(
    tmp_path: Path, more: dict[str, str]
):
    folder = unit(tmp_path, **more)

    assert Cgroups.find(*machine(tmp_path, f"0::{UNIT}\n", VERSION_2)) is None
    assert not (folder / "daemon").exists()
    assert (folder / "cgroup.subtree_control").read_text() == ""


def test_in_a_container_the_hierarchy_begins_at_the_containers_own_group(tmp_path: Path):
    folder = tmp_path / "pids/sub"
    folder.mkdir(parents=True)
    (folder / "cgroup.procs").touch()
    mount = VERSION_1.replace("0:27 / ", "0:27 /docker/abc ")

    assert Cgroups.find(*machine(tmp_path, "8:pids:/docker/abc/sub\n", mount)) == Cgroups(folder)


def test_without_a_hierarchy_there_are_none(tmp_path: Path):
    assert Cgroups.find(*machine(tmp_path, "0::/\n")) is None
    assert Cgroups.find(tmp_path / "nothing", tmp_path / "nothing") is None


@pytest.mark.parametrize(
    ("delegated", "says"),
    [
        ("pids memory", "cgroup: 64 processes and threads, 1024 bytes of memory"),
        ("", "cgroup: 64 processes and threads; rlimit of memory"),
    ],
)
def test_a_group_has_the_limits_of_a_module_and_says_so(tmp_path: Path, delegated: str, says: str):
    (tmp_path / "cgroup.subtree_control").write_text(delegated)

    group = Cgroups(tmp_path).make("m", most_processes=64, memory=1024)

    assert group is not None
    assert group.limits() == says
    assert is_group(group.folder, "m")
    assert not is_group(tmp_path, "m")


def test_a_hierarchy_that_cannot_be_written_makes_none_and_leaves_the_watch(tmp_path: Path):
    assert Cgroups(tmp_path / "gone").make("m", most_processes=64, memory=1024) is None


async def test_the_kernel_stops_a_fork_bomb_and_all_of_it_is_ended_at_once(group: Cgroup):
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-I", "-S", "-c", FORKS, stdin=PIPE, stdout=PIPE
    )
    group.add(process.pid)
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(b"go\n")

    assert int(await process.stdout.readline()) == 19
    assert len(group.members()) == 20  # though each has left the session

    group.kill()
    await process.wait()
    await until(lambda: group.members() == [])


async def test_what_a_killed_daemon_left_in_its_group_is_ended_and_the_group_removed(
    tmp_path: Path, real: Cgroups
):
    def make_isolations() -> IsolationFactory:
        return IsolationFactory(
            sandbox="process", run=tmp_path / "run", secret=[], env={}, cgroups=real
        )

    mark = uuid.uuid4().hex
    held = await make_isolations().hold(
        approve(write_module(tmp_path / "home/modules/daily/abc", "x = 1"), trust="untrusted"), mark
    )
    assert held.group is not None
    left = await asyncio.create_subprocess_exec(
        "sleep", "600", env={}, start_new_session=True
    )  # it forgot its mark
    held.group.add(left.pid)

    await make_isolations().sweep()

    assert await left.wait() == -9
    assert not held.group.folder.exists()
    assert list((tmp_path / "run").iterdir()) == []
