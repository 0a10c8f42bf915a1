"""The file format: any text is read and printed to the byte, and no text can pretend to be a
message.
"""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.module_files import chat_file

messages = chat_file("messages")

_PIECES = st.sampled_from(
    [
        "---\n",
        "title: x\n",
        '<!-- message {"id": "a", "role": "user"} -->\n',
        "### User\n",
        "\r\n",
        '<!-- message {"id": "b", "role": "assistant", "at": "2026-11-23T10:00:00Z"} -->\r\n',
        "<!-- message {broken} -->\n",
        '<!-- message {"id": 1, "role": "user"} -->\n',
        "\n",
        "\ufeff",
        "### User | 2026-02-24 10:30\n",
        "### para:chat:abc123 Assistant | 10:30\n",
        "```\n",
        "\x00",
        '\\<!-- message {"id": "c", "role": "user"} -->\n',
        "<!-- message",
        "words ",
        "ü\u2028\x85",
    ]
)
_TEXTS = st.lists(_PIECES | st.text(max_size=20), max_size=12).map("".join)


@given(_TEXTS)
@settings(max_examples=150, deadline=None)
def test_any_file_is_printed_as_it_was_read(text: str):
    found = messages.read_conversation(text)
    assert found.head + "".join(part.raw for part in found.parts) == text


@given(_TEXTS, st.lists(_TEXTS, max_size=4))
@settings(max_examples=150, deadline=None)
def test_what_is_appended_is_read_again_and_pretends_nothing(before: str, said: list[str]):
    new = [
        messages.Message(id=f"new{n}", role="user", content=text, meta={"n": n})
        for n, text in enumerate(said)
    ]
    already = messages.read_conversation(before)

    text = messages.append_messages(before, new)
    found = messages.read_conversation(text)

    assert text.startswith(before)
    assert [message.id for message in found.messages] == [
        message.id for message in (*already.messages, *new)
    ]
    for one, content in zip(found.messages[len(already.messages) :], said, strict=True):
        assert one.content == content.replace("\r\n", "\n").replace("\r", "\n").strip("\n")


def test_a_message_keeps_what_was_called_for_it():
    tool = messages.ToolUse(id="t1", name="Read", input={"path": "a --> b", "text": "x" * 5_000})
    message = messages.Message(
        id="m1", role="assistant", content="Done.", at="2026-11-23T10:00:00Z", tools=(tool,)
    )

    text = messages.compose_message(message)
    (found,) = messages.read_conversation(text).messages

    assert text.count("-->") == 1
    assert found.tools[0].name == "Read"
    assert found.tools[0].input["path"] == "a --> b"
    assert len(found.tools[0].input["text"]) < 2_100
    assert found.at == "2026-11-23T10:00:00Z"


@pytest.mark.parametrize(
    ("mark", "problem"),
    [
        ("<!-- message {oops} -->", "not as it was written"),
        ('<!-- message {"id": "a", "role": "king"} -->', "a message is of user"),
        ('<!-- message {"role": "user"} -->', "needs an id"),
        ('<!-- message {"id": "a", "role": "user", "at": 3} -->', "is a time"),
    ],
)
def test_a_broken_comment_is_reported_and_its_text_has_no_author(mark: str, problem: str):
    whole = '<!-- message {"id": "m", "role": "user"} -->\n### User\n\nHello\n\n'

    found = messages.read_conversation(f"{whole}{mark}\n\nWhose is this?\n")

    assert [message.content for message in found.messages] == ["Hello"]
    assert problem in found.problems[0]


def test_a_message_that_stands_twice_counts_once():
    whole = '<!-- message {"id": "m", "role": "user"} -->\n\nHello\n'

    found = messages.read_conversation(whole + whole)

    assert len(found.messages) == 1
    assert "is there twice" in found.problems[0]


def test_messages_of_earlier_servers_are_read():
    text = (
        "# A chat\n\n### para:chat:abc123def456 User | 2026-02-24 10:30\n\nHi\n\n"
        "### Assistant | 2026-02-24 10:31\n\nHello\n"
    )

    found = messages.read_conversation(text).messages

    assert [(one.role, one.content) for one in found] == [("user", "Hi"), ("assistant", "Hello")]
    assert found[0].id == "abc123def456"
    assert found[1].at == "2026-02-24 10:31"
