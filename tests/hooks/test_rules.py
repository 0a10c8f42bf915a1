"""Rules: what an `if` means, before anything is started."""

from __future__ import annotations

import time
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path

import pytest

from parachuted.hooks import HookEvent
from parachuted.hooks.rules import compile_rule

AT = datetime(2025, 1, 6, tzinfo=UTC)


def holds(
    rule: str,
    event: str,
    data: Mapping[str, object],
    *,
    vault: Path = Path("/vault"),
    cwd: Path | None = None,
) -> bool:
    return compile_rule(rule, event)(HookEvent(event=event, at=AT, data=data, vault=vault, cwd=cwd))


def call(name: str, **arguments: object) -> dict[str, object]:
    return {"tool_name": name, "tool_input": arguments}


@pytest.mark.parametrize(
    ("rule", "command", "expected"),
    [
        ("Bash", "anything", True),
        ("Bash(*)", "anything", True),
        ("Bash()", "anything", True),
        ("Bash(git *)", "git push", True),
        ("Bash(git *)", "git", True),
        ("Bash(git *)", "gitk", False),
        ("Bash(git*)", "gitk", True),
        ("Bash(git:*)", "git push --force", True),
        ("Bash(git:*)", "gitk", False),
        ("Bash(npm run test)", "npm run test", True),
        ("Bash(npm run test)", "npm run test:all", False),
        ("Bash(* install)", "npm install", True),
        ("Bash(git * main)", "git push origin main", True),
        ("Bash(rm *)", "echo rm x", False),
        ("Bash(git *)", "cd src && git push", True),
        ("Bash(git *)", "ls; git push", True),
        ("Bash(git *)", "ls|git push", True),
        ("Bash(git *)", "false || git push &", True),
        ("Bash(git *)", "ls\ngit push", True),
        ("Bash(git *)", "A=1 B='x y' git push", True),
        ("Bash(git *)", "echo 'cd x && git push'", False),
        ("Bash(git *)", "ls # no git push", False),
        ("Bash(git *)", "echo $(git push)", True),
        ("Bash(git *)", "sh -c `cat x`", True),
        ("Bash(git *)", f"echo {'x' * 20_000}", True),
        ("Bash(git *)", "echo 'open", True),  # cannot be taken apart: the guard is asked
    ],
)
def test_a_rule_about_commands_looks_at_each_command_of_the_line(
    rule: str,
    command: str,
    expected: bool,  # noqa: FBT001  a table
):
    assert holds(rule, "tool.before", call("Bash", command=command)) is expected


@pytest.mark.parametrize(
    ("rule", "path", "expected"),
    [
        ("Edit(src/**)", "/vault/src/a/b.py", True),
        ("Edit(src/**)", "src/a.py", True),
        (
            "Edit(src/**)",
            "/vault/lib/src/a.py",
            False,
        ),  # a single segment is that folder under the cwd alone
        ("Edit(**/src/**)", "/vault/lib/src/a.py", True),
        ("Edit(*.ts)", "/vault/deep/down/a.ts", True),
        ("Edit(.env)", "/vault/deep/.env", True),
        ("Edit(./src/*)", "/vault/src/a.py", True),
        ("Edit(src/)", "/vault/lib/src/a.py", True),
        ("Edit(/src/**)", "/vault/src/a.py", True),
        ("Edit(//etc/**)", "/etc/passwd", True),
        ("Edit(//etc/**)", "/vault/etc/passwd", False),
        ("Edit(src/**)", "/vault/src/../lib/a.py", False),
        ("Edit(src/**)", "/vault/lib/../src/a.py", True),
        ("Edit(**)", "/elsewhere/a.py", False),
    ],
)
def test_a_rule_about_files_is_a_place_under_the_folder_of_work(
    rule: str,
    path: str,
    expected: bool,  # noqa: FBT001  a table
):
    assert holds(rule, "tool.before", call("Edit", file_path=path)) is expected


def test_a_rule_about_files_may_begin_at_home(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("HOME", "/home/me")

    assert holds("Read(~/.ssh/**)", "tool.before", call("Read", file_path="/home/me/.ssh/id"))
    assert not holds("Read(~/.ssh/**)", "tool.before", call("Read", file_path="/vault/.ssh/id"))


def test_a_rule_about_files_begins_where_the_work_is_done_and_with_a_slash_at_the_vault(
    tmp_path: Path,
):
    data = call("Edit", file_path="src/a.py")

    assert holds("Edit(src/**)", "tool.before", data, vault=Path("/vault"), cwd=tmp_path)
    assert not holds("Edit(/src/**)", "tool.before", data, vault=Path("/vault"), cwd=tmp_path)


@pytest.mark.parametrize(
    ("rule", "tool", "expected"),
    [("Edit", "Edit", True), ("Edit", "Write", False), ("Read", "Grep", False)],
)
def test_a_rule_means_the_tool_of_that_name_alone(rule: str, tool: str, expected: bool):  # noqa: FBT001  a table
    assert holds(f"{rule}(src/**)", "tool.before", call(tool, file_path="src/a")) is expected


def test_a_rule_about_another_tool_does_not_hold():
    assert not holds("Bash(git *)", "tool.before", call("Edit", command="git push"))
    assert not holds("Edit", "tool.before", call("Bash", command="x"))
    assert not holds("Edit", "tool.before", {})
    assert not holds("Edit(a)", "tool.before", {"tool_name": "Edit", "tool_input": "odd"})
    assert not holds("Bash(git *)", "tool.before", call("Bash", command=5))


def test_a_rule_may_name_a_tool_of_ours_an_mcp_tool_or_all_of_a_server():
    data = call("update_context", file_path="Projects/a/AGENTS.md", section="History")

    assert holds("update_context(Projects/**)", "tool.after", data)
    assert not holds("update_context(Daily/**)", "tool.after", data)
    assert holds("mcp__brain__search", "tool.before", call("mcp__brain__search"))
    assert holds("mcp__brain", "tool.before", call("mcp__brain__search"))
    assert not holds("mcp__bra", "tool.before", call("mcp__brain__search"))
    assert holds("Agent(Explore)", "tool.before", call("Agent", subagent_type="Explore"))


def test_a_rule_may_name_the_host_of_a_page():
    page = call("WebFetch", url="https://docs.example.com/a")

    assert holds("WebFetch(domain:docs.example.com)", "tool.before", page)
    assert holds("WebFetch(domain:*.example.com)", "tool.before", page)
    assert not holds("WebFetch(domain:example.com)", "tool.before", page)
    assert not holds(
        "WebFetch(domain:example.com)", "tool.before", call("WebFetch", url="http://[broken")
    )


@pytest.mark.parametrize(
    ("rule", "path", "frontmatter", "expected"),
    [
        ("Note", "a.md", {}, True),
        ("Note()", "a.md", {}, True),
        ("Note(Daily/**)", "Daily/a.md", {}, True),
        ("Note(Daily/)", "Daily/a.md", {}, True),
        ("Note(Daily/**)", "Work/a.md", {}, False),
        ("Note(Daily/** status=draft)", "Daily/a.md", {"status": "draft"}, True),
        ("Note(Daily/** status=draft)", "Daily/a.md", {"status": "done"}, False),
        ("Note(Daily/** status=draft)", "Daily/a.md", {}, False),
        ("Note(Daily/** status=draft)", "Work/a.md", {"status": "draft"}, False),
        ("Note(status=draft)", "Work/a.md", {"status": "draft"}, True),
        (
            "Note(Daily Notes/** status=draft type=entry)",
            "Daily Notes/a.md",
            {"status": "draft", "type": "entry"},
            True,
        ),
        (
            "Note(Daily Notes/** status=draft type=entry)",
            "Daily Notes/a.md",
            {"status": "draft"},
            False,
        ),
        ("Note(** tags=work)", "a.md", {"tags": ["home", "work"]}, True),
        ('Note(** title="my day")', "a.md", {"title": "my day"}, True),
        ("Note(** title=my*)", "a.md", {"title": "my day"}, True),
        ("Note(** done=true)", "a.md", {"done": True}, True),
        ("Note(** done=)", "a.md", {"done": None}, True),
        ("Note(** count=3)", "a.md", {"count": 3}, True),
    ],
)
def test_a_rule_about_notes_is_a_place_in_the_vault_and_what_the_frontmatter_says(
    rule: str,
    path: str,
    frontmatter: dict[str, object],
    expected: bool,  # noqa: FBT001  a table
):
    assert holds(rule, "file.modified", {"path": path, "frontmatter": frontmatter}) is expected


def test_unknown_frontmatter_lets_a_guard_be_asked_and_leaves_a_listener_alone():
    assert holds("Note(** status=draft)", "write.before", {"path": "a.md"})
    assert not holds("Note(** status=draft)", "file.modified", {"path": "a.md"})
    assert not holds("Note(Daily/** status=draft)", "write.before", {"path": "a.md"})


def test_a_rule_about_notes_holds_for_the_tools_that_touch_them():
    assert holds("Note(Daily/**)", "tool.before", call("Edit", file_path="/vault/Daily/a.md"))
    assert not holds(
        "Note(Daily/**)", "tool.before", call("Edit", file_path="/elsewhere/Daily/a.md")
    )
    assert not holds("Note", "tool.before", call("Bash", command="x"))
    assert not holds("Note", "session.start", {})


@pytest.mark.parametrize(
    "rule", ["Bash(git *", "(x)", "", "a b", "1x", "Edit(../**)", "Note(../**)"]
)
def test_what_is_not_a_rule_is_reported(rule: str):
    with pytest.raises(ValueError, match=r"not a rule|not a pattern|no pattern"):
        compile_rule(rule, "tool.before")


def test_a_rule_about_a_tool_on_an_event_that_is_about_none_is_reported():
    with pytest.raises(ValueError, match=r"session\.start is not"):
        compile_rule("Bash(git *)", "session.start")


def test_a_rule_with_several_stars_takes_no_longer_than_a_long_text_is_long():
    begun = time.thread_time()
    for text in ("TODO " * 20_000, "x" * 100_000, "TODO" + " DON" * 20_000):
        assert not holds(
            "update_context(*TODO*DONE*DONE)", "tool.before", call("update_context", content=text)
        )
    assert time.thread_time() - begun < 5
    assert holds(
        "update_context(*TODO*DONE*)",
        "tool.before",
        call("update_context", content="a TODO, not DONE yet"),
    )
    assert holds(
        "update_context(*TODO*DONE)",
        "tool.before",
        call("update_context", content="TODO DONE DONE"),
    )
    assert holds("update_context(a*b *)", "tool.before", call("update_context", content="a bc b c"))
