"""Voice messages: the recording is kept, and what is said in it is asked."""

from __future__ import annotations

import base64
from pathlib import Path

from parachuted.home_files.bundled import bundled_folder
from parachuted.testing import running_module
from tests.chat.scripted_runs import ask, only, scripted_chat, words
from tests.daily.conftest import spoken_words
from tests.daily.journal_of import hears

__all__ = ["spoken_words"]


def voice(spoken_words: Path) -> list[dict[str, str]]:
    data = base64.b64encode(spoken_words.read_bytes()).decode()
    return [{"fileName": "voice.wav", "mimeType": "audio/wav", "base64Data": data}]


async def test_what_is_said_is_the_message_and_the_recording_stays(
    vault: Path, tmp_path: Path, spoken_words: Path
):
    settings = hears(tmp_path, "Where do the beans go?")
    async with (
        running_module(
            bundled_folder("modules") / "daily", vault=vault, config=settings
        ) as journal,
        scripted_chat(
            vault,
            words("In the sun."),
            interfaces={"JournalInterface": journal.interface("JournalInterface")},
        ) as (module, runs),
    ):
        events = await ask(module, "", attachments=voice(spoken_words))
        assert only(events, "done")["response"] == "In the sun."
        assert "Where do the beans go?" in runs.started[0].prompt
        assert runs.started[0].options["attachments"] == []
        [recording] = (vault / "Chat/artifacts").iterdir()
        assert recording.read_bytes() == base64.b64decode(voice(spoken_words)[0]["base64Data"])
        said = only(events, "user_message")["content"]
        assert "Where do the beans go?" in said
        assert f"![[Chat/artifacts/{recording.name}]]" in said


async def test_without_a_transcription_the_recording_stays_and_the_turn_says_why(
    vault: Path, spoken_words: Path
):
    async with scripted_chat(vault, words("Hm.")) as (module, runs):
        events = await ask(module, "Listen.", attachments=voice(spoken_words))
        warned = only(events, "warning")
        assert (warned["code"], "install Daily" in warned["message"]) == (
            "transcription_failed",
            True,
        )
        assert runs.started[0].prompt.endswith("Listen.")
        assert len(list((vault / "Chat/artifacts").iterdir())) == 1
