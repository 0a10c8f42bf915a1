"""When something runs by itself, as authors and people write it."""

from __future__ import annotations

import pytest

from parachuted.modules.scheduling import Timing, check_timing, parse_timing


@pytest.mark.parametrize(
    ("said", "timing", "words"),
    [
        ({"every": "15m"}, Timing(every_s=900), "every 900 s"),
        ({"at": "03:00"}, Timing(at="03:00"), "each day at 03:00"),
        (
            {"at": "03:00", "timezone": "Europe/Berlin"},
            Timing(at="03:00", timezone="Europe/Berlin"),
            "each day at 03:00 in Europe/Berlin",
        ),
        ({"cron": " 0  3 * * MON-FRI "}, Timing(cron="0 3 * * MON-FRI"), "cron 0 3 * * MON-FRI"),
    ],
)
def test_each_form_has_its_words(said, timing, words):
    assert (parse_timing(**said), timing.words()) == (timing, words)


@pytest.mark.parametrize(
    ("said", "problem"),
    [
        ({}, "say one of"),
        ({"every": "1m", "cron": "* * * * *"}, "say one of"),
        ({"every": "15m", "timezone": "UTC"}, "has no timezone"),
        ({"every": "0m"}, "not a duration"),
        ({"at": "25:00"}, "not a time"),
        ({"at": "03:00", "timezone": "Berlin"}, "not a time zone"),
        ({"at": "03:00", "timezone": "../../etc/passwd"}, "not a time zone"),
        ({"at": "03:00", "timezone": "Europe"}, "not a time zone"),
        ({"at": "03:00", "timezone": ""}, "not a time zone"),
        ({"cron": "* * * *"}, "five fields"),
        ({"cron": "* * * * * *"}, "five fields"),  # each second
        ({"cron": "@daily"}, "five fields"),
        ({"cron": "61 * * * *"}, "not an expression"),
        ({"cron": "0 0 30 2 *"}, "not an expression"),  # there is no such day
        ({"cron": "x x x x x"}, "not an expression"),
        ({"cron": "0 " * 60}, "at most"),
        ({"cron": "٣ 3 * * *"}, "not an expression"),
    ],
)
def test_what_cannot_be_is_refused_with_what_is_wrong(said, problem):
    with pytest.raises(ValueError, match=problem):
        parse_timing(**said)


@pytest.mark.parametrize(
    "timing", [Timing(every_s=0), Timing(every_s=-1), Timing(every_s=10**12), Timing()]
)
def test_what_comes_from_a_process_is_checked_as_well(timing):
    with pytest.raises(ValueError, match=r"say one|not between"):
        check_timing(timing)
