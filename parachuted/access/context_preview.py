"""What context folders come to in a prompt: the text, and each file's part in it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextPart:
    """One context file.

    `level` is `root`, `parent`, `watched` or `direct`; `tokens` an estimate; `reason` says why it
    is in the text or is not. `modified` is when it last changed, None where there is no file.
    `is_strange`: its text counts as a stranger's.
    """

    path: str
    level: str
    tokens: int
    included: bool
    reason: str
    modified: datetime | None = None
    is_strange: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextPreview:
    """`text` as a prompt has it, the nearest last. `tokens` is its estimate, `is_truncated` says
    that the budget left something out; `parts` lists what was left out, too.
    """

    text: str
    tokens: int
    is_truncated: bool
    parts: tuple[ContextPart, ...]
