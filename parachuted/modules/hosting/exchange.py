"""What running modules offer one another and the daemon: routes, interfaces, events, schedules."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any
from urllib.parse import unquote

from parachuted.access.caller import Caller
from parachuted.errors import ModuleFailedError
from parachuted.modules.declare import REST, path_fields
from parachuted.modules.hosting.audited import ModuleAudit
from parachuted.modules.hosting.event_publisher import EventPublisher
from parachuted.modules.hosting.host import Args, InterfaceMethods, ModuleHost
from parachuted.modules.hosting.schedules import ModuleScheduler
from parachuted.modules.registry.declaration import RouteSpec

_API = "/api/"
_NO_NAMES = frozenset({"", ".", ".."})


@dataclass(frozen=True, slots=True, kw_only=True)
class ModuleRoute:
    """`pattern` matches the path below its prefix. `path_values`: once it has matched."""

    host: ModuleHost
    spec: RouteSpec
    pattern: re.Pattern[str]
    path_values: Mapping[str, str] = field(default_factory=dict)

    def at(self, path: str) -> ModuleRoute | None:
        """None where it does not fit. The rest of a path may become a file's name, so none of its
        parts is empty, `.` or `..`.
        """
        match = self.pattern.fullmatch(path)
        if match is None:
            return None
        values = {name: unquote(value) for name, value in match.groupdict().items()}
        if _takes_rest(self.spec) and not _NO_NAMES.isdisjoint([*values.values()][-1].split("/")):
            return None
        return replace(self, path_values=values)


class ModuleRouteTable:
    """A prefix belongs to one module, and the longest one that fits serves a path."""

    def __init__(self) -> None:
        self._served: dict[str, list[ModuleRoute]] = {}

    def add(self, host: ModuleHost) -> None:
        """Raises ModuleFailedError, having changed nothing, where another serves that prefix."""
        found: dict[str, list[ModuleRoute]] = {}
        # paths without parameters, then those with some, then those that take the rest
        for spec in sorted(host.declared.routes, key=_rank):
            pattern = re.compile("/".join(map(_name, spec.path.split("/"))))
            route = ModuleRoute(host=host, spec=spec, pattern=pattern)
            found.setdefault(host.declared.prefix_of(spec), []).append(route)
        for prefix in sorted(found.keys() & self._served.keys()):
            raise ModuleFailedError(
                f"the module {self._served[prefix][0].host.name} serves {prefix} already; give "
                f"{host.name} another prefix, or disable one"
            )
        self._served |= found

    def remove(self, module: str) -> None:
        for prefix, routes in list(self._served.items()):
            if routes[0].host.name == module:
                del self._served[prefix]

    def find(self, method: str, path: str) -> ModuleRoute | None:
        """The route of that request; GET also serves HEAD. In `path` only slashes and percent signs
        within a parameter's value are encoded (`%2F`, `%25`).
        """
        routes = self._fitting(path)
        module_routes = [route for route in routes if route.spec.method == method]
        if method == "HEAD":
            module_routes += [route for route in routes if route.spec.method == "GET"]
        return module_routes[0] if module_routes else None

    def allowed(self, path: str) -> tuple[str, ...]:
        """The methods that are answered there; none: there is nothing."""
        return tuple(sorted({route.spec.method for route in self._fitting(path)}))

    def _fitting(self, path: str) -> list[ModuleRoute]:
        """The most exact first."""
        names = path.split("/")
        for count in range(len(names), 2, -1):
            prefix = "/".join(names[:count])
            if prefix in self._served and path.startswith(_API):
                rest = path.removeprefix(prefix) or "/"
                return [found for route in self._served[prefix] if (found := route.at(rest))]
        return []


def _takes_rest(spec: RouteSpec) -> bool:
    return spec.path.endswith(f"{REST}}}")


def _rank(spec: RouteSpec) -> tuple[bool, bool, int]:
    return _takes_rest(spec), bool(path_fields(spec.path)), -spec.path.count("/")


def _name(name: str) -> str:
    if name.endswith(f"{REST}}}"):
        return f"(?P<{name[1 : -len(REST) - 1]}>(?s:.+))"
    return f"(?P<{name[1:-1]}>[^/]+)" if name.startswith("{") else re.escape(name)


class Interfaces:
    """The interfaces that running modules provide."""

    def __init__(self, audit: ModuleAudit) -> None:
        self._audit = audit
        self._providers: list[tuple[bool, str, ModuleHost]] = []

    def add(self, host: ModuleHost, *, is_trusted: bool = True) -> None:
        """The trusted providers come first, by name."""
        self._providers.append((not is_trusted, host.name, host))
        self._providers.sort(key=lambda provider: provider[:2])

    def remove(self, module: str) -> None:
        self._providers = [provider for provider in self._providers if provider[1] != module]

    def find(self, name: str) -> tuple[ModuleHost, bool] | None:
        """Who provides it now, and whether that module is trusted."""
        providers = ((host, not is_other) for is_other, _name, host in self._providers)
        return next((provider for provider in providers if provider[0].provides(name)), None)

    def get(
        self, name: str, module: str, callers: Callable[[], tuple[Caller, Caller]]
    ) -> InterfaceMethods | None:
        """For that module; `callers` are its own, and the one that the provider then acts for.
        Calls raise what `ModuleHost.call_interface` raises.
        """

        async def call(method: str, args: Args, kwargs: Mapping[str, Any]) -> object:
            own, delegated = callers()
            provider, is_trusted = self.find(name) or (None, True)
            target = provider.name if provider is not None else ""
            with self._audit.call("module", module, target, f"{name}.{method}", own) as answer:
                if provider is None:
                    raise ModuleFailedError(f"no module provides {name} any more")
                try:
                    answer.value = await provider.call_interface(
                        name, method, args, kwargs, delegated
                    )
                finally:
                    if delegated.taint or not is_trusted:  # what it has read, its answer may hold
                        own.taint.read(f"an answer of {name}")
            return answer.value

        return InterfaceMethods(name, call) if self.find(name) is not None else None


@dataclass(frozen=True, slots=True)
class ModuleExchange:
    events: EventPublisher
    interfaces: Interfaces
    scheduler: ModuleScheduler
    routes: ModuleRouteTable = field(default_factory=ModuleRouteTable)

    def add(self, host: ModuleHost, *, is_trusted: bool) -> None:
        """Raises ModuleFailedError where another serves its prefix."""
        self.routes.add(host)
        self.interfaces.add(host, is_trusted=is_trusted)
        self.scheduler.add(host)

    def remove(self, module: str) -> None:
        self.routes.remove(module)
        self.interfaces.remove(module)
        self.scheduler.remove(module)
