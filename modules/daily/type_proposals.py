"""Type proposals: types of entities that an agent proposes, which a person decides on."""

from __future__ import annotations

import re
from typing import Any

from parachuted.errors import ParachuteError
from parachuted.modules import Module

_STATE = "proposed_types"
_LINE = re.compile(
    r"^[ \t]*(?:[-*][ \t]+)?New type:[ \t]*(?P<name>[a-z][a-z0-9_-]{0,39})"
    r"(?:[ \t]+-[ \t]+(?P<why>[^\n]+))?[ \t]*\n?",
    re.MULTILINE,
)
_MOST = 3  # of one run


def split_proposals(words: str) -> tuple[str, dict[str, str]]:
    """The words without lines such as `New type: recipe - three dishes were cooked`, and the reason
    for each type that these propose.
    """
    found = {one["name"]: (one["why"] or "").strip() for one in _LINE.finditer(words)}
    return _LINE.sub("", words), found


async def propose(module: Module, agent: str, proposals: dict[str, str]) -> None:
    """Suggest each type that Brain has not and that was not suggested before."""
    brain: Any = module.get_interface("BrainInterface") if proposals else None
    if brain is None:
        return
    held = await module.state.get(_STATE, [])
    asked = [str(one) for one in held] if isinstance(held, list) else []
    known = {one["name"] for one in await brain.types()}
    new = [name for name in proposals if name not in known and name not in asked][:_MOST]
    for name in new:
        try:
            await brain.suggest_type(name, None, None, f"{agent}: {proposals[name]}".rstrip(": "))
        except ParachuteError as error:  # what it wrote of the day counts all the same
            module.log.warning(
                "a type was not suggested", extra={"type": name, "error": error.message}
            )
    if new:
        await module.state.put(_STATE, [*asked, *new])
