"""A script runs as it was when it was first seen or approved, and not otherwise."""

from __future__ import annotations

import json
import os
import stat
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from parachuted.hooks.approvals import NAME, HookApprovals

pytestmark = pytest.mark.on_disk


@pytest.fixture
def script(home):
    path = home / "on-session-start.sh"
    path.write_text("#!/bin/sh\necho hello\n")
    path.chmod(0o755)
    return path


@pytest.fixture
def approvals(home):
    return HookApprovals(home)


def change(path, text="#!/bin/sh\nrm -rf ~\n"):
    path.write_text(text)


def test_what_is_seen_first_may_run_and_is_pinned_for_its_owner_alone(approvals, script, home):
    assert approvals.refusal_of([]) is None
    assert not (home / NAME).exists()

    assert approvals.refusal_of([script]) is None
    assert stat.S_IMODE((home / NAME).stat().st_mode) == 0o600
    assert list(json.loads((home / NAME).read_text())) == [str(script)]
    assert approvals.approve([script]) == [], "that is no news"


def test_what_has_changed_does_not_run_until_it_is_approved(approvals, script, home):
    approvals.refusal_of([script])
    before = script.read_text()
    change(script)
    refusal = approvals.refusal_of([script])
    assert (
        f"{script} has changed since it was approved; `parachute hooks approve` lets it run"
        == refusal
    )
    change(script, before)
    assert approvals.refusal_of([script]) is None

    change(script)
    assert approvals.approve([script]) == [str(script)]
    assert approvals.refusal_of([script]) is None
    change(script, before)
    HookApprovals(home).approve([script])  # by another process, which counts at once
    assert approvals.refusal_of([script]) is None


def keep_size_and_time(script):
    at = script.stat()
    change(script, "#!/bin/sh\necho hellO\n")
    os.utime(script, ns=(at.st_atime_ns, at.st_mtime_ns))


def link_elsewhere(script):
    other = script.rename(script.with_name("other.sh"))
    change(other, "#!/bin/sh\necho other\n")
    script.symlink_to(other)


@pytest.mark.parametrize("how", [change, keep_size_and_time, link_elsewhere])
def test_any_change_is_seen_also_by_the_next_daemon(approvals, script, home, how):
    approvals.refusal_of([script])
    how(script)

    for each in (approvals, HookApprovals(home)):
        assert "has changed" in each.refusal_of([script])


def test_a_script_that_went_and_came_back_changed_is_seen(approvals, script):
    approvals.refusal_of([script])
    script.unlink()
    assert approvals.refusal_of([script]) == f"there is no {script}"
    change(script)
    script.chmod(0o755)

    assert "has changed" in approvals.refusal_of([script])


@pytest.mark.parametrize("is_there", [True, False])
def test_a_script_seen_empty_or_not_at_all_is_pinned_as_it_is_written(approvals, home, is_there):
    script = home / "on-session-start.sh"
    if is_there:
        script.touch()
    assert approvals.refusal_of([script]) is None

    change(script, "#!/bin/sh\necho hello\n")

    assert approvals.refusal_of([script]) is None
    change(script)
    assert "has changed" in approvals.refusal_of([script])


def test_one_changed_script_of_two_is_enough(approvals, script, home):
    library = home / "library.py"
    library.write_text("x = 1\n")
    approvals.refusal_of([script, library])
    change(library, "x = 2\n")

    assert str(library) in approvals.refusal_of([script, library])
    assert approvals.refusal_of([script]) is None


@pytest.mark.parametrize("mode", [0o775, 0o757, 0o777])
def test_what_others_may_write_to_does_not_run_approved_or_not(approvals, script, mode):
    script.chmod(mode)

    assert approvals.approve([script]) == []
    assert (
        approvals.refusal_of([script])
        == f"others may change {script}; `chmod go-w {script}` mends that"
    )


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
def test_what_belongs_to_someone_else_does_not_run(approvals, script):
    os.chown(script, 12345, 12345)

    assert "belongs to someone else" in approvals.refusal_of([script])


def test_a_pipe_in_the_place_of_a_script_is_not_waited_for(approvals, home):
    pipe = home / "on-session-end"
    os.mkfifo(pipe, 0o700)

    assert approvals.refusal_of([pipe]) == f"{pipe} is not a file"


@pytest.mark.parametrize(
    "garbage", [None, b"", b"{", b"[]", b'{"a": 1}', b"\xff", b"null", b"{}" + b" " * 2_000_000]
)
def test_pins_that_cannot_be_read_let_nothing_run_until_a_person_says_so(
    approvals, script, home, garbage
):
    approvals.refusal_of([script])
    if garbage is None:
        (home / NAME).chmod(0o666)  # others may write to them
    else:
        (home / NAME).write_bytes(garbage)

    assert "cannot be understood" in approvals.refusal_of([script])
    assert approvals.approve([script]) == [str(script)]
    assert approvals.refusal_of([script]) is None


def test_a_disk_that_refuses_lets_nothing_new_run(approvals, script, home):
    (home / "run").write_text("in the way")

    assert "could not be approved" in approvals.refusal_of([script])


def test_many_that_look_at_once_lose_no_pin(home):
    scripts = [home / f"on-session-start-{number}.sh" for number in range(20)]
    for path in scripts:
        path.write_text(f"echo {path.name}\n")
        path.chmod(0o700)
    gate = threading.Barrier(20)

    def look(path):
        gate.wait()
        return HookApprovals(home).refusal_of([path])

    with ThreadPoolExecutor(20) as pool:
        assert set(pool.map(look, scripts)) == {None}

    assert json.loads((home / NAME).read_text()).keys() == {str(path) for path in scripts}
