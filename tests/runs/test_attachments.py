"""Attachments: texts go as words, pictures as they are, and what no model takes is refused."""

from __future__ import annotations

import pytest

from parachuted.errors import ActRefusedError
from parachuted.runs.conversations import load_attachments

FILES = {
    "a.md": b"# Beans\n",
    "long.txt": b"x" * 100_001,
    "bed.PNG": b"\x89PNG",
    "song.ogg": b"\xff\xfe\x00",
    "huge.pdf": bytes((5 << 20) + 1),
    "large.pdf": bytes(5 << 20),
}


async def read(path: str) -> bytes:
    return FILES[path]


async def test_texts_go_as_words_and_pictures_as_they_are():
    found = await load_attachments(["a.md", "bed.PNG"], read)

    assert found.words == "The file a.md:\n\n# Beans\n\n\n"
    assert [(one.path, one.media_type, one.data) for one in found.files] == [
        ("bed.PNG", "image/png", b"\x89PNG")
    ]


async def test_a_long_text_is_cut_and_says_so():
    found = await load_attachments(["long.txt"], read)

    assert "x" * 100_000 in found.words
    assert "x" * 100_001 not in found.words
    assert "read_note reads all of it" in found.words


@pytest.mark.parametrize(
    ("paths", "says"),
    [
        (["song.ogg"], "neither text nor a picture"),
        (["huge.pdf"], "huge.pdf is too large"),
        (["large.pdf"] * 4, "large.pdf is too large"),
        (["a.md"] * 21, "at most 20 files"),
    ],
)
async def test_what_no_model_takes_is_refused(paths, says):
    with pytest.raises(ActRefusedError, match=says):
        await load_attachments(paths, read)
