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


KILLED, FAILED, PEOPLE = ("forks", "kill"), ("forks", "fail"), ("forks", "people")


@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    ("program", "share"),
    [
        pytest.param(KILLED, 0.08, id="killed at any call: the old or the new bytes, nothing else"),
        pytest.param((*KILLED, "--plain"), 0.03, id="the same where there is a plain rename alone"),
        pytest.param(FAILED, 0.01, id="a call fails: a named error, the old bytes, a retry works"),
        pytest.param((*FAILED, "--plain"), 0.01, id="the same with a plain rename alone"),
        pytest.param(PEOPLE, 0.012, id="what a person saves between two calls is never lost"),
    ],
)
def test_whatever_interrupts_the_writer_at_a_call(rig, torture, program, share):
    codes = ["--all-codes"] if torture and program == FAILED else []
    rig(*program, *codes, share=1 if torture else share)


@pytest.mark.timeout(600)
@pytest.mark.parametrize(("what", "share"), [("kill", 0.015), ("fail", 0.01)])
def test_the_same_at_any_system_call(rig, tracing, torture, what, share):
    rig("traced", what, share=1 if torture else share)
