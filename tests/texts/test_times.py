"""Every time that is answered is spelled in one way."""

from __future__ import annotations

from datetime import UTC, date, datetime, time, timedelta, timezone

from parachuted.texts.times import moment, moment_text, time_of, with_times


def test_a_moment_is_reported_in_utc():
    there = datetime(2026, 1, 2, 3, 4, 5, tzinfo=timezone(timedelta(hours=2)))

    assert time_of(there) == "2026-01-02T01:04:05Z"
    assert moment(datetime(2026, 1, 2, tzinfo=UTC).timestamp()) == "2026-01-02T00:00:00Z"
    assert [
        moment_text(one)
        for one in (there, datetime(2026, 1, 2), date(2026, 1, 2), time(3, 4))  # noqa: DTZ001  without a zone
    ] == [
        "2026-01-02T01:04:05Z",
        "2026-01-02T00:00:00",
        "2026-01-02",
        "03:04:00",
    ]
    assert moment(1e300) == moment(0) == "1970-01-01T00:00:00Z"


def test_the_times_of_a_stored_document_are_known_by_their_names():
    stored = {
        "started": "2026-01-02T03:04:05+00:00",
        "wrote": [{"at": "2026-01-02T03:04:05+00:00", "diff": "+00:00"}],
        "ended": None,
    }

    assert with_times(stored) == {
        "started": "2026-01-02T03:04:05Z",
        "wrote": [{"at": "2026-01-02T03:04:05Z", "diff": "+00:00"}],
        "ended": None,
    }


def test_a_moment_that_utc_has_not_is_the_nearest_that_it_has():
    for text in ("0001-01-01T00:00+14:00", "9999-12-31T23:59-12:00"):
        assert time_of(datetime.fromisoformat(text))[:10] == text[:10]
