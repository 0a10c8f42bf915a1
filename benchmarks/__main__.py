"""`python -m benchmarks [NAME ...] [--json FILE]`: measure, print the table, write JSON."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from benchmarks.measures import MEASURES, scratch
from benchmarks.report import Figure, show, write


def main() -> int:
    """Run the measures named, or all."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument(
        "names", nargs="*", metavar="NAME", help=f"one of {', '.join(MEASURES)} (default: all)"
    )
    parser.add_argument(
        "--json",
        type=Path,
        default=Path("benchmarks.json"),
        metavar="FILE",
        help="where to write the figures as JSON",
    )
    options = parser.parse_args()
    figures: list[Figure] = []
    for name in options.names or MEASURES:
        with scratch() as folder:
            found = list(MEASURES[name](Path(folder)))
        show(found)
        figures += found
    write(figures, options.json)
    print(f"written to {options.json}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
