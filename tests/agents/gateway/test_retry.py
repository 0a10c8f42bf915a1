"""When a request is sent again."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from parachuted.agents.gateway.retry import wait_before_retry

NOW = datetime(2026, 11, 22, 12, 0, tzinfo=UTC)


def wait(status, headers=None, *, tries=1, waited=0.0, chance=0.0):
    return wait_before_retry(tries, waited, status, headers or {}, now=NOW, chance=chance)


@pytest.mark.parametrize("status", [408, 409, 429, 500, 502, 503, 504, 529])
def test_what_may_pass_is_tried_again(status):
    assert wait(status) == 0.5


def test_no_answer_at_all_is_tried_again_at_once_and_then_after_a_wait():
    assert [wait(None, tries=tries) for tries in (1, 2, 3, 4)] == [0.0, 1.0, 2.0, None]


@pytest.mark.parametrize("status", [200, 400, 401, 403, 404, 413, 422, 501])
def test_what_will_not_is_not(status):
    assert wait(status) is None


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"x-should-retry": "false"}, None),
        ({"retry-after": "3"}, 3.0),
        ({"retry-after": "0"}, 0.0),
        ({"retry-after-ms": "250", "retry-after": "3"}, 0.25),
        ({"retry-after": "Sun, 22 Nov 2026 12:00:07 GMT"}, 7.0),
        ({"retry-after": "Sun, 22 Nov 2026 11:00:00 GMT"}, 0.0),
        ({"retry-after": "60"}, None),
        ({"retry-after": "soon"}, 0.5),
        ({"retry-after": "-1"}, 0.5),
        ({"retry-after": "nan"}, 0.5),
        ({"retry-after-ms": "inf"}, 0.5),
    ],
)
def test_the_far_side_s_own_headers_go_first(headers, seconds):
    assert wait(429, headers) == seconds


def test_it_says_so_itself_where_a_status_would_not():
    assert wait(400, {"x-should-retry": "true"}) == 0.5


def test_waits_grow_are_spread_and_have_an_end():
    assert [wait(529, tries=tries) for tries in (1, 2, 3, 4)] == [0.5, 1.0, 2.0, None]
    assert 0.37 < wait(529, chance=0.99) < 0.38
    assert wait(429, {"retry-after": "8"}, tries=3, waited=16) is None
