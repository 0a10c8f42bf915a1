"""Which notes are read in which form, and each text that is read is a base."""

from __future__ import annotations

import logging

import aiohttp
import pytest

from parachuted.api.routes import notes
from parachuted.vault import VaultPath, digest_of
from tests.api.calls import call, expect
from tests.stories.daemon_rig import DaemonRig, save

NOTE = "/api/notes/a.md"


@pytest.fixture(autouse=True)
def _no_file_is_young(monkeypatch):
    monkeypatch.setattr(notes, "_YOUNG_NS", 0)


async def read(daemon_rig: DaemonRig) -> str:
    async with (
        aiohttp.ClientSession() as session,
        session.get(f"{daemon_rig.url}{NOTE}?as=raw") as answer,
    ):
        return await answer.text()


async def test_a_note_that_is_too_large_is_served_raw_alone(
    vault, monkeypatch, daemon_rig: DaemonRig
):
    monkeypatch.setattr(notes, "_MOST_PARSED", 5)
    save(vault / "a.md", "# one\n")
    assert await read(daemon_rig) == "# one\n"
    for shape in ("json", "map"):
        await expect(daemon_rig, 422, "GET", f"{NOTE}?as={shape}")


async def test_a_link_to_what_is_not_a_note_is_nothing(vault, daemon_rig: DaemonRig):
    (vault / "a.md").symlink_to("b.txt")
    save(vault / "b.txt", "# one\n")
    await expect(daemon_rig, 404, "GET", NOTE)


async def test_a_text_that_was_read_is_a_base(vault, monkeypatch, caplog, daemon_rig: DaemonRig):
    save(vault / "a.md", "# one\n")
    store = daemon_rig.daemon.vault.store
    await call(daemon_rig, "GET", NOTE)
    assert store.bases.text(VaultPath("a.md"), digest_of(b"# one\n")) == b"# one\n"

    def refuse(_texts: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(store.bases, "see", refuse)
    save(vault / "a.md", "# two\n")
    caplog.set_level(logging.WARNING)
    assert await read(daemon_rig) == "# two\n"
    assert "could not be kept" in caplog.text
