"""A turn of a conversation on the screen: words as they come, tools, questions, and its end."""

from __future__ import annotations

import pytest

from parachuted.cli import chat as terminal_chat
from parachuted.cli import main
from parachuted.cli.chat import ChatScreen

PERMISSION = {
    "question": "May the agent use Read? path: Diary/a.md",
    "header": "Permission",
    "options": [
        {"label": "Allow", "description": "This once"},
        {"label": "Deny", "description": ""},
    ],
    "multiSelect": False,
}


def screen_with(*lines: str | None) -> ChatScreen:
    said = list(lines)
    return ChatScreen(lambda _prompt: said.pop(0) if said else None)


def text(content: str) -> dict[str, object]:
    return {"type": "text", "content": content}


def test_words_appear_once_as_they_come_and_tools_between_them(capsys):
    screen = screen_with()
    events = [
        {"type": "session", "sessionId": "s1"},
        text("I look"),
        text("I look it up."),
        {"type": "tool_use", "tool": {"id": "1", "name": "read_note", "input": {"path": "a.md"}}},
        {"type": "tool_result", "toolUseId": "1", "content": "# A", "isError": False},
        text("Blue."),
        {"type": "done", "sessionId": "s1", "response": "Blue."},
    ]

    assert [screen.show(event) for event in events] == [False] * 6 + [True]
    assert capsys.readouterr().out == "I look it up.\n  - read_note path=a.md\nBlue.\n"
    assert (screen.session, screen.has_failed) == ("s1", False)


@pytest.mark.parametrize(
    ("before", "event", "says", "has_failed"),
    [
        ("Half", {"type": "error", "error": "it broke"}, "Half\nit broke\n", True),
        ("Half", {"type": "typed_error", "message": "log in"}, "Half\nlog in\n", True),
        ("Half", {"type": "aborted", "message": "Stopped."}, "Half\nStopped.\n", False),
        ("", {"type": "done", "response": "There is\nno model."}, "There is\nno model.\n", False),
    ],
)
def test_each_end_is_said(capsys, before, event, says, has_failed):
    screen = screen_with()
    screen.show(text(before))
    assert screen.show(event)
    assert capsys.readouterr().out == says
    assert screen.has_failed is has_failed


def test_what_a_model_says_cannot_drive_the_terminal(capsys):
    screen = screen_with()
    screen.show(text("a\x1b[2Jb"))
    screen.show({"type": "tool_use", "tool": {"name": "x\x1b]0;y", "input": {"z": "\x9b"}}})
    assert not {"\x1b", "\x9b"} & set(capsys.readouterr().out)


@pytest.mark.parametrize(
    ("line", "answer"), [("1", "Allow"), ("2", "Deny"), ("Allow", "Allow"), ("7", "7")]
)
def test_an_option_is_chosen_by_its_number_or_its_words(line, answer):
    assert screen_with(line).answers_to([PERMISSION]) == {PERMISSION["question"]: answer}


def test_several_options_and_free_words_and_nobody_there(capsys):
    many = {**PERMISSION, "question": "Which?", "multiSelect": True}
    free = {"question": "Why?", "options": []}
    answers = screen_with("1, 2", "so that, yes").answers_to([many, free])
    assert answers == {"Which?": ["Allow", "Deny"], "Why?": "so that, yes"}
    assert screen_with(None).answers_to([PERMISSION]) is None
    assert "May the agent use Read?" in capsys.readouterr().out


def test_the_first_line_says_how_to_end_and_where_it_is_saved(monkeypatch, capsys):
    monkeypatch.setattr(terminal_chat, "ask", lambda *_asked: {"sessions": []})
    monkeypatch.setattr("sys.stdin.isatty", lambda: True)
    monkeypatch.setattr(terminal_chat, "_read_line", lambda _prompt: None)
    assert main(["chat"]) == 0
    assert capsys.readouterr().out.startswith("Ctrl-D ends; the conversation is kept in Chat/")
