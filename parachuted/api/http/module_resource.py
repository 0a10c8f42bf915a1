"""Module resource: where aiohttp's router finds the routes of modules, which come and go while the
app does not change.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NoReturn, Protocol

from aiohttp import web

from parachuted.api.http.route import Route


class ModuleRouteLookup(Protocol):
    """Knows the routes that there are just now."""

    async def wait_started(self) -> bool:
        """Return once the modules of a daemon that has just started have their routes, or after a
        while; whether they have.
        """

    def find(self, request: web.Request) -> tuple[Route, dict[str, str]] | None:
        """The route that answers the request, and what its path says."""

    def methods(self, request: web.Request) -> tuple[str, ...]:
        """The methods that are answered at its path."""


class ModuleResource(web.AbstractResource):
    """All paths below /api that no route of the core's has: the router asks the longer ones
    first.
    """

    def __init__(self, served: ModuleRouteLookup) -> None:
        super().__init__()
        self._served, self._has_started = served, False
        self._reached: dict[tuple[str, str], tuple[Route, web.ResourceRoute]] = {}

    @property
    def canonical(self) -> str:
        """What the router files it under."""
        return "/api/{module}/{path}"

    async def resolve(
        self, request: web.Request
    ) -> tuple[web.UrlMappingMatchInfo | None, set[str]]:
        """As aiohttp asks: who answers, else by which methods somebody would."""
        if not self._has_started:
            self._has_started = await self._served.wait_started()
        found = self._served.find(request)
        if found is None:
            return None, set(self._served.methods(request))
        route, names = found
        known = self._reached.get((route.method, route.path))
        if known is None or known[0] is not route:
            known = self._reached[route.method, route.path] = (
                route,
                web.ResourceRoute(route.method, route.serve, self),
            )
        return web.UrlMappingMatchInfo(names, known[1]), set()

    def url_for(self, **names: str) -> NoReturn:
        """Not used: a module says what it serves."""
        raise NotImplementedError(str(names))

    def add_prefix(self, prefix: str) -> None:
        """Not used: the app is not part of another."""
        raise NotImplementedError(prefix)

    def get_info(self) -> dict[str, str]:  # type: ignore[override]  # aiohttp has a type of its own for it
        """What introspection shows."""
        return {"path": self.canonical}

    def raw_match(self, path: str) -> bool:
        """Whether that text is its own."""
        return path == self.canonical

    def __len__(self) -> int:
        """It declares no route: those of modules are found as they are asked for."""
        return 0

    def __iter__(self) -> Iterator[web.AbstractRoute]:
        return iter(())
