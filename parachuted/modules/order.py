"""Order: which modules are begun before which, so that those who use an interface find it. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from parachuted.modules.approved import Approved


def waves(ready: Iterable[Approved]) -> list[list[Approved]]:
    """Groups to be begun one after the other, each all at once. Modules that use each other in a circle come last, together."""
    left = list(ready)
    found: list[list[Approved]] = []
    while left:
        offered = {name: [one.name for one in left if name in one.manifest.provides] for one in left for name in one.manifest.provides}
        free = [one for one in left if not _awaited(one, offered)] or left
        found.append(free)
        begun = {one.name for one in free}
        left = [one for one in left if one.name not in begun]
    return found


def _awaited(one: Approved, offered: dict[str, list[str]]) -> bool:
    """Whether another that is not begun yet provides what it uses."""
    return any(provider != one.name for name in one.manifest.optional_requires for provider in offered.get(name, ()))
