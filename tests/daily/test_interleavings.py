"""An editor, the API and an agent on one day: no entry is lost, each is announced once."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.daily.journal_of import DAY, created, daily, write

EDITOR = st.sampled_from(["", "adds", "changes"])
ROUNDS = st.lists(
    st.tuples(st.lists(st.sampled_from(["api", "agent", "change"]), max_size=4), EDITOR),
    min_size=1,
    max_size=4,
)


@given(ROUNDS)
@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow], max_examples=12)
def test_no_entry_is_lost_with_any_writer(rounds: list[tuple[list[str], str]]):
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(play(Path(folder), rounds))


async def play(vault: Path, rounds: Sequence[tuple[Sequence[str], str]]) -> None:
    now = datetime.now().astimezone()
    path = f"Daily/journals/{now.date().isoformat()}.md"
    (vault / "Daily/journals").mkdir(parents=True)
    expected: dict[str, str] = {}  # words by the id, or for what was typed by themselves
    async with daily(vault) as module:

        async def act(what: str, words: str, changed: str | None) -> None:
            if what == "api":
                expected[await write(module, words, now.isoformat())] = words
            elif what == "agent":
                expected[str(await module.tool("daily-create", content=words))] = words
            elif changed is not None:
                body = {"content": words}
                await module.request("PATCH", f"/entries/{changed}", body=body)
                expected[changed] = words

        for number, (acts, editor) in enumerate(rounds):
            ids = [one for one in expected if one.startswith("para:")]
            changes = iter(ids)  # each at most once in a round
            async with asyncio.TaskGroup() as group:
                for place, what in enumerate(acts):
                    changed = next(changes, None) if what == "change" else None
                    group.create_task(act(what, f"words {number}.{place}", changed))
            file = vault / path
            text = file.read_text() if file.exists() else ""
            if editor == "adds":  # and says nothing: the next writer meets it
                file.write_text(f"{text}\n# Typed {number}\n\ntyped {number}\n")
                expected[f"typed {number}"] = f"typed {number}"
            elif editor == "changes":
                file.write_text(text.replace("words", "other words"))
                expected = {
                    one: words.replace("words", "other words") for one, words in expected.items()
                }
        await module.event("file.modified", path=path)
        await module.event("file.modified", path=path)
        page = await module.request("GET", "/entries", query={"limit": "100"})

        assert sorted(row["snippet"] for row in page["entries"]) == sorted(expected.values())
        assert len(created(module)) == len(expected)


async def test_what_an_editor_adds_between_two_entries_is_announced(journal, tmp_path: Path):
    await write(journal, "First")
    with (tmp_path / DAY).open("a") as file:
        file.write("\n# Typed\n\nBy hand.\n")
    await write(journal, "Second")
    await journal.event("file.modified", path=DAY)
    (tmp_path / DAY).write_text((tmp_path / DAY).read_text().replace("First", "Changed"))
    await write(journal, "Third")
    await journal.event("file.modified", path=DAY)

    assert created(journal) == ["First", "By hand.", "Second", "Third"]
    updated = [data for name, data in journal.published if name == "daily.entry.updated"]
    assert [data["content"] for data in updated] == ["Changed"]


@pytest.mark.parametrize(
    "front", ["", "---\nprivate: true\n---\n", "---\r\ndate: 2026-02-24\r\n---\r\n"]
)
async def test_days_that_are_not_ours_get_their_entries_as_they_are(tmp_path: Path, front: str):
    (tmp_path / DAY).parent.mkdir(parents=True)
    (tmp_path / DAY).write_bytes(front.encode())
    async with daily(tmp_path) as module:
        ids = [await write(module, f"Thought {number}\n\nmore") for number in range(3)]
        await module.event("file.modified", path=DAY)
        expected = "" if "private" in front else "Thought {}\n\nmore"
        said = [str(one).replace("\r", "") for one in created(module)]
        assert said == [expected.format(number) for number in range(3)]
        for entry_id in ids:
            assert (await module.request("GET", f"/entries/{entry_id}"))["id"] == entry_id
