"""Conflict copies: the files in which a sync program keeps the other text of a conflict."""

from __future__ import annotations

import re

_COPY = re.compile(
    r"""
    \.sync-conflict-\d{8}-\d{6}                                     # Syncthing
  | \((?:[^()]*[ ])?(?:conflicted[ ]copy|case[ ]conflict)\b[^()]*\) # Dropbox, Nextcloud, Obsidian Sync, parachuted
  | [ ]\(SFConflict[ ][^()]*\)                                      # Seafile
  | _conflict-\d{8}-\d{6}                                           # ownCloud
  | _[A-Za-z]{3}-\d{2}-\d{4,6}-\d{4}_[A-Za-z]*Conflict              # Synology Drive
    """,  # noqa: E501
    re.VERBOSE | re.IGNORECASE,
)


def is_conflict_copy(path: str) -> bool:
    name = path.rpartition("/")[2]
    return "onflict" in name.lower() and _COPY.search(name) is not None
