"""Identity: names for runs and causes that sort by time and never collide."""

from __future__ import annotations

import secrets
from datetime import datetime


def new_id(prefix: str, at: datetime) -> str:
    """`prefix`, the moment to the millisecond, and eight random digits:
    `r-20261121-231502-417-9f3a61c8`.
    """
    day, _, time = at.isoformat(timespec="milliseconds").partition(
        "T"
    )  # four times as fast as strftime
    return f"{prefix}-{day.replace('-', '')}-{time[:8].replace(':', '')}-{time[9:12]}-{secrets.token_hex(4)}"  # noqa: E501
