"""Daily writes what an entry mentions into its file, asking Brain while there is one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from parachuted.testing import ModuleHarness
from tests.daily.journal_of import DAY, KIM, LVB, FakeBrain, created, daily, write


def with_brain(vault: Path, brain: FakeBrain, **config: Any) -> Any:
    return daily(vault, interfaces={"BrainInterface": brain}, config=config)


async def links(module: ModuleHarness) -> list[object]:
    page = await module.request("GET", "/entries")
    return [row["brain_links"] for row in page["entries"]]


async def test_what_brain_is_sure_of_is_linked_and_the_rest_suggested_once(tmp_path: Path):
    async with with_brain(tmp_path, FakeBrain()) as module:
        await write(module, "Met Kim at the course with Lee.")
        text = (tmp_path / DAY).read_text()

        assert f"mentions:\n  - {KIM}\n---\n" in text
        assert await links(module) == [[KIM]]
        ((action, path, payload),) = module.suggested
        assert (action, path) == ("update", DAY)
        assert payload == {"key": "mentions", "value": [KIM, LVB]}

        await module.event("file.modified", path=DAY)
        (tmp_path / DAY).write_text(text.replace("with Lee", "again"))
        await module.event("file.modified", path=DAY)
        assert len(module.suggested) == 1, "what was suggested is not suggested again"


async def test_an_entrys_mentions_ask_brain_once_and_go_with_it(tmp_path: Path):
    brain = FakeBrain()
    async with with_brain(tmp_path, brain) as module:
        entry_id = await write(module, "Met Kim.")
        for _ in range(3):
            await module.event("file.modified", path=DAY)
        assert brain.asked == [(DAY, entry_id)], "its own write asks no more"
        assert created(module) == ["Met Kim."]

        await write(module, "Nothing.")
        await module.request("DELETE", f"/entries/{entry_id}")
        assert "mentions" not in (tmp_path / DAY).read_text()
        assert await links(module) == [[]]


async def test_mentions_follow_the_text_and_keep_what_a_person_put_there(tmp_path: Path):
    (tmp_path / "Daily/journals").mkdir(parents=True)
    async with with_brain(tmp_path, FakeBrain()) as module:
        file = tmp_path / DAY
        file.write_text("---\nmentions: [para:brain:zzzzzzzzzzzz] # mine\n---\n# Walk\n\nKim.\n")
        await module.event("file.created", path=DAY)
        assert KIM in file.read_text()
        assert "zzzzzzzzzzzz" in file.read_text()

        file.write_text(file.read_text().replace("Kim.", "Alone."))
        await module.event("file.modified", path=DAY)
        assert KIM not in file.read_text()
        assert "zzzzzzzzzzzz" in file.read_text()


async def test_an_entry_of_its_own_file_has_its_own_mentions(tmp_path: Path):
    async with with_brain(tmp_path, FakeBrain(), layout="entries") as module:
        await write(module, "Met Kim.")

        (file,) = (tmp_path / "Daily/entries").iterdir()
        assert f"\nmentions:\n  - {KIM}\n---\n\nMet Kim.\n" in file.read_text()
        assert await links(module) == [[KIM]]


async def test_without_brain_or_with_one_that_fails_the_entry_is_kept(tmp_path: Path):
    brain = FakeBrain()
    brain.is_ill = True
    async with with_brain(tmp_path, brain) as module:
        await write(module, "Met Kim.")
    async with daily(tmp_path) as module:
        await write(module, "Met Kim again.")

        assert "mentions" not in (tmp_path / DAY).read_text()
        assert (await module.request("GET", "/entries"))["count"] == 2
        assert module.problem is None


async def test_a_link_stays_while_a_remaining_entry_names_it(
    tmp_path: Path,
):
    (tmp_path / "Daily/journals").mkdir(parents=True)
    file = tmp_path / DAY
    file.write_text("# Before Brain\n\nMet Kim.\n")
    async with daily(tmp_path):
        pass  # what is there at the first start is not new
    async with with_brain(tmp_path, FakeBrain()) as module:
        second = await write(module, "Kim again.")
        await module.request("DELETE", f"/entries/{second}")

        assert f"mentions:\n  - {KIM}\n" in file.read_text()


async def test_while_brain_does_not_answer_mentions_stay_and_new_ones_wait(tmp_path: Path):
    brain, file = FakeBrain(), tmp_path / DAY
    brain.is_ill = True
    async with with_brain(tmp_path, brain) as module:
        await write(module, "Met Kim.")
        brain.is_ill = False
        await module.tick("link_waiting")
        await module.tick("link_waiting")
        assert KIM in file.read_text()
        assert len(brain.asked) == 1

        second = await write(module, "Kim again.")
        brain.is_ill = True
        await module.request("PATCH", f"/entries/{second}", body={"content": "Alone."})
        await module.event("file.modified", path=DAY)
        assert KIM in file.read_text()
        await module.request("DELETE", f"/entries/{second}")
        assert KIM in file.read_text()
        brain.is_ill = False
        await module.event("file.modified", path=DAY)
        assert KIM in file.read_text()
