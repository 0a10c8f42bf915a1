"""Which hosts a sandbox may reach, and which addresses are always refused. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass
from ipaddress import IPv4Address, ip_address, ip_network

from parachuted.access.grant import Network

WEB_PORTS = frozenset({80, 443})
_LABEL = r"[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?"
_NAME = re.compile(rf"(?=.{{1,253}}\Z){_LABEL}(\.{_LABEL})+", re.ASCII)
_LAST_IS_NUMBER = re.compile(
    r"(.*\.)?(\d+|0x[0-9a-f]*)", re.ASCII
)  # what some resolvers take for an address, such as 127.1 or 0x7f.1
_PORT = re.compile(r"[1-9]\d{0,4}", re.ASCII)
_INDOORS = (
    "localhost",
    "local",
    "internal",
    "intranet",
    "lan",
    "home",
    "corp",
    "home.arpa",
    "localdomain",
)
_NOT_PUBLIC = tuple(
    ip_network(text)
    for text in (
        "192.0.0.0/24",  # special purposes, a cloud's metadata (192.0.0.192) among them
        "192.88.99.0/24",  # relays into IPv6
        "168.63.129.16/32",  # a cloud's own services on each of its machines, at a public address
        "2001::/23",  # tunnels and special purposes
        "2001:db8::/32",  # examples
        "2002::/16",  # carries an IPv4 address
        "3fff::/20",  # examples
    )
)
_IPV6_PUBLIC = ip_network("2000::/3")


@dataclass(frozen=True, slots=True, kw_only=True)
class ProxyTarget:
    """A host by name, in lower case without a final dot, and a port."""

    host: str
    port: int


def parse_target(authority: str) -> ProxyTarget | None:
    """Parse `host:port`.

    None if it is not a plain host name and port. Addresses are refused: rules are about names.
    """
    name, _, number = authority.partition(":")
    host = name.lower().removesuffix(".")
    if (
        not _PORT.fullmatch(number)
        or int(number) > 0xFFFF  # noqa: PLR2004  the largest port
        or not _NAME.fullmatch(host)
        or _LAST_IS_NUMBER.fullmatch(host)
    ):
        return None
    return ProxyTarget(host=host, port=int(number))


def objection(network: Network, target: ProxyTarget) -> str | None:
    """Why the sandbox may not reach that host; None if its name is allowed.

    `bridge` allows any public host on the web's ports. In a list, `example.org` is that host alone,
    `*.example.org` all below it, and `example.org:8443` that port alone.
    """
    if any(target.host == end or target.host.endswith(f".{end}") for end in _INDOORS):
        return f"{target.host} is a name of this machine's own surroundings, which no agent reaches"
    if network == "bridge":
        return (
            None
            if target.port in WEB_PORTS
            else f"port {target.port} is not one of the web's, which are all that it may reach"
        )
    if network == "none" or not any(_means(one, target) for one in network):
        return f"{target.host}:{target.port} is not on the list of hosts that this agent may reach"
    return None


def _means(pattern: str, target: ProxyTarget) -> bool:
    name, colon, port = pattern.lower().partition(":")
    if not (target.port == int(port) if colon else target.port in WEB_PORTS):
        return False
    return target.host.endswith(name[1:]) if name.startswith("*.") else target.host == name


def is_public(address: str) -> bool:
    """Whether an address, as a resolver gives it, is out on the internet: not here, nor near, nor a
    way back to either.
    """
    try:
        found = ip_address(address)
    except ValueError:
        return False
    if (
        not found.is_global
        or found.is_multicast
        or any(found in network for network in _NOT_PUBLIC)
    ):
        return False
    return isinstance(found, IPv4Address) or (found.scope_id is None and found in _IPV6_PUBLIC)
