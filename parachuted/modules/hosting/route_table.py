"""Which module serves a path of the API."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from urllib.parse import unquote

from parachuted.errors import ModuleFailedError
from parachuted.modules.declare import REST, path_fields
from parachuted.modules.hosting.running_module import RunningModule
from parachuted.modules.registry.declaration import ModuleDeclaration, RouteSpec

_API = "/api/"
_NO_NAMES = frozenset({"", ".", ".."})


@dataclass(frozen=True, slots=True, kw_only=True)
class MatchedRoute:
    """The route of a request and its path parameters. `module` is its owner."""

    module: str
    running: RunningModule
    spec: RouteSpec
    path_values: dict[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Place:
    """One path of a module, and what is at it by method. A path without parameters has no other
    match, so that is made once.
    """

    pattern: re.Pattern[str]
    takes_rest: bool = False
    routes: dict[str, MatchedRoute] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Served:
    """A module's paths below one prefix: those without parameters by their text, others by how many
    names they have, and those that take the rest of a path, the longest first.
    """

    module: str
    exact: dict[str, _Place] = field(default_factory=dict)
    patterns: dict[int, list[_Place]] = field(default_factory=dict)
    rests: list[_Place] = field(default_factory=list)

    def places(self, path: str) -> list[_Place]:
        found = [self.exact[path]] if path in self.exact else []
        patterns = (*self.patterns.get(path.count("/"), ()), *self.rests)
        return found + [place for place in patterns if _values(place, path) is not None]

    def find(self, method: str, path: str) -> MatchedRoute | None:
        """The route of that request; GET also serves HEAD where that has no route."""
        places = self.places(path)
        for wanted in (method, "GET") if method == "HEAD" else (method,):
            for place in places:
                if wanted in place.routes:
                    return replace(place.routes[wanted], path_values=_values(place, path) or {})
        return None


class ModuleRouteTable:
    """The routes of all modules.

    A module has the paths below `/api/<word>` for one word, and no other module has that word. What
    is below a longer prefix of another module's is not below the word.
    """

    def __init__(self) -> None:
        self._served: dict[str, _Served] = {}
        self._longer: list[str] = []
        self._exact: dict[tuple[str, str], MatchedRoute] = {}

    def add(self, module: str, running: RunningModule, declared: ModuleDeclaration) -> None:
        """Serve a module's routes.

        Raises ModuleFailedError, having changed nothing, where another serves that prefix.
        """
        prefixes = {declared.prefix_of(spec) for spec in declared.routes}
        for prefix in sorted(prefixes):
            other = self._served.get(prefix)
            if other is not None and other.module != module:
                raise ModuleFailedError(
                    f"the module {other.module} serves {prefix} already; give {module} another "
                    "prefix, or disable one"
                )
        found = {prefix: _Served(module=module) for prefix in prefixes}
        for spec in declared.routes:
            prefix = declared.prefix_of(spec)
            route = MatchedRoute(module=module, running=running, spec=spec, path_values={})
            place = _place(found[prefix], spec.path)
            place.routes[spec.method] = route
            if not path_fields(spec.path):
                self._exact[spec.method, f"{prefix}{spec.path}"] = route
        self._served |= found
        self._index()

    def remove(self, module: str) -> None:
        self._served = {
            prefix: served for prefix, served in self._served.items() if served.module != module
        }
        self._index()
        self._exact = {
            place: route for place, route in self._exact.items() if route.module != module
        }

    def find(self, method: str, path: str) -> MatchedRoute | None:
        """The route of that request; GET also serves HEAD where that has no route.

        In `path` only slashes and percent signs within a parameter's value are encoded (`%2F`,
        `%25`).
        """
        if (exact := self._exact.get((method, path))) is not None:
            return exact
        served, rest = self._serving(path)
        return served.find(method, rest) if served is not None else None

    def allowed(self, path: str) -> tuple[str, ...]:
        """The methods that are answered there; none: there is nothing."""
        served, rest = self._serving(path)
        places = served.places(rest) if served is not None else ()
        return tuple(sorted({method for place in places for method in place.routes}))

    def _index(self) -> None:
        longer = (prefix for prefix in self._served if prefix.count("/") > _API.count("/"))
        self._longer = sorted(longer, key=len, reverse=True)

    def _serving(self, path: str) -> tuple[_Served | None, str]:
        for prefix in self._longer:
            if path == prefix or path.startswith(f"{prefix}/"):
                return self._served[prefix], path.removeprefix(prefix) or "/"
        word, slash, rest = path.removeprefix(_API).partition("/")
        if not path.startswith(_API):
            return None, "/"
        return self._served.get(f"{_API}{word}"), slash + rest if rest else "/"


def _place(served: _Served, path: str) -> _Place:
    if not path_fields(path):
        return served.exact.setdefault(path, _Place(pattern=re.compile(re.escape(path))))
    pattern = re.compile("/".join(_name(name) for name in path.split("/")))
    is_rest = path.endswith(f"{REST}}}")
    places = served.rests if is_rest else served.patterns.setdefault(path.count("/"), [])
    found = next((place for place in places if place.pattern == pattern), None)
    if found is None:
        found = _Place(pattern=pattern, takes_rest=is_rest)
        places.append(found)
        if is_rest:
            places.sort(key=lambda place: -place.pattern.pattern.count("/"))
    return found


def _name(name: str) -> str:
    if name.endswith(f"{REST}}}"):
        return f"(?P<{name[1 : -len(REST) - 1]}>(?s:.+))"
    return f"(?P<{name[1:-1]}>[^/]+)" if name.startswith("{") else re.escape(name)


def _values(place: _Place, path: str) -> dict[str, str] | None:
    """What the path says for each parameter; None where it does not fit.

    The rest of a path may become a name of a file, so none of its parts is empty, `.` or `..`.
    """
    found = place.pattern.fullmatch(path)
    if found is None:
        return None
    values = {name: unquote(value) for name, value in found.groupdict().items()}
    if place.takes_rest and not _NO_NAMES.isdisjoint([*values.values()][-1].split("/")):
        return None
    return values
