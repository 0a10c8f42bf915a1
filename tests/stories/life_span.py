"""Life span: what a daemon is to live through, as it is told to the program crashing.py."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass


@dataclass(frozen=True, kw_only=True)
class LifeSpan:
    """One daemon's life, until all is settled or step number `dies_at` is taken.

    `began`: when the first of its lives began (monotonic). `does`, one of `ACTS`, is asked of it
    once it answers; from then on steps count.
    """

    vault: str
    home: str
    began: float
    dies_at: int = 0
    does: str = ""

    def line(self) -> bytes:
        """The question to that program."""
        return json.dumps(asdict(self)).encode() + b"\n"
