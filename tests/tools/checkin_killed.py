"""A process that checks in an agent's work, to be killed at any moment: `python -m
tests.tools.checkin_killed FOLDER ROUND`.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from tests.tools.checkout_rig import CheckoutRig

NOTES = 12


def text(number: int, turn: int) -> str:
    """What a note says at one turn: long enough that half of it could be told."""
    return f"# Note {number}\n\n" + f"turn {turn}\n" * 2_000


async def main(folder: Path, turn: int) -> None:
    rig = CheckoutRig(folder=folder)
    rig.recover()
    rig.look()
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    while True:
        turn += 1
        await rig.open()
        for number in range(NOTES):
            rig.shell(f"Projects/{number}.md", text(number, turn))
        for one, other in (
            ("Projects/here.md", "Projects/there.md"),
            ("Projects/there.md", "Projects/here.md"),
        ):
            if (rig.work / one).exists():
                (rig.work / one).rename(rig.work / other)
                break
        await rig.check_in()


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), int(sys.argv[2])))
