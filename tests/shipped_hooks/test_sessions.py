"""A session's begin, its end, and the moment its context is full."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

from tests.shipped_hooks.conftest import ShippedHooks, write
from tests.stories.daemon_rig import Live


def transcript(folder: Path) -> Path:
    """What an agent keeps of a session."""
    entries = [
        {"type": "user", "message": {"content": "Plan the garden"}},
        {
            "type": "assistant",
            "message": {
                "content": [
                    {"type": "text", "text": "Beans, I think."},
                    {"type": "tool_use", "name": "x"},
                ]
            },
        },
        {
            "type": "user",
            "message": {"content": [{"type": "tool_result", "content": "no words of a person"}]},
        },
        {"type": "user", "message": {"content": [{"type": "text", "text": "And\npeas?"}]}},
    ]
    file = folder / "transcript.jsonl"
    file.write_text("".join(f"{json.dumps(entry)}\n" for entry in entries) + "{broken\n")
    return file


async def test_a_new_session_is_given_the_context_files_above_it(
    shipped: ShippedHooks,
):
    shipped.put("on-session-start.py")
    write(shipped.vault, "AGENTS.md", "# Me\n")
    write(shipped.vault, "Projects/garden/AGENTS.md", "# Garden\n")
    write(shipped.vault, "Projects/garden/CLAUDE.md", "# Not this one\n")
    write(shipped.vault, "Projects/house/AGENTS.md", "# House\n")
    decision = await shipped.happens(
        "session.start", session_id="s1", working_directory=str(shipped.vault / "Projects/garden")
    )
    shipped.ran()

    assert decision.context == ("## AGENTS.md\n\n# Me\n\n## Projects/garden/AGENTS.md\n\n# Garden",)


async def test_context_files_are_given_without_their_bom_and_line_ends(
    shipped: ShippedHooks,
):
    shipped.put("on-session-start.py")
    write(shipped.vault, "AGENTS.md", "\ufeff---\r\nwatch:\r\n  - ../\r\n---\r\n# All\r\n")
    decision = await shipped.happens(
        "session.start", session_id="s1", working_directory=str(shipped.vault)
    )
    shipped.ran()

    assert decision.context == ("## AGENTS.md\n\n---\nwatch:\n  - ../\n---\n# All",)


async def test_a_session_elsewhere_or_in_an_empty_vault_is_given_nothing(
    shipped: ShippedHooks, tmp_path: Path
):
    shipped.put("on-session-start.py")
    write(tmp_path, "AGENTS.md", "# Not the vault's\n")

    assert (await shipped.happens("session.start", working_directory=str(tmp_path))).context == ()
    assert (await shipped.happens("session.start")).context == ()
    shipped.ran()


async def test_a_link_out_of_the_vault_is_not_read(shipped: ShippedHooks, tmp_path: Path):
    shipped.put("on-session-start.py")
    (tmp_path / "secret").write_text("secret")
    (shipped.vault / "AGENTS.md").symlink_to(tmp_path / "secret")

    assert (await shipped.happens("session.start")).context == ()


async def test_the_end_of_a_session_leaves_a_line_that_the_next_one_is_shown(
    shipped: ShippedHooks, tmp_path: Path
):
    for name in ("on-session-end.py", "on-session-start.py"):
        shipped.put(name)
    await shipped.happens(
        "session.end",
        transcript=transcript(tmp_path),
        session_id="s1",
        message_count=3,
        duration=130,
    )
    shipped.ran()
    (day,) = (shipped.vault / ".parachute/activity").iterdir()
    line = json.loads(day.read_text())
    decision = await shipped.happens("session.start")

    assert (line["session_id"], line["session_title"], line["exchange_number"]) == (
        "s1",
        "Plan the garden",
        3,
    )
    assert line["summary"] == "3 messages in 2 minutes. Last: And peas?"
    assert decision.context == (
        f"## Recent activity\n\n- {line['ts'][:16]} Plan the garden: {line['summary']}",
    )


async def test_a_session_in_which_nothing_was_said_leaves_no_line(shipped: ShippedHooks):
    shipped.put("on-session-end.py")
    await shipped.happens("session.end", session_id="s1", message_count=0, duration=1)
    shipped.ran()

    assert list(shipped.vault.iterdir()) == []


async def test_a_record_of_activity_that_leads_elsewhere_is_not_written(
    shipped: ShippedHooks, tmp_path: Path
):
    shipped.put("on-session-end.py")
    (tmp_path / "elsewhere").mkdir()
    (shipped.vault / ".parachute").symlink_to(tmp_path / "elsewhere")
    await shipped.happens("session.end", session_id="s1", message_count=4, duration=1)

    assert list((tmp_path / "elsewhere").iterdir()) == []


async def test_what_was_said_before_a_context_is_full_is_kept_in_a_note(
    shipped: ShippedHooks, live: Live, tmp_path: Path
):
    shipped.put("on-context-limit.py")
    async with live():
        for _ in range(2):
            await shipped.happens(
                "context.limit.approaching",
                transcript=transcript(tmp_path),
                session_id="s1",
                token_count=160_000,
                threshold=0.8,
            )
            shipped.ran()
    day = f"{datetime.now(UTC):%Y-%m-%d}"
    (note,) = (shipped.vault / "Chat/memory").iterdir()

    assert note.stem == day
    assert shipped.message() == f"what was said last is kept in Chat/memory/{day}.md"
    assert note.read_text().count("## Session s1") == 1
    assert (
        note.read_text().count(
            "- **user**: Plan the garden\n- **assistant**: Beans, I think.\n- **user**: And peas?"
        )
        == 2
    )


async def test_with_no_daemon_nothing_is_written_and_no_harm_done(
    shipped: ShippedHooks, tmp_path: Path
):
    shipped.put("on-context-limit.py")
    decision = await shipped.happens(
        "context.limit.approaching", transcript=transcript(tmp_path), token_count=1, threshold=0.8
    )

    assert "No such file" in shipped.ran().stderr
    assert (decision.allowed, shipped.message()) == (True, None)
    assert list(shipped.vault.iterdir()) == []
