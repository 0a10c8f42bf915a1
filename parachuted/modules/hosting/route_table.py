"""Which module serves a path of the API."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from urllib.parse import unquote

from parachuted.errors import ModuleFailedError
from parachuted.modules.declare import REST, path_fields
from parachuted.modules.hosting.host import ModuleHost
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
