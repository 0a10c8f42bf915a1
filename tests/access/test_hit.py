"""Hit: the public name of modules is this one."""

from __future__ import annotations

from parachuted import modules
from parachuted.access.hit import Hit


def test_modules_and_the_daemon_name_the_same_hit():
    assert modules.Hit is Hit
