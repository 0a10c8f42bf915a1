"""When something runs by itself: every so often, at a time of day, or as cron has it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from zoneinfo import ZoneInfo

from parachuted.heavy import load_heavy_here

CLOCK = re.compile(r"([01]\d|2[0-3]):[0-5]\d")
LONGEST_SPAN_S = 999_999 * 86_400  # of `999999d`
_SPAN = re.compile(r"([1-9]\d{0,5})([smhd])")
_SECONDS = {"s": 1, "m": 60, "h": 3_600, "d": 86_400}
_LONGEST = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """Every so many seconds, each day at a local time, or as five fields of cron say.

    `timezone` is a name such as Europe/Berlin; None: the machine's.
    """

    every_s: int | None = None
    at: str | None = None
    cron: str | None = None
    timezone: str | None = None

    def words(self) -> str:
        """For people."""
        if self.every_s is not None:
            return f"every {self.every_s:,} s"
        when = f"each day at {self.at}" if self.at is not None else f"cron {self.cron}"
        return f"{when} in {self.timezone}" if self.timezone is not None else when


def parse_timing(
    *,
    every: str | None = None,
    at: str | None = None,
    cron: str | None = None,
    timezone: str | None = None,
) -> Timing:
    """The timing that these words mean. Raises ValueError, with what is wrong."""
    return check_timing(
        Timing(
            every_s=None if every is None else parse_span(every),
            at=at,
            cron=None if cron is None else " ".join(cron[: _LONGEST + 1].split()),
            timezone=timezone,
        )
    )


def check_timing(timing: Timing) -> Timing:
    """The same timing. Raises ValueError for one that there cannot be."""
    if [timing.every_s, timing.at, timing.cron].count(None) != 2:  # noqa: PLR2004  one of three is there
        raise ValueError('say one of every="15m", at="03:00" and cron="0 3 * * *"')
    if timing.every_s is not None:
        if timing.timezone is not None:
            raise ValueError("every= counts time that passes, so it has no timezone")
        if not 1 <= timing.every_s <= LONGEST_SPAN_S:
            raise ValueError(f"every {timing.every_s} s is not between 1 second and 999,999 days")
    if timing.at is not None and not CLOCK.fullmatch(timing.at):
        raise ValueError(f"at={timing.at!r} is not a time such as '03:00'")
    if timing.timezone is not None:
        zone_of(timing.timezone)
    if timing.cron is not None:
        if len(timing.cron) > _LONGEST:
            raise ValueError(f"cron has at most {_LONGEST} characters")
        load_heavy_here("schedules").check_cron(timing.cron)
    return timing


def zone_of(name: str) -> ZoneInfo:
    """Raises ValueError where this machine knows no time zone of that name."""
    try:
        return ZoneInfo(name)
    except (LookupError, ValueError, OSError) as error:
        raise ValueError(f"{name[:80]!r} is not a time zone such as 'Europe/Berlin'") from error


def parse_span(text: str) -> int:
    """Seconds of `15m`; raises ValueError."""
    found = _SPAN.fullmatch(text)
    if not found:
        raise ValueError(f"{text!r} is not a duration such as '30s', '15m', '2h' or '1d'")
    return int(found[1]) * _SECONDS[found[2]]
