"""Elapsed time never runs faster than real time, whatever the wall clock does and however often the
daemon is started again.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path

from hypothesis import example, given
from hypothesis import strategies as st

from parachuted.state.elapsed_clock import ClockReading, ElapsedClock, ElapsedMark, advance

T0 = 1_790_000_000.0
HOUR, DAY = 3600.0, 86_400.0


@dataclass
class FakeClocks:
    """A machine whose real time a test knows.

    `wall_error` is how far its wall clock is ahead of it.
    """

    real: float = T0
    wall_error: float = 0.0
    booted: float = T0 - 100
    boots: int = 0
    kept: ElapsedMark | None = None
    mark: ElapsedMark | None = None
    readings: list[tuple[float, float]] = field(default_factory=list)

    def read(self) -> float:
        self.mark = advance(
            self.mark,
            ClockReading(
                boot=str(self.boots),
                uptime=self.real - self.booted,
                wall=self.real + self.wall_error,
            ),
        )
        self.readings.append((self.real, self.mark.elapsed))
        return self.mark.elapsed

    def restart(self, off: float, *, is_kept: bool) -> None:
        """The daemon ends, orderly or killed, and starts again so much later."""
        if is_kept:
            self.read()
            self.kept = self.mark
        self.real += off
        self.mark = self.kept

    def reboot(self, off: float) -> None:
        """The machine is off for so long; its clock is right, or behind, when it starts, and as far
        as it was ahead at most.
        """
        self.restart(off, is_kept=True)
        self.boots += 1
        self.booted = self.real
        self.wall_error = min(self.wall_error, 0.0)
        self.read()
        self.kept = self.mark  # a daemon keeps its first reading before it does anything else


SPANS = st.floats(0, 40 * HOUR)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("pass"), SPANS),
        st.tuples(
            st.just("jump"),
            st.one_of(st.floats(-400 * DAY, 400 * DAY), st.sampled_from([25 * HOUR, -25 * HOUR])),
        ),
        st.tuples(st.just("restart"), SPANS),
        st.tuples(st.just("kill"), SPANS),
        st.tuples(st.just("reboot"), SPANS),
    ),
    max_size=40,
)


@given(STEPS)
@example([("pass", 60.0), ("jump", 25 * HOUR), ("pass", 1.0), ("jump", -25 * HOUR), ("pass", 60.0)])
@example([("jump", 25 * HOUR), ("reboot", 60.0), ("jump", -25 * HOUR), ("kill", 5.0)])
def test_between_any_two_readings_no_more_time_elapses_than_really_passed(steps):
    machine = FakeClocks()
    machine.read()
    machine.kept = machine.mark
    for what, amount in steps:
        if what == "pass":
            machine.real += amount
        elif what == "jump":
            machine.wall_error += amount
        elif what == "reboot":
            if (
                machine.wall_error < 0
                # a clock that was only ever seen behind is believed once it is put right while the
                # machine is off
            ):
                machine.wall_error = 0.0
                machine.read()
            machine.reboot(amount)
        else:
            machine.restart(amount, is_kept=what == "restart")
        machine.read()
    for index, (real, elapsed) in enumerate(machine.readings):
        for earlier_real, earlier in machine.readings[:index]:
            assert elapsed - earlier <= real - earlier_real + 1e-3


@given(st.lists(SPANS, max_size=20))
def test_a_clock_that_is_never_changed_is_followed_exactly(spans):
    machine = FakeClocks()
    for number, span in enumerate(spans):
        machine.reboot(span) if number % 3 == 0 else machine.restart(span, is_kept=number % 3 == 1)
        assert abs(machine.read() - machine.real) < 1e-3 * (number + 1)
        machine.kept = machine.mark


def test_the_furthest_time_shown_is_remembered_when_the_clock_is_set_back():
    mark = advance(None, ClockReading(boot="a", uptime=0, wall=T0))
    mark = advance(mark, ClockReading(boot="a", uptime=10, wall=T0 + DAY))
    mark = advance(mark, ClockReading(boot="a", uptime=20, wall=T0 + 20))
    assert (mark.elapsed, mark.latest) == (T0 + 20, T0 + DAY + 10)


def test_a_clock_years_ahead_after_a_reboot_is_believed_for_two_days():
    mark = advance(
        advance(None, ClockReading(boot="a", uptime=0, wall=T0)),
        ClockReading(boot="b", uptime=5, wall=T0 + 4000 * DAY),
    )
    assert mark.elapsed == T0 + 2 * DAY


def test_it_goes_on_after_a_restart_from_what_was_kept(tmp_path: Path):
    reading = [ClockReading(boot="a", uptime=50.0, wall=T0)]
    clock = ElapsedClock(tmp_path / "state" / "clock.json", lambda: reading[0])
    assert clock.now() == T0
    assert clock.is_due
    clock.keep()
    assert not clock.is_due

    reading[0] = replace(reading[0], uptime=60.0, wall=T0 + 25 * HOUR)
    assert clock.is_due
    again = ElapsedClock(tmp_path / "state" / "clock.json", lambda: reading[0])
    assert again.moment() == datetime.fromtimestamp(T0 + 10, UTC)
    assert (tmp_path / "state" / "clock.json").stat().st_mode & 0o077 == 0


def test_an_unreadable_file_starts_it_at_the_wall_clock_s_time(tmp_path: Path):
    path = tmp_path / "clock.json"
    for data in (
        b"",
        b"{",
        b"[]",
        b'{"boot": "a"}',
        b'{"boot": "a", "uptime": "x", "elapsed": 1, "latest": 1}',
        os.urandom(200),
    ):
        path.write_bytes(data)
        assert ElapsedClock(path, lambda: ClockReading(boot="a", uptime=1, wall=T0)).now() == T0


def test_this_machine_s_clocks_move(tmp_path: Path):
    clock = ElapsedClock(tmp_path / "clock.json")
    first = clock.now()
    assert clock.now() >= first
    assert abs(first - datetime.now(UTC).timestamp()) < 5
