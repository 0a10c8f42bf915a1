"""A process that checks in an agent's work, to be killed at any moment: `python -m
tests.tools.checkin_killed FOLDER ROUND`.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from tests.tools.desk import Desk

NOTES = 12


def text(number: int, turn: int) -> str:
    """What a note says at one turn: long enough that half of it could be told."""
    return f"# Note {number}\n\n" + f"turn {turn}\n" * 2_000


async def main(folder: Path, turn: int) -> None:
    """All notes are written, and two names change, in one check-in after another."""
    desk = Desk(folder=folder)
    desk.recover()
    desk.look()
    await desk.open()
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    while True:
        turn += 1
        for number in range(NOTES):
            desk.shell(f"Projects/{number}.md", text(number, turn))
        for one, other in (
            ("Projects/here.md", "Projects/there.md"),
            ("Projects/there.md", "Projects/here.md"),
        ):
            if (desk.work / one).exists():
                (desk.work / one).rename(desk.work / other)
                break
        await desk.check_in()


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), int(sys.argv[2])))
