from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from parachuted.api.http.answers import json_answer, json_bytes, json_value
from parachuted.modules.results import Finding

JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4)
    ),
    max_leaves=12,
)


@given(JSON)
def test_what_is_answered_says_the_same_when_it_is_read(document):
    assert json.loads(json_answer(document).body) == document
    assert json_value(json_bytes(document)) == document


def test_an_answer_is_json_in_utf8_with_the_status_and_headers_asked_for():
    answer = json_answer(
        {"at": datetime(2026, 2, 24, 12, tzinfo=UTC)}, status=409, headers={"ETag": '"x"'}
    )

    assert (answer.status, answer.headers["ETag"], answer.content_type, answer.charset) == (
        409,
        '"x"',
        "application/json",
        "utf-8",
    )
    assert json.loads(answer.body) == {"at": "2026-02-24T12:00:00+00:00"}


def test_a_text_that_is_not_utf8_is_escaped_and_the_rest_is_answered():
    """A model may name a note so, and what it called is shown to all who look at the run."""
    problem = Finding(problem="\ud800", path="a.md")
    document = {
        "said": [("a\ud800b", {"\udcff": 1}, problem)],
        "at": datetime(2026, 2, 24, tzinfo=UTC),
    }

    assert json.loads(json_bytes(document)) == {
        "said": [
            [
                "a\\ud800b",
                {"\\udcff": 1},
                {"problem": "\\ud800", "advice": "", "path": "a.md", "line": None},
            ]
        ],
        "at": "2026-02-24T00:00:00+00:00",
    }


@pytest.mark.parametrize(
    "data", [b"", b"{", b"NaN", b"-Infinity", b"{}{}", b"\xff", b"[" * 200_000, b"1" * 5000]
)
def test_what_is_not_json_or_too_deep_is_said_to_be_wrong(data):
    with pytest.raises(ValueError, match=r".+"):
        json_value(data)


def test_names_that_are_no_utf8_come_through():
    assert json_value(b'{"path": "b\\udcff.md"}') == {"path": "b\udcff.md"}
