"""The writer interrupted: killed at its calls, failed at its calls, and disturbed by a person
between its calls. See rig/.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
RAM = Path("/dev/shm")  # noqa: S108 - nothing here has to reach a disk
Rig = Callable[..., None]


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """A folder in memory, where there is one: thousands of vaults are made in it."""
    if not RAM.is_dir():
        yield tmp_path
        return
    with tempfile.TemporaryDirectory(dir=RAM) as made:
        yield Path(made)


@pytest.fixture
def rig(folder: Path, capsys: pytest.CaptureFixture[str]) -> Rig:
    """Run one of the rig's programs, print how many points it tried, and fail with the first things
    that were wrong.
    """

    def run(program: str, *arguments: str, share: float) -> None:
        command = [
            sys.executable,
            "-m",
            f"tests.vault.rig.{program}",
            *arguments,
            str(folder),
            "--share",
            str(share),
        ]
        begun = time.monotonic()
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr[-3000:]
        found = json.loads(done.stdout)
        with capsys.disabled():
            sys.stdout.write(
                f"\n{program} {' '.join(arguments)}: {found['points']} points, "
                f"{time.monotonic() - begun:.0f} s\n"
            )
        assert found["points"] > 0
        assert found["wrong"][:5] == []

    return run


@pytest.fixture
def tracing(tmp_path: Path) -> None:
    """Only where strace is and may attach."""
    if shutil.which("strace") is None:
        pytest.skip("strace is not installed")
    tried = subprocess.run(
        ["strace", "-o", tmp_path / "tried", "true"], capture_output=True, check=False
    )
    if tried.returncode:
        pytest.skip(f"strace may not trace here: {tried.stderr.decode(errors='replace')[:200]}")


@pytest.mark.timeout(600)
def test_a_writer_killed_at_any_call_leaves_the_old_or_the_new_bytes_and_nothing_else(rig, torture):
    rig("forks", "kill", share=1 if torture else 0.15)


@pytest.mark.timeout(600)
def test_the_same_where_the_disk_has_no_rename_but_the_plain_one(rig, torture):
    rig("forks", "kill", "--plain", share=1 if torture else 0.05)


@pytest.mark.timeout(600)
def test_a_writer_killed_at_any_system_call_leaves_the_old_or_the_new_bytes_and_nothing_else(
    rig, tracing, torture
):
    rig("traced", "kill", share=1 if torture else 0.03)


@pytest.mark.timeout(600)
def test_a_call_that_fails_once_or_for_good_is_a_named_error_and_the_old_bytes_and_a_retry_works(
    rig, torture
):
    rig("forks", "fail", *(["--all-codes"] if torture else []), share=1 if torture else 0.02)


@pytest.mark.timeout(600)
def test_a_failing_call_where_the_disk_has_no_rename_but_the_plain_one(rig, torture):
    rig("forks", "fail", "--plain", share=1 if torture else 0.01)


@pytest.mark.timeout(600)
def test_a_system_call_that_fails_once_or_for_good_is_a_named_error_and_the_old_bytes(
    rig, tracing, torture
):
    rig("traced", "fail", share=1 if torture else 0.02)


@pytest.mark.timeout(600)
def test_what_a_person_saves_between_two_calls_of_the_writer_is_never_lost(rig, torture):
    rig("forks", "people", share=1 if torture else 0.025)
