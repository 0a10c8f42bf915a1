"""Files of the home are replaced whole or not at all, and are their owner's alone."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from parachuted.private import replace_private


def test_a_file_is_replaced_and_becomes_its_owner_s_alone(tmp_path: Path):
    file = tmp_path / "keys.yaml"
    file.write_text("old")
    file.chmod(0o644)

    replace_private(file, b"new")

    assert (file.read_bytes(), file.stat().st_mode & 0o777) == (b"new", 0o600)
    assert list(tmp_path.iterdir()) == [file]


def test_a_disk_that_refuses_leaves_the_old_file_and_nothing_beside_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    file = tmp_path / "keys.yaml"
    file.write_text("old")

    def refuse(_descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", refuse)
    with pytest.raises(OSError, match="No space"):
        replace_private(file, b"new")

    assert (file.read_text(), list(tmp_path.iterdir())) == ("old", [file])


def test_a_link_planted_at_the_temporary_name_leads_nowhere(tmp_path: Path):
    victim, file = tmp_path / "victim", tmp_path / "keys.yaml"
    victim.write_text("untouched")
    (tmp_path / f".keys.yaml.{os.getpid()}.tmp").symlink_to(victim)

    replace_private(file, b"new")

    assert (victim.read_text(), file.read_text()) == ("untouched", "new")
