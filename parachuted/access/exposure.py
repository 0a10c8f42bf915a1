"""Exposure: whether an agent has private data, untrusted text and a way out at once, which is all
that a theft needs.

The three together are Willison's "lethal trifecta" (2025): with any two of them, a text cannot make
an agent send away what it sees.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from parachuted.access.grant import Grant

_SHOWN = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Exposure:
    """How an agent comes by each of the three; None: it does not."""

    private: str | None
    untrusted: str | None
    outward: str | None

    @property
    def is_whole(self) -> bool:
        return None not in (self.private, self.untrusted, self.outward)


def exposure(
    grant: Grant, *, private_files: int, untrusted_files: int, calls: Sequence[str] = ()
) -> Exposure:
    """What an agent of that grant has.

    The numbers count the files that it may read; `calls` are the modules' tools that it may call,
    which may bring in and send out whatever their modules do.
    """
    private = [
        *([f"{private_files} notes"] if private_files else []),
        *(["folders beside the vault"] if grant.outside else []),
    ]
    untrusted = [*([f"{untrusted_files} notes of strangers"] if untrusted_files else [])]
    outward = []
    if grant.network != "none":
        reach = (
            "any public host" if grant.network == "bridge" else ", ".join(grant.network[:_SHOWN])
        )
        untrusted.append(f"what {reach} answers")
        outward.append(f"the network ({reach})")
    if calls:
        tools = f"the tools {', '.join(calls[:_SHOWN])}{' and more' if len(calls) > _SHOWN else ''}"
        untrusted.append(f"what {tools} answer")
        outward.append(tools)
    return Exposure(private=_told(private), untrusted=_told(untrusted), outward=_told(outward))


def _told(found: Sequence[str]) -> str | None:
    return "; ".join(found) or None
