"""Limits what an agent asks of other agents to what it may do itself."""

from __future__ import annotations

from dataclasses import dataclass, replace

from parachuted.access.grant import Grant, Network
from parachuted.access.granting import in_both, narrower
from parachuted.access.patterns import all_of


@dataclass(frozen=True, slots=True, kw_only=True)
class CurrentRun:
    """The run that goes on here."""

    grant: Grant

    def narrowed(self, grant: Grant) -> Grant:
        """What an agent may that this one asks for help."""
        mine = self.grant
        bash, network = narrower(grant.bash, mine.bash), _network(grant.network, mine.network)
        lost = {"Bash"} if not bash else set()
        lost |= {"WebFetch"} if network == "none" else set()
        return replace(
            grant,
            reads=all_of(grant.reads, mine.reads),
            writes=all_of(grant.writes, mine.writes),
            lane=all_of(grant.lane, mine.lane),
            outside=tuple(one for one in grant.outside if one in mine.outside),
            interfaces=in_both(grant.interfaces, mine.interfaces),
            native=tuple(one for one in grant.native if one not in lost),
            bash=bash,
            network=network,
            asks=grant.asks and mine.asks,
        )


def _network(one: Network, other: Network) -> Network:
    if one == "none" or other == "none":
        return "none"
    if one == "bridge" or other == "bridge":
        return other if one == "bridge" else one
    return tuple(host for host in one if host in other) or "none"
