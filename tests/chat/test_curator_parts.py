"""The curator's parts alone: when it runs, what it is shown, and titles without a model."""

from __future__ import annotations

import time

import pytest

from tests.module_files import chat_file

curator, plain_words, session = chat_file("curator"), chat_file("plain_words"), chat_file("session")
routes, messages = chat_file("session_tools"), chat_file("messages")


def test_it_runs_after_exchanges_1_3_5_and_then_every_tenth():
    assert [index for index in range(-1, 41) if curator.is_due(index)] == [1, 3, 5, 10, 20, 30, 40]


def talk(**fields: object) -> object:
    at = "2026-11-23T10:00:00Z"
    made = {"id": "s", "para_id": "p", "path": "x.md", "created_at": at, "updated_at": at}
    return session.Session(**made, **fields)


def test_it_is_shown_the_beginning_of_an_exchange_and_the_names_of_tools():
    exchange = curator.Exchange(
        number=3, question="q" * 5_000, answer="a" * 5_000, tools=("read_note", "Bash")
    )
    text = curator.prompt_of(talk(title="Beans", title_source="ai"), exchange)

    assert text.count("q") == 999
    assert text.count("aaaa") == 499
    assert '"Beans"' in text
    assert "Exchange 3" in text
    assert "read_note, Bash" in text


def test_it_hears_of_a_title_that_is_the_persons():
    text = curator.prompt_of(
        talk(title="Mine", title_source="user"),
        curator.Exchange(number=1, question="a", answer="b"),
    )

    assert '"Mine" (set by the person: do not call update_title)' in text


@pytest.mark.parametrize(
    ("message", "title"),
    [
        ("Hi! Can you please tell me when the beans go out?", "When the beans go out?"),
        ("# Plan\n\nMore", "Plan"),
        ("```\ncode\n```\nWhat does this do?", "What does this do?"),
        ("About [[Projects/garden|the garden]] and **beans**. More.", "About the garden and beans"),
        ("please", "Please"),
        ("wo\u0308rter " * 30, None),
        ("...", None),
        ("豆はいつ植えますか。そして水は。", "豆はいつ植えますか。"),
    ],
)
def test_a_title_without_a_model_is_the_first_sentence(message: str, title: str | None):
    found = plain_words.title_from(message)

    if title is None and any(map(str.isalpha, message)):
        assert len(found) <= 60
        assert found.endswith(" …")
    else:
        assert found == title


@pytest.mark.parametrize("repeated", ["[", "[[", "![", "[a](", "[[a|", "<!--", "*"])
def test_a_title_of_a_text_of_many_openings_takes_no_time_to_speak_of(repeated: str):
    began = time.process_time()
    plain_words.summary_from([repeated * 50_000], repeated * 50_000)
    assert time.process_time() - began < 20  # else minutes, in which nothing else is answered


def test_a_summary_without_a_model_quotes_the_first_and_the_last_question():
    text = plain_words.summary_from(["When do beans go out?", "And peas?"], "In May. Or later.")

    assert text == "“When do beans go out?” to “And peas?”: In May. Or later."
    assert plain_words.summary_from([], "In May") is None


def message(role: str, content: str) -> object:
    return messages.Message(id=content, role=role, content=content)


def test_the_last_exchange_is_the_last_question_that_has_an_answer():
    said = [message("user", "a"), message("assistant", "b"), message("user", "c")]
    found = routes.last_exchange(said)

    assert (found.number, found.question, found.answer) == (1, "a", "b")
    assert routes.last_exchange(said[:1]) is None
