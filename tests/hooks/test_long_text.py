"""Long text: no one's window is filled by a hook."""

from __future__ import annotations

import stat
from pathlib import Path

from parachuted.hooks.reporting import LongTexts


def test_up_to_10000_characters_stay_as_they_are(tmp_path: Path):
    assert LongTexts(tmp_path / "t").short("x" * 10_000) == "x" * 10_000
    assert not (tmp_path / "t").exists()


def test_more_goes_to_a_file_and_is_replaced_by_its_path_and_a_preview(tmp_path: Path):
    text = "".join(f"line {number}\n" for number in range(5_000))
    short = LongTexts(tmp_path / "a" / "t").short(text)

    (file,) = (tmp_path / "a" / "t").iterdir()
    assert file.read_text() == text
    assert str(file) in short
    assert short.endswith(text[:2_000])
    assert len(short) < 2_500
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_half_a_character_can_be_kept(tmp_path: Path):
    assert "characters" in LongTexts(tmp_path).short("\udcff" * 20_000)


def test_the_oldest_files_go(tmp_path: Path):
    texts = LongTexts(tmp_path)
    shorts = [texts.short(f"{number} " * 10_000) for number in range(60)]

    kept = {str(file) for file in tmp_path.iterdir()}
    assert len(kept) == 50
    assert any(file in shorts[-1] for file in kept)
    assert not any(file in shorts[0] for file in kept)
