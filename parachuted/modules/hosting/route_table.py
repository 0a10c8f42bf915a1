"""Which module serves a path of the API."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from urllib.parse import unquote

from parachuted.errors import ModuleFailedError
from parachuted.modules.declare import path_fields
from parachuted.modules.hosting.running_module import RunningModule
from parachuted.modules.registry.declaration import ModuleDeclaration, RouteSpec

_API = "/api/"


@dataclass(frozen=True, slots=True, kw_only=True)
class MatchedRoute:
    """The route of a request and its path parameters. `module` is its owner."""

    module: str
    running: RunningModule
    spec: RouteSpec
    path_values: dict[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Place:
    """One path of a module, and what is at it by method."""

    pattern: re.Pattern[str]
    specs: dict[str, RouteSpec] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Served:
    """All of one module's paths: those without parameters by their text, the others by how many
    names they have.
    """

    module: str
    running: RunningModule
    exact: dict[str, _Place] = field(default_factory=dict)
    patterns: dict[int, list[_Place]] = field(default_factory=dict)

    def places(self, path: str) -> list[_Place]:
        """Those that fit, the exact one first."""
        found = [self.exact[path]] if path in self.exact else []
        return found + [
            place
            for place in self.patterns.get(path.count("/"), ())
            if place.pattern.fullmatch(path)
        ]


class ModuleRouteTable:
    """The routes of all modules.

    A module has the paths below `/api/<word>` for one word, and no other module has that word.
    """

    def __init__(self) -> None:
        self._served: dict[str, _Served] = {}

    def add(self, module: str, running: RunningModule, declared: ModuleDeclaration) -> None:
        """Serve a module's routes.

        Raises ModuleFailedError, having changed nothing, where another serves that prefix.
        """
        if not declared.routes:
            return
        word = _split(declared.prefix)[0]
        other = self._served.get(word)
        if other is not None and other.module != module:
            raise ModuleFailedError(
                f"the module {other.module} serves {_API}{word} already; give {module} another "
                "prefix, or disable one"
            )
        served = _Served(module=module, running=running)
        for spec in declared.routes:
            _place(served, spec.path).specs[spec.method] = spec
        self._served[word] = served

    def remove(self, module: str) -> None:
        """Serve that module's routes no more."""
        self._served = {
            word: served for word, served in self._served.items() if served.module != module
        }

    def find(self, method: str, path: str) -> MatchedRoute | None:
        """The route of that request; GET also serves HEAD where that has no route.

        In `path` only slashes and percent signs within a parameter's value are encoded (`%2F`,
        `%25`).
        """
        word, rest = _split(path)
        served = self._served.get(word)
        if served is None:
            return None
        exact = served.exact.get(rest)
        if exact is not None and method in exact.specs:
            return MatchedRoute(
                module=served.module,
                running=served.running,
                spec=exact.specs[method],
                path_values={},
            )
        places = served.places(rest)
        for wanted in (method, "GET") if method == "HEAD" else (method,):
            for place in places:
                if wanted in place.specs:
                    values = place.pattern.fullmatch(rest)
                    fields = (
                        {name: unquote(value) for name, value in values.groupdict().items()}
                        if values is not None
                        else {}
                    )
                    return MatchedRoute(
                        module=served.module,
                        running=served.running,
                        spec=place.specs[wanted],
                        path_values=fields,
                    )
        return None

    def allowed(self, path: str) -> tuple[str, ...]:
        """The methods that are answered there; none: there is nothing."""
        word, rest = _split(path)
        served = self._served.get(word)
        return (
            tuple(sorted({method for place in served.places(rest) for method in place.specs}))
            if served is not None
            else ()
        )


def _split(path: str) -> tuple[str, str]:
    """The word after `/api/`, and the rest with its slash."""
    word, slash, rest = path.removeprefix(_API).partition("/")
    return (word, slash + rest if rest else "/") if path.startswith(_API) else ("", "/")


def _place(served: _Served, path: str) -> _Place:
    if not path_fields(path):
        return served.exact.setdefault(path, _Place(pattern=re.compile(re.escape(path))))
    pattern = re.compile("/".join(_name(name) for name in path.split("/")))
    places = served.patterns.setdefault(path.count("/"), [])
    found = next((place for place in places if place.pattern == pattern), None)
    if found is None:
        found = _Place(pattern=pattern)
        places.append(found)
    return found


def _name(name: str) -> str:
    return f"(?P<{name[1:-1]}>[^/]+)" if name.startswith("{") else re.escape(name)
