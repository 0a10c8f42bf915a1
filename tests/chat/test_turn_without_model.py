"""An answer from the notes, where there is no model."""

from __future__ import annotations

from pathlib import Path

from tests.chat.scripted_runs import ask, only, scripted_chat


async def test_a_note_is_quoted_by_the_words_that_match_without_its_markup(vault: Path):
    (vault / "Garden.md").write_text(
        "# Garden\n\nA **fence** of [[Larch|larch]].\n\n- The *beans* go out in May.\n"
    )
    async with scripted_chat(vault, has_model=False) as (module, _):
        events = await ask(module, "When should the beans go out?")
        said = only(events, "text")["content"]

    (line,) = [one for one in said.splitlines() if one.startswith("- ")]
    assert "The beans go out in May." in line
    assert line.endswith(" ([[Garden]])")
    assert "#" not in line
    assert "*" not in line
    assert not line.startswith("- Garden")
