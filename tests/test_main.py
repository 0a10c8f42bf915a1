"""`python -m parachuted` is the command."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

from parachuted import __version__


def test_the_module_is_the_command(home):
    done = subprocess.run(
        [sys.executable, "-m", "parachuted", "--version"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, f"parachuted {__version__}\n")
    done = subprocess.run(
        [sys.executable, "-m", "parachuted", "status"], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (3, "")


def test_so_is_the_script(home):
    script = shutil.which("parachute", path=str(Path(sys.executable).parent))
    done = subprocess.run([script, "--version"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, f"parachuted {__version__}\n")
