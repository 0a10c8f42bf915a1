"""Answers on the pipe: each kind arrives as what it was, and nothing else does."""

from __future__ import annotations

import pytest

from parachuted.errors import ModuleFailedError
from parachuted.modules.hosting.answer_codec import answer_of, has_bytes, result_of
from parachuted.modules.results import BytesResponse, FileResponse, Response


@pytest.mark.parametrize(
    "result",
    [
        None,
        {"value": 1},
        {"file": {"path": "a"}},
        Response(status=201, body=[1], headers={"X-It": "y"}),
        FileResponse(path="Assets/a.wav", filename="b.wav"),
    ],
)
def test_each_answer_arrives(result):
    answer = answer_of(result)

    assert result_of(answer) == result
    assert not has_bytes(answer)


def test_bytes_are_sent_beside_what_is_said_of_them():
    sent = BytesResponse(data=b"abc", content_type="image/png", filename="a.png")
    answer = answer_of(sent)

    assert has_bytes(answer)
    assert b"abc" not in repr(answer).encode()
    assert result_of(answer, b"abc") == sent


@pytest.mark.parametrize(
    "answer",
    [
        None,
        [],
        {},
        "value",
        {"value": 1, "more": 2},
        {"other": 1},
        {"response": {"status": "200", "body": None, "headers": {}}},
        {"response": {"status": 99, "body": None, "headers": {}}},
        {"response": {"status": 200, "body": None, "headers": {"X-A": "b\r\nX-Evil: 1"}}},
        {"response": {"status": 200, "body": None, "headers": {"Content-Type": "text/html"}}},
        {"file": {"path": 1, "filename": None}},
        {"file": {"path": "a", "filename": None, "more": 1}},
        {"bytes": {"content_type": "text/html\r\nX-Evil: 1", "filename": None}},
    ],
)
def test_what_is_not_an_answer_is_refused(answer):
    with pytest.raises(ModuleFailedError):
        result_of(answer)
