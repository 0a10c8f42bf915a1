"""Reach: a note may not come to watch more than its writer may read.
tests/api/http/test_watching.py has it by every way of writing.
"""

from __future__ import annotations

import pytest

from parachuted.bubbling import watched_beyond
from parachuted.keys import EVERYWHERE, AccessGrant, PathGlob
from parachuted.vault import VaultPath

OPEN = AccessGrant(alternatives=(((PathGlob("Open/**"),),),))
SPY = VaultPath("Open/spy.md")


def watching(*patterns: str) -> bytes:
    return (
        "---\nwatch:\n" + "".join(f'  - "{pattern}"\n' for pattern in patterns) + "---\n# Note\n"
    ).encode()


@pytest.mark.parametrize(
    "pattern",
    ["Hidden/*.md", "**", "../*", "Ope?/**", "tag:x", "folder:Open tag:x", "status:open @status"],
)
def test_a_pattern_that_may_mean_more_is_named(pattern):
    assert watched_beyond(OPEN, SPY, b"", watching("Open/a", pattern)) == pattern
    assert watched_beyond(EVERYWHERE, SPY, b"", watching(pattern)) is None


def test_what_stays_within_or_was_watched_before_may_be_watched():
    assert watched_beyond(OPEN, SPY, b"", watching("Open/**", "./*.md", "!Hidden/**")) is None
    assert watched_beyond(OPEN, SPY, watching("Hidden/**"), watching("Hidden/**", "Open/a")) is None
    assert watched_beyond(OPEN, SPY, watching("**", "!Hidden/**"), watching("**")) == "**"
    assert (
        watched_beyond(
            OPEN, SPY, watching("../Hidden"), watching("../Hidden"), was=VaultPath("a/b/c.md")
        )
        == "../Hidden"
    )
