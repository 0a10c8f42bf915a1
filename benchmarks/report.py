"""Report: figures with their bounds, as a table and as JSON."""

from __future__ import annotations

import json
import platform
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """One figure: `value` in `unit`, compared with `reference` in the same unit (None: with the
    bound itself). `bound`: at most.
    """

    name: str
    value: float
    unit: str
    bound: float | None
    reference: float | None = None
    note: str = ""

    @property
    def compared(self) -> float:
        """What is held against the bound: the ratio, or the value where there is no reference."""
        return self.value / self.reference if self.reference else self.value

    @property
    def verdict(self) -> str:
        """Whether the bound is met."""
        return "" if self.bound is None else "met" if self.compared <= self.bound else "MISSED"


def show(figures: Iterable[Figure]) -> None:
    """Print the table."""
    print(f"{'figure':<64}{'measured':>14}{'reference':>14}{'compared':>10}{'at most':>9}  verdict")
    for figure in figures:
        reference = f"{figure.reference:.3f} {figure.unit}" if figure.reference else ""
        compared = f"{figure.compared:.2f}x" if figure.reference else ""
        bound = "" if figure.bound is None else f"{figure.bound:g}{'x' if figure.reference else ''}"
        measured = f"{figure.value:.3f} {figure.unit}"
        print(
            f"{figure.name:<64}{measured:>14}{reference:>14}{compared:>10}{bound:>9}  "
            f"{figure.verdict} {figure.note}".rstrip()
        )


def write(figures: Iterable[Figure], path: Path) -> None:
    """Write the same as JSON."""
    rows = [
        {**asdict(figure), "compared": figure.compared, "verdict": figure.verdict}
        for figure in figures
    ]
    machine = {
        "machine": platform.machine(),
        "system": platform.platform(),
        "python": platform.python_version(),
    }
    path.write_text(
        json.dumps({"at": datetime.now(UTC).isoformat(), **machine, "figures": rows}, indent=2),
        "utf-8",
    )
