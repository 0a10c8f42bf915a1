"""What tests of Daily share."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def spoken_words(tmp_path_factory) -> Path:
    """A recording in which a synthetic voice counts."""
    if shutil.which("espeak-ng") is None:
        pytest.skip("espeak-ng is not installed")
    path = tmp_path_factory.mktemp("speech") / "words.wav"
    subprocess.run(
        ["espeak-ng", "-v", "en-us", "-s", "130", "-w", path, "one two three four five"], check=True
    )
    return path
