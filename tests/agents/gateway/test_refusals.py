"""What a refusal of the model's server means."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from parachuted.agents.gateway.retry import has_no_content, is_passing, problem_of, read_refusal


def error(kind: str, message: str = "no") -> bytes:
    return json.dumps({"type": "error", "error": {"type": kind, "message": message}}).encode()


@pytest.mark.parametrize(
    ("kind", "status"),
    [("overloaded_error", 529), ("rate_limit_error", 429), ("one_of_tomorrow", 500)],
)
def test_an_error_event_in_place_of_an_answer_has_the_status_that_it_would_have_had(kind, status):
    event = b"event: error\ndata: " + error(kind) + b"\n\n"
    assert read_refusal(200, event) == (status, error(kind))


@pytest.mark.parametrize("end", [b"\n", b"\r\n"])
def test_an_error_after_a_beginning_without_content_has_that_status_too(end):
    beginning = (
        b'event: message_start\ndata: {"a": "\xc3\xa4"}\n\nevent: ping\ndata: {}\n\n'.replace(
            b"\n", end
        )
    )
    failed = (b"event: error\ndata: " + error("overloaded_error") + b"\n\n").replace(b"\n", end)
    started = b"event: content_block_delta\ndata: {}\n\n".replace(b"\n", end)
    assert read_refusal(200, beginning + failed) == (529, error("overloaded_error"))
    assert read_refusal(200, beginning + started + failed) == (200, beginning + started + failed)
    whole = beginning + failed
    assert all(has_no_content(whole[:cut]) for cut in range(len(whole) - len(end)))
    assert not has_no_content(whole)
    assert not has_no_content(beginning + started)


def test_no_credit_is_distinguished_from_a_bad_request():
    poor = error(
        "invalid_request_error", "Your credit balance is too low to access the Anthropic API."
    )
    assert read_refusal(400, poor) == (402, poor)
    assert read_refusal(400, error("invalid_request_error", "max_tokens: too large"))[0] == 400


@pytest.mark.parametrize(
    ("status", "subject", "says"),
    [
        (401, "model", "h refused the login (401: no)"),
        (403, "model", "h refused the login (403: no)"),
        (402, "model", "has no credit left (402: no)"),
        (404, "model:m", "h does not know the model m (404: no)"),
        (429, "model", "limits how often the model is asked (429: no)"),
    ],
)
def test_a_person_learns_what_is_to_be_put_right(status, subject, says):
    found = problem_of(status, error("any"), host="h", model="m")
    assert found is not None
    assert (found[0], says in found[1], is_passing(status)) == (subject, True, True)


@pytest.mark.parametrize("status", [400, 413, 422])
def test_a_request_s_own_fault_is_not_a_problem_of_anybody_s_and_does_not_pass(status):
    assert problem_of(status, error("any"), host="h", model="m") is None
    assert not is_passing(status)


@given(st.integers(200, 599), st.binary(max_size=200), st.booleans())
def test_whatever_a_server_sends_is_read(status, body, is_event):
    found, rest = read_refusal(status, b"event: error\ndata: " + body if is_event else body)
    problem_of(found, rest, host="h", model="m")
