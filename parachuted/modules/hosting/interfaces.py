"""Which module provides an interface, proxies that outlive it, and in which order modules start.

A module may stop and restart while others use it. So they hold a `ProvidedInterface`, never the
provider's object, and it looks up the provider at each call.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import TypeAlias

from parachuted.access.authority import NO_AUTHORITY, Authority, pass_on
from parachuted.errors import ActRefusedError, ModuleFailedError, StorageFailedError
from parachuted.modules.registry.approved import ApprovedModule
from parachuted.state import StateStore

_TABLE = "module_order"


def waves(ready: Iterable[ApprovedModule]) -> list[list[ApprovedModule]]:
    """Groups to start one after the other, each at once.

    Modules in a cycle come last, together.
    """
    left = list(ready)
    found: list[list[ApprovedModule]] = []
    while left:
        offered = {
            name: [one.name for one in left if name in one.manifest.provides]
            for one in left
            for name in one.manifest.provides
        }
        free = [one for one in left if not _awaited(one, offered)] or left
        found.append(free)
        started = {one.name for one in free}
        left = [one for one in left if one.name not in started]
    return found


def _awaited(one: ApprovedModule, offered: dict[str, list[str]]) -> bool:
    """Whether a module that has not started yet provides what it uses."""
    return any(
        provider != one.name
        for name in one.manifest.optional_requires
        for provider in offered.get(name, ())
    )


class ArrivalOrder:
    """In which order modules came, over all restarts: modules.yaml is a person's, who may
    sort it.
    """

    def __init__(self, state: StateStore | None) -> None:
        self._table = state.table(_TABLE) if state is not None else None
        self._ranks = (
            {name: int(str(record["rank"])) for name, record in self._table.items()}
            if self._table is not None
            else {}
        )

    def rank(self, name: str) -> int:
        """Its place in the order of first approvals; lower is earlier."""
        if name not in self._ranks:
            self._ranks[name] = max(self._ranks.values(), default=-1) + 1
            if self._table is not None:
                with suppress(
                    StorageFailedError
                    # reported elsewhere: until the next start it is known here
                ):
                    self._table.put(name, {"rank": self._ranks[name]})
        return self._ranks[name]


InterfaceLookup: TypeAlias = Callable[[str, Authority], object | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class InterfaceChoice:
    """Who serves an interface, who else could, and why it is that one."""

    interface: str
    provider: str
    others: tuple[str, ...]
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CallingModule:
    """The module called `name`, as the caller of an interface.

    `own` returns its present authority, `delegated` the one that the other module acts with.
    """

    name: str = ""
    own: Callable[[], Authority]
    delegated: Callable[[Authority], Authority]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Offer:
    rank: int
    provider: str
    get: InterfaceLookup
    is_trusted: bool


class Interfaces:
    """The available interfaces.

    `preferred` names the provider of each interface that several modules provide.
    """

    def __init__(self, preferred: Mapping[str, str]) -> None:
        self._preferred = preferred
        self._offers: dict[str, list[_Offer]] = {}

    def offer(
        self,
        provider: str,
        names: Iterable[str],
        get: InterfaceLookup,
        *,
        rank: int,
        is_trusted: bool = True,
    ) -> None:
        """Let that module serve these. The lower the rank, the earlier it was approved."""
        for name in names:
            offers = self._offers.setdefault(name, [])
            offers.append(_Offer(rank=rank, provider=provider, get=get, is_trusted=is_trusted))
            offers.sort(
                key=lambda one: (one.provider != self._preferred.get(name), one.rank, one.provider)
            )

    def withdraw(self, provider: str) -> None:
        for name in tuple(self._offers):
            self._offers[name] = [one for one in self._offers[name] if one.provider != provider]
            if not self._offers[name]:
                del self._offers[name]

    def get(self, name: str, caller: CallingModule) -> ProvidedInterface | None:
        """The interface for that caller, or None while no module provides it."""
        return ProvidedInterface(name, self.find, caller) if name in self._offers else None

    def provider(self, name: str) -> str:
        """The module that serves it now; its name is empty if there is none."""
        return next(
            (
                one.provider
                for one in self._offers.get(name, ())
                if one.get(name, NO_AUTHORITY) is not None
            ),
            "",
        )

    def find(self, name: str, authority: Authority = NO_AUTHORITY) -> tuple[object, bool] | None:
        """The provider's own object, with methods that use that authority, and whether the provider
        is trusted.
        """
        for one in self._offers.get(name, ()):
            if (found := one.get(name, authority)) is not None:
                return found, one.is_trusted
        return None

    def choices(self) -> list[InterfaceChoice]:
        return [self._choice(name, offers) for name, offers in sorted(self._offers.items())]

    def _choice(self, name: str, offers: list[_Offer]) -> InterfaceChoice:
        first, *rest = (one.provider for one in offers)
        preferred = self._preferred.get(name)
        if first == preferred:
            reason = "the settings say so"
        elif preferred is not None:
            reason = f"the settings say {preferred}, which does not provide it now"
        else:
            reason = "it was approved first" if rest else "it is the only one"
        return InterfaceChoice(interface=name, provider=first, others=tuple(rest), reason=reason)


class ProvidedInterface:
    """An interface as another module uses it.

    Its methods are coroutines; it is false once no module provides the interface.
    """

    def __init__(
        self,
        name: str,
        find: Callable[[str, Authority], tuple[object, bool] | None],
        caller: CallingModule,
    ) -> None:
        self._name, self._find, self._caller = name, find, caller

    def __bool__(self) -> bool:
        return self._find(self._name, NO_AUTHORITY) is not None

    def __repr__(self) -> str:
        return f"<{self._name}, provided by a module>"

    def __getattr__(self, method: str) -> Callable[..., Awaitable[object]]:
        if method.startswith("_"):
            raise AttributeError(
                f"{self._name} has no {method}: what begins with _ is the provider's own"
            )

        async def call(*args: object, **kwargs: object) -> object:
            own = self._caller.own()
            delegated = self._caller.delegated(own)
            found = self._find(self._name, delegated)
            if found is None:
                raise ModuleFailedError(
                    f"no module provides {self._name} any more; ask get_interface again, which "
                    "then returns None"
                )
            provider, is_trusted = found
            try:
                function = getattr(provider, method)
            except AttributeError as error:
                raise ActRefusedError(str(error)) from error
            try:
                answer: object = await function(*args, **kwargs)
            finally:
                pass_on(delegated.taint, own.taint)  # what it has read, its answer may hold
                if not is_trusted:
                    own.taint.read_words(f"an answer of {self._name}", "imported")
            return answer

        return call
