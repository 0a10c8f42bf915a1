"""Odd JSON: values of which some members are replaced by what no program was meant to write."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

from hypothesis import strategies as st

_ODD = st.sampled_from(
    [
        None,
        True,
        0,
        -1,
        10**400,
        1e300,
        -62_135_596_800,  # the first second of the year 1
        253_402_300_799,  # the last one of 9999
        "",
        " ",
        "x",
        "\ud800",
        "\x00",
        "---",
        "../../x",
        "😀" * 200,
        "0001-01-01T00:00:00Z",
        "9999-12-31T23:59:59Z",
        "2021-13-45",
        "GMT+2500",
        "{",
        [],
        [[]],
        [None],
        ["x", {"text": {"text": 1}}],
        {},
        {"text": []},
        {"": {"": None}},
    ]
)


@st.composite
def with_odd_members(draw: st.DrawFn, value: Any) -> Any:
    """The value with one to three of its members, however deep, replaced."""
    changed = copy.deepcopy(value)
    for _ in range(draw(st.integers(1, 3))):
        places = list(_places(changed))
        if places:
            holder, key = draw(st.sampled_from(places))
            holder[key] = copy.deepcopy(draw(_ODD))
    return changed


def _places(value: Any) -> Iterator[tuple[Any, Any]]:
    members = (
        value.items()
        if isinstance(value, dict)
        else enumerate(value)
        if isinstance(value, list)
        else ()
    )
    for key, member in members:
        yield value, key
        yield from _places(member)
