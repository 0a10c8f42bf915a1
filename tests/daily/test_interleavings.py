"""An editor, the API and an agent on one day: no entry is lost, each is announced once."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.daily.journal_of import created, daily, write

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
