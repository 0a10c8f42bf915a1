"""What running modules offer one another and the daemon: routes, and interfaces behind proxies that
outlive their provider.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any
from urllib.parse import unquote

from parachuted.access.caller import Caller
from parachuted.errors import ModuleFailedError
from parachuted.modules.declare import REST, path_fields
from parachuted.modules.hosting.audited import ModuleAudit
from parachuted.modules.hosting.event_publisher import EventPublisher
from parachuted.modules.hosting.host import Args, InterfaceMethods, ModuleHost
from parachuted.modules.hosting.schedules import ModuleScheduler
from parachuted.modules.registry.approved import ApprovedModule
from parachuted.modules.registry.declaration import RouteSpec

_API = "/api/"
_NO_NAMES = frozenset({"", ".", ".."})
_EXACT, _FIELDS, _REST = 0, 1, 2


@dataclass(frozen=True, slots=True, kw_only=True)
class MatchedRoute:
    host: ModuleHost
    spec: RouteSpec
    path_values: dict[str, str]

    @property
    def module(self) -> str:
        return self.host.name


@dataclass(frozen=True, slots=True, kw_only=True)
class _Place:
    pattern: re.Pattern[str]
    rank: tuple[int, int]
    routes: dict[str, MatchedRoute] = field(default_factory=dict)

    def values(self, path: str) -> dict[str, str] | None:
        """What the path says for each parameter, None where it does not fit. The rest of a path may
        become a file's name, so none of its parts is empty, `.` or `..`.
        """
        found = self.pattern.fullmatch(path)
        if found is None:
            return None
        values = {name: unquote(value) for name, value in found.groupdict().items()}
        if self.rank[0] == _REST and not _NO_NAMES.isdisjoint([*values.values()][-1].split("/")):
            return None
        return values


class ModuleRouteTable:
    """A prefix belongs to one module, and the longest one that fits serves a path."""

    def __init__(self) -> None:
        self._served: dict[str, list[_Place]] = {}
        self._owners: dict[str, str] = {}

    def add(self, host: ModuleHost) -> None:
        """Raises ModuleFailedError, having changed nothing, where another serves that prefix."""
        declared = host.declared
        prefixes = {declared.prefix_of(spec) for spec in declared.routes}
        for prefix in sorted(prefixes):
            other = self._owners.get(prefix, host.name)
            if other != host.name:
                raise ModuleFailedError(
                    f"the module {other} serves {prefix} already; give {host.name} another "
                    "prefix, or disable one"
                )
        found: dict[str, dict[str, _Place]] = {prefix: {} for prefix in prefixes}
        for spec in declared.routes:
            prefix, path = declared.prefix_of(spec), spec.path
            route = MatchedRoute(host=host, spec=spec, path_values={})
            pattern = "/".join(_name(name) for name in path.split("/"))
            place = _Place(pattern=re.compile(pattern), rank=_rank(path))
            found[prefix].setdefault(pattern, place).routes[spec.method] = route
        for prefix, places in found.items():
            self._owners[prefix] = host.name
            self._served[prefix] = sorted(places.values(), key=lambda place: place.rank)

    def remove(self, module: str) -> None:
        for prefix in [prefix for prefix, owner in self._owners.items() if owner == module]:
            del self._owners[prefix], self._served[prefix]

    def find(self, method: str, path: str) -> MatchedRoute | None:
        """The route of that request; GET also serves HEAD. In `path` only slashes and percent signs
        within a parameter's value are encoded (`%2F`, `%25`).
        """
        places = self._places(path)
        for wanted in (method, "GET") if method == "HEAD" else (method,):
            for place, values in places:
                if wanted in place.routes:
                    return replace(place.routes[wanted], path_values=values)
        return None

    def allowed(self, path: str) -> tuple[str, ...]:
        """The methods that are answered there; none: there is nothing."""
        return tuple(
            sorted({method for place, _values in self._places(path) for method in place.routes})
        )

    def _places(self, path: str) -> list[tuple[_Place, dict[str, str]]]:
        """Those that fit, with the values of their parameters, the most exact first."""
        names = path.split("/")
        for count in range(len(names), 2, -1):
            prefix = "/".join(names[:count])
            if prefix in self._served and path.startswith(_API):
                rest = path.removeprefix(prefix) or "/"
                return [
                    (place, values)
                    for place in self._served[prefix]
                    if (values := place.values(rest)) is not None
                ]
        return []


def _rank(path: str) -> tuple[int, int]:
    """A path without parameters, then those with some, then those that take the rest."""
    if not path_fields(path):
        return _EXACT, 0
    return (_REST, -path.count("/")) if path.endswith(f"{REST}}}") else (_FIELDS, 0)


def _name(name: str) -> str:
    if name.endswith(f"{REST}}}"):
        return f"(?P<{name[1 : -len(REST) - 1]}>(?s:.+))"
    return f"(?P<{name[1:-1]}>[^/]+)" if name.startswith("{") else re.escape(name)


def start_order(ready: Iterable[ApprovedModule]) -> list[list[ApprovedModule]]:
    """Groups, each to start at once: who uses an interface after who provides it, cycles last."""
    left = list(ready)
    groups: list[list[ApprovedModule]] = []
    while left:
        group = [module for module in left if not _waits_for(module, left)] or left
        groups.append(group)
        left = [module for module in left if module not in group]
    return groups


def _waits_for(module: ApprovedModule, others: Iterable[ApprovedModule]) -> bool:
    wanted = set(module.manifest.optional_requires)
    return any(
        other.name != module.name and not wanted.isdisjoint(other.manifest.provides)
        for other in others
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class CallingModule:
    """The module called `name`, as the caller of an interface: `own` returns its present caller,
    `delegated` the one that the other module acts with.
    """

    name: str = ""
    own: Callable[[], Caller]
    delegated: Callable[[Caller], Caller]


class Interfaces:
    """The available interfaces."""

    def __init__(self, audit: ModuleAudit) -> None:
        self._audit = audit
        self._providers: dict[str, list[tuple[ModuleHost, bool]]] = {}

    def offer(self, host: ModuleHost, name: str, *, is_trusted: bool = True) -> None:
        """The trusted providers come first, by name."""
        providers = self._providers.setdefault(name, [])
        providers.append((host, is_trusted))
        providers.sort(key=lambda found: (not found[1], found[0].name))

    def withdraw(self, host: ModuleHost) -> None:
        for name, providers in list(self._providers.items()):
            left = [provider for provider in providers if provider[0] is not host]
            if left:
                self._providers[name] = left
            else:
                del self._providers[name]

    def get(self, name: str, caller: CallingModule) -> ProvidedInterface | None:
        return ProvidedInterface(self, name, caller) if name in self._providers else None

    def find(self, name: str) -> tuple[ModuleHost, bool] | None:
        """Who provides it now, and whether that module is trusted."""
        found = self._providers.get(name, ())
        return next((provider for provider in found if provider[0].provides(name)), None)

    async def call(
        self, name: str, caller: CallingModule, method: str, args: Args, kwargs: Mapping[str, Any]
    ) -> object:
        """Call its provider, and record that. Raises what `ModuleHost.call_interface` raises."""
        own = caller.own()
        delegated = caller.delegated(own)
        provider, is_trusted = self.find(name) or (None, True)
        module = provider.name if provider is not None else ""
        with self._audit.call("module", caller.name, module, f"{name}.{method}", own) as answer:
            if provider is None:
                raise ModuleFailedError(
                    f"no module provides {name} any more; ask get_interface again, which then "
                    "returns None"
                )
            try:
                answer.value = await provider.call_interface(name, method, args, kwargs, delegated)
            finally:
                if delegated.taint or not is_trusted:  # what it has read, its answer may hold
                    own.taint.read(f"an answer of {name}")
        return answer.value


class ProvidedInterface(InterfaceMethods):
    """An interface as another module uses it; false once no module provides it."""

    def __init__(self, interfaces: Interfaces, name: str, caller: CallingModule) -> None:
        super().__init__(name, partial(interfaces.call, name, caller))
        self._find = interfaces.find

    def __bool__(self) -> bool:
        return self._find(self._name) is not None


@dataclass(frozen=True, slots=True)
class ModuleExchange:
    events: EventPublisher
    interfaces: Interfaces
    scheduler: ModuleScheduler
    routes: ModuleRouteTable = field(default_factory=ModuleRouteTable)

    def add(self, host: ModuleHost, *, is_trusted: bool) -> None:
        """Raises ModuleFailedError, having changed nothing, where another serves its prefix."""
        self.routes.add(host)
        for interface in host.declared.provides:
            self.interfaces.offer(host, interface, is_trusted=is_trusted)
        self.scheduler.add(host)

    def remove(self, host: ModuleHost) -> None:
        self.routes.remove(host.name)
        self.interfaces.withdraw(host)
        self.scheduler.remove(host.name)
