"""A turn of a conversation on the screen: words as they come, tools, questions, and its end."""

from __future__ import annotations

from argparse import Namespace

import pytest

from parachuted.cli import chat as terminal_chat
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


def test_an_answer_that_came_whole_is_shown_at_the_end(capsys):
    assert screen_with().show({"type": "done", "response": "There is\nno model."})
    assert capsys.readouterr().out == "There is\nno model.\n"


@pytest.mark.parametrize(
    ("event", "says", "has_failed"),
    [
        ({"type": "error", "error": "it broke"}, "it broke", True),
        ({"type": "typed_error", "message": "log in again"}, "log in again", True),
        ({"type": "aborted", "message": "Stopped."}, "Stopped.", False),
    ],
)
def test_each_end_is_said(capsys, event, says, has_failed):
    screen = screen_with()
    screen.show(text("Half"))
    assert screen.show(event)
    assert capsys.readouterr().out == f"Half\n{says}\n"
    assert screen.has_failed is has_failed


def test_what_a_model_says_cannot_drive_the_terminal(capsys):
    screen = screen_with()
    screen.show(text("a\x1b[2Jb"))
    screen.show({"type": "tool_use", "tool": {"name": "x\x1b]0;y", "input": {"z": "\x9b"}}})
    assert "\x1b" not in (shown := capsys.readouterr().out)
    assert "\x9b" not in shown


@pytest.mark.parametrize(
    ("line", "answer"), [("1", "Allow"), ("2", "Deny"), ("Allow", "Allow"), ("7", "7")]
)
def test_an_option_is_chosen_by_its_number_or_its_words(line, answer):
    assert screen_with(line).answers_to([PERMISSION]) == {PERMISSION["question"]: answer}


def test_several_options_and_free_words():
    many = {**PERMISSION, "question": "Which?", "multiSelect": True}
    free = {"question": "Why?", "options": []}
    assert screen_with("1, 2", "so that, yes").answers_to([many, free]) == {
        "Which?": ["Allow", "Deny"],
        "Why?": "so that, yes",
    }


def test_where_no_one_is_there_leave_is_denied_and_the_rest_stays_open(capsys):
    assert screen_with(None).answers_to([PERMISSION]) is None
    assert "May the agent use Read?" in capsys.readouterr().out


def test_the_first_line_says_how_to_end_and_where_it_is_kept(monkeypatch, capsys):
    monkeypatch.setattr(terminal_chat, "ask", lambda *_asked: {"sessions": []})
    monkeypatch.setattr("sys.stdin.isatty", lambda: True)
    monkeypatch.setattr(terminal_chat, "_read_line", lambda _prompt: None)
    asked = Namespace(
        message=[], session=None, agent=None, model=None, context=None, list=False, adopt=None
    )
    asked.__dict__["continue"] = False
    assert terminal_chat.chat.run is not None
    assert terminal_chat.chat.run(asked) == 0
    assert capsys.readouterr().out.startswith("Ctrl-D ends; the conversation is kept in Chat/")
