"""Interfaces: which module stands behind a name, and objects that outlive the module that does.

A module may come and go while others hold what they were given. So what they hold is never the provider's object but a `Provided`, which
looks for the provider at each call.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass

from parachuted.errors import ModuleFailedError


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """Who serves an interface, who else could, and why it is that one."""

    interface: str
    provider: str
    others: tuple[str, ...]
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class _Offer:
    rank: int
    provider: str
    get: Callable[[str], object | None]


class Interfaces:
    """The interfaces there are now. `preferred` says whose to take, by the interface's name, where several modules provide it."""

    def __init__(self, preferred: Mapping[str, str]) -> None:
        self._preferred = preferred
        self._offers: dict[str, list[_Offer]] = {}
        self._provided: dict[str, Provided] = {}

    def offer(self, provider: str, names: Iterable[str], get: Callable[[str], object | None], *, rank: int) -> None:
        """Let that module serve these. The lower the rank, the earlier it was approved."""
        for name in names:
            offers = self._offers.setdefault(name, [])
            offers.append(_Offer(rank=rank, provider=provider, get=get))
            offers.sort(key=lambda one: (one.provider != self._preferred.get(name), one.rank, one.provider))

    def withdraw(self, provider: str) -> None:
        """Take back all that the module served."""
        for name in tuple(self._offers):
            self._offers[name] = [one for one in self._offers[name] if one.provider != provider]
            if not self._offers[name]:
                del self._offers[name]

    def get(self, name: str) -> Provided | None:
        """What to call that interface by, or None while nobody provides it."""
        if name not in self._offers:
            return None
        return self._provided.setdefault(name, Provided(name, self.find))

    def find(self, name: str) -> object | None:
        """The provider's own object."""
        return next((found for one in self._offers.get(name, ()) if (found := one.get(name)) is not None), None)

    def choices(self) -> list[Choice]:
        """Who serves what."""
        return [self._choice(name, offers) for name, offers in sorted(self._offers.items())]

    def _choice(self, name: str, offers: list[_Offer]) -> Choice:
        first, *rest = (one.provider for one in offers)
        preferred = self._preferred.get(name)
        if first == preferred:
            reason = "the settings say so"
        elif preferred is not None:
            reason = f"the settings say {preferred}, which does not provide it now"
        else:
            reason = "it was approved first" if rest else "it is the only one"
        return Choice(interface=name, provider=first, others=tuple(rest), reason=reason)


class Provided:
    """An interface in another module's hands. Each method is awaited; it is false once nobody provides the interface any more."""

    def __init__(self, name: str, find: Callable[[str], object | None]) -> None:
        self._name = name
        self._find = find

    def __bool__(self) -> bool:
        return self._find(self._name) is not None

    def __repr__(self) -> str:
        return f"<{self._name}, provided by a module>"

    def __getattr__(self, method: str) -> Callable[..., Awaitable[object]]:
        if method.startswith("_"):
            raise AttributeError(f"{self._name} has no {method}: what begins with _ is the provider's own")

        async def call(*args: object, **kwargs: object) -> object:
            provider = self._find(self._name)
            if provider is None:
                raise ModuleFailedError(f"nobody provides {self._name} any more; ask get_interface again, which then says None")
            answer: object = await getattr(provider, method)(*args, **kwargs)
            return answer

        return call
