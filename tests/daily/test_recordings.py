"""Recordings: from the audio to the words, without losing the audio or what a person wrote."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from parachuted.errors import EditRefusedError, ModuleFailedError
from parachuted.testing import ModuleHarness
from tests.daily.journal_of import DAY, NOON, daily, hears

AUDIO = "assets/2026-02-24/120000_audio.wav"


@pytest.fixture
def vault(tmp_path: Path) -> Path:
    """A vault with one recording, of which no entry says anything yet."""
    path = tmp_path / "vault" / "Daily" / AUDIO
    path.parent.mkdir(parents=True)
    path.write_bytes(b"RIFF")
    return tmp_path / "vault"


async def voice_entry(module: ModuleHarness, content: str = "") -> str:
    metadata = {"type": "voice", "audio": AUDIO, "duration": 1}
    body = {"content": content, "created_at": NOON, "metadata": metadata}
    answer = await module.request("POST", "/entries", body=body)
    assert isinstance(answer, dict)
    return str(answer["id"])


async def test_a_recording_waits_for_an_engine_and_gets_its_words(vault: Path, tmp_path: Path):
    async with daily(vault) as module:
        entry_id = await voice_entry(module)
        waiting = (vault / DAY).read_text()

        assert "    status: pending\n" in waiting
        with pytest.raises(EditRefusedError, match="No speech engine is set"):
            await module.request("POST", f"/entries/{entry_id}/transcribe")
        assert (vault / DAY).read_text() == waiting

    async with daily(vault, config=hears(tmp_path, "Met Kim at the harbor.")) as module:
        await module.request("POST", f"/entries/{entry_id}/transcribe")

    assert (vault / DAY).read_text() == waiting.replace("pending", "complete").replace(
        "*(Transcribing...)*", "Met Kim at the harbor."
    )


async def test_while_it_is_transcribed_an_entry_says_so_and_keeps_its_own_words(
    vault: Path, tmp_path: Path
):
    seen = tmp_path / "seen.md"
    command = ["sh", "-c", f"cp {vault / DAY} {seen}; echo the words", "sh"]
    async with daily(vault, config={"transcription": {"command": command}}) as module:
        entry_id = await voice_entry(module, content="My own note.")
        entry = await module.request("POST", f"/entries/{entry_id}/transcribe")

        assert entry["content"] == "My own note.\n\nthe words"
    assert "    status: transcribing\n" in seen.read_text()
    assert "    status: complete\n" in (vault / DAY).read_text()


async def test_a_failure_can_be_tried_again_and_words_survive_another_try(
    vault: Path, tmp_path: Path
):
    async with daily(vault, config=hears(tmp_path, None)) as module:
        entry_id = await voice_entry(module)
        again = "POST", f"/entries/{entry_id}/transcribe"
        with pytest.raises(EditRefusedError, match="sh ended with 1"):
            await module.request(*again)

        assert "    status: failed\n" in (vault / DAY).read_text()
        assert "*(Transcribing...)*" in (vault / DAY).read_text()
        assert (vault / "Daily" / AUDIO).is_file()

        hears(tmp_path, "met keven at the harbor today")
        assert (await module.request(*again))["content"] == "met keven at the harbor today"
        assert "    status: complete\n" in (vault / DAY).read_text()

        path = vault / DAY
        path.write_text(path.read_text().replace("keven", "Kevin"))
        hears(tmp_path, "met kevan at the harbour today")
        both = "met Kevin at the harbor today\n\nmet kevan at the harbour today"
        for _ in range(2):  # the same words are added once
            assert (await module.request(*again))["content"] == both


@pytest.mark.parametrize("layout", ["journals", "entries"])
async def test_a_new_recording_is_transcribed_by_itself(vault: Path, tmp_path: Path, layout: str):
    config = {**hears(tmp_path, "Met Kim."), "layout": layout}
    async with daily(vault, config=config) as module:
        await voice_entry(module)
        (path,) = (vault / "Daily" / layout).glob("*.md")
        async with asyncio.timeout(30):
            while "Met Kim." not in path.read_text():
                await module.event("file.modified", path=path.relative_to(vault).as_posix())
        assert "status: complete\n" in path.read_text()


async def test_a_recording_that_is_not_there_is_said(vault: Path, tmp_path: Path):
    async with daily(vault, config=hears(tmp_path, "words")) as module:
        entry_id = await voice_entry(module)
        (vault / "Daily" / AUDIO).unlink()

        with pytest.raises(EditRefusedError):
            await module.request("POST", f"/entries/{entry_id}/transcribe")
        assert "    status: failed\n" in (vault / DAY).read_text()


async def test_an_engine_that_is_not_an_engine_is_refused_with_what_it_should_be(vault: Path):
    with pytest.raises(ModuleFailedError) as failed:
        async with daily(vault, config={"transcription": {"command": "whisper"}}):
            pass

    assert "transcription.command: Input should be a valid list" in str(failed.value)


async def test_a_narrow_key_has_no_recording_transcribed_that_it_may_not_read(
    vault: Path, tmp_path: Path
):
    async with daily(vault, config=hears(tmp_path, "Nobody else knows.")) as module:
        narrow = module.with_key("k-1", paths=["Daily/journals/**"])
        await voice_entry(narrow)
        await module.tick("transcribe_waiting")
        assert "Nobody else knows." not in (vault / DAY).read_text()


async def test_a_key_does_not_end_the_wait_of_recordings_that_it_cannot_see(
    vault: Path, tmp_path: Path
):
    other = vault / "Daily/assets/2026-02-25/120000_audio.wav"
    other.parent.mkdir(parents=True)
    other.write_bytes(b"RIFF")
    async with daily(vault, config=hears(tmp_path, "Met Kim.")) as module:
        paths = ["Daily/journals/2026-02-25.md", "Daily/assets/2026-02-25/*"]
        narrow = module.with_key("k-1", paths=paths)
        await module.state.put("waiting", {"para:daily:other0000000": AUDIO})
        metadata = {"type": "voice", "audio": "assets/2026-02-25/120000_audio.wav", "duration": 1}
        body = {"content": "", "created_at": "2026-02-25T12:00:00+00:00", "metadata": metadata}
        await narrow.request("POST", "/entries", body=body)
        day = vault / "Daily/journals/2026-02-25.md"
        async with asyncio.timeout(30):
            while "status: complete" not in day.read_text():
                await asyncio.sleep(0.01)
        assert "para:daily:other0000000" in await module.state.get("waiting")
