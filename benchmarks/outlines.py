"""Outlines: what finding the headings of a note costs, against the bare markdown parser on the same
text.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pyromark

from benchmarks.report import Figure
from benchmarks.vaults import make_vault
from parachuted.vault.headings import read_outline

_NOTES = 1_000
_ROUNDS = 5
_STEPS = """
## Steps

1. Run:

   ```sh
   make all
   ```

2. Then:

	```
	x
	```

<details>
<b>more</b>
</details>

End
---
"""


def outlines(folder: Path) -> Iterator[Figure]:
    """Notes as people write them, then each with a part that only the parser can read."""
    vault = make_vault(folder / "outlines", _NOTES)
    plain = [file.read_bytes() for file in sorted(vault.rglob("*.md"))]
    plain = [text[text.index(b"# Note") :] for text in plain]
    mixed = [text + _STEPS.encode() for text in plain]
    for name, notes, bound in (("plain", plain, 1), ("with fences in lists and HTML", mixed, 2)):
        yield Figure(
            name=f"headings of a note, {name}",
            value=_microseconds(_outline, notes),
            unit="us",
            reference=_microseconds(_parse, notes),
            bound=bound,
        )


def _outline(note: bytes) -> None:
    read_outline(note, 0)


def _parse(note: bytes) -> None:
    deque(pyromark.events_with_range(note.decode()), maxlen=0)


def _microseconds(read: Callable[[bytes], None], notes: Sequence[bytes]) -> float:
    """The best of some rounds, for each note."""
    return min(_round(read, notes) for _ in range(_ROUNDS)) / len(notes) * 1e6


def _round(read: Callable[[bytes], None], notes: Sequence[bytes]) -> float:
    began = time.process_time()
    for note in notes:
        read(note)
    return time.process_time() - began
