"""Paths: what may name a place in the vault, and what may not."""

from __future__ import annotations

import os
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from parachuted.errors import PathRefusedError
from parachuted.vault.paths import (
    MOST_FOLDERS,
    VaultPath,
    name_refusal,
    printable,
    refusal,
)

NFD = unicodedata.normalize("NFD", "Café.md")
LATIN_1 = os.fsdecode(b"caf\xe9.md")
NFC_BYTES_AS_SURROGATES = "caf\udcc3\udca9.md"
DEEP = "it is in more than 120 folders, one in another, which are not watched"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "it is empty"),
        ("/etc/passwd", "it does not start inside the vault"),
        ("/", "it does not start inside the vault"),
        ("~", "it does not start inside the vault"),
        ("~/notes.md", "it does not start inside the vault"),
        ("..", "it holds an empty name, `.` or `..`"),
        ("../a.md", "it holds an empty name, `.` or `..`"),
        ("a/../../b.md", "it holds an empty name, `.` or `..`"),
        ("a/..", "it holds an empty name, `.` or `..`"),
        (".", "it holds an empty name, `.` or `..`"),
        ("a/./b.md", "it holds an empty name, `.` or `..`"),
        ("a//b.md", "it holds an empty name, `.` or `..`"),
        ("a/", "it holds an empty name, `.` or `..`"),
        ("a\0.md", "it holds control characters"),
        ("a\n.md", "it holds control characters"),
        ("a\x7f.md", "it holds control characters"),
        ("a\x9b.md", "it holds control characters"),
        ("a\ud800.md", "it holds control characters"),
        (f"a{chr(0xDC7F)}.md", "it holds control characters"),
        (f"a{chr(0xDFFF)}.md", "it holds control characters"),
        (NFC_BYTES_AS_SURROGATES, "it is a second spelling of another path"),
        ("a" * 256, "a name is longer than 255 bytes"),
        ("é" * 128, "a name is longer than 255 bytes"),
        ("/".join(["a" * 200] * 21), "a name is longer than 255 bytes"),
        ("d/" * (MOST_FOLDERS + 1) + "a.md", DEEP),
    ],
)
def test_a_path_that_could_leave_the_vault_or_deceive_is_refused(text, reason):
    assert refusal(text) == reason
    with pytest.raises(PathRefusedError) as refused:
        VaultPath.parse(text)
    assert refused.value.message.endswith(f"is not a path in the vault: {reason}")
    refused.value.message.encode()


@pytest.mark.parametrize(
    "text",
    [
        *(
            "a.md",
            "Projects/ü/AGENTS.md",
            "🪂/🌱.md",
            "יומן/שלום.md",
            "-rf",
            "--help",
            NFD,
            LATIN_1,
        ),
        *(
            "...",
            "..a",
            "~a",
            "a~",
            "a/~",
            "a b.md",
            "a\\b",
            "C:x",
            "a" * 255,
            "é" * 127,
            ".agents/x.md",
            "%2e%2e",
        ),
    ],
)
def test_what_a_file_system_can_hold_is_kept_as_it_is(text):
    assert VaultPath.parse(text) == text
    assert VaultPath.parse("d/" * MOST_FOLDERS + "a.md").name == "a.md"


@pytest.mark.parametrize(
    ("name", "is_refused"),
    [
        *((name, False) for name in ("ordinary.md", "🌱.md", LATIN_1, "~", "a" * 255)),
        *((name, True) for name in ("a\nb", "a" * 256, "é" * 128, "\x1b[2J", "\udc41", "\u0085")),
    ],
)
def test_a_name_in_a_folder_that_cannot_be_sent_safely_is_refused(name, is_refused):
    assert (name_refusal(name) is not None) is is_refused


def test_a_path_knows_its_name_and_its_folder_and_checks_what_is_joined():
    path = VaultPath.parse("Projects/a/AGENTS.md")
    assert (path.name, path.folder, path.folder.folder) == ("AGENTS.md", "Projects/a", "Projects")
    assert path.folder.folder.folder == ""
    assert isinstance(path.folder, VaultPath)
    assert VaultPath("Projects") / "a.md" == "Projects/a.md"
    assert VaultPath("") / "a.md" == "a.md"
    with pytest.raises(PathRefusedError):
        VaultPath("Projects") / ".."


def test_what_cannot_be_shown_is_escaped():
    assert printable(LATIN_1) == r"caf\xe9.md"
    assert printable("a\x1b[2J\n\x9b.md") == r"a\x1b[2J\x0a\x9b.md"
    assert printable("🌱/שלום.md") == "🌱/שלום.md"


@given(st.binary(min_size=1, max_size=300))
def test_every_accepted_path_stays_inside_and_means_the_same_bytes(data):
    text = os.fsdecode(data)
    if refusal(text) is None:
        assert os.fsencode(VaultPath.parse(text)) == data
        assert os.path.normpath(f"/vault/{text}") == f"/vault/{text}"
        printable(text).encode()
