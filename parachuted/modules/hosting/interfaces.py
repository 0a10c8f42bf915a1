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
from parachuted.modules.hosting.audited import ModuleAudit
from parachuted.modules.registry.approved import ApprovedModule
from parachuted.state import StateStore

_TABLE = "module_order"


def waves(ready: Iterable[ApprovedModule]) -> list[list[ApprovedModule]]:
    """Groups to start one after the other, each at once: who uses an interface after who provides
    it. Modules in a cycle come last, together.
    """
    left = list(ready)
    found: list[list[ApprovedModule]] = []
    while left:
        free = [one for one in left if not _waits_for(one, left)] or left
        found.append(free)
        left = [one for one in left if one not in free]
    return found


def _waits_for(one: ApprovedModule, others: Iterable[ApprovedModule]) -> bool:
    wanted = set(one.manifest.optional_requires)
    return any(
        other.name != one.name and not wanted.isdisjoint(other.manifest.provides)
        for other in others
    )


class ArrivalOrder:
    """In which order modules came, over all restarts: modules.yaml is a person's, who may
    sort it.
    """

    def __init__(self, state: StateStore | None) -> None:
        self._table = state.table(_TABLE) if state is not None else None
        records = {} if self._table is None else dict(self._table.items())
        self._ranks = {name: int(str(record["rank"])) for name, record in records.items()}

    def rank(self, name: str) -> int:
        """Its place in the order of first approvals; lower is earlier."""
        if name not in self._ranks:
            self._ranks[name] = max(self._ranks.values(), default=-1) + 1
            if self._table is not None:
                # reported elsewhere: until the next start it is known here
                with suppress(StorageFailedError):
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

    def __init__(self, preferred: Mapping[str, str], audit: ModuleAudit) -> None:
        self._preferred, self._audit = preferred, audit
        self._offers: dict[str, list[_Offer]] = {}

    def offer(
        self, provider: str, name: str, get: InterfaceLookup, *, rank: int, is_trusted: bool = True
    ) -> None:
        """Let that module serve it. The lower the rank, the earlier it was approved."""
        offers = self._offers.setdefault(name, [])
        offers.append(_Offer(rank=rank, provider=provider, get=get, is_trusted=is_trusted))
        preferred = self._preferred.get(name)
        offers.sort(key=lambda offer: (offer.provider != preferred, offer.rank, offer.provider))

    def withdraw(self, provider: str) -> None:
        left = {
            name: [offer for offer in offers if offer.provider != provider]
            for name, offers in self._offers.items()
        }
        self._offers = {name: offers for name, offers in left.items() if offers}

    def get(self, name: str, caller: CallingModule) -> ProvidedInterface | None:
        """The interface for that caller, or None while no module provides it."""
        if name not in self._offers:
            return None
        return ProvidedInterface(name, self.find, caller, self._audit)

    def find(
        self, name: str, authority: Authority = NO_AUTHORITY
    ) -> tuple[object, str, bool] | None:
        """The provider's own object, with methods that use that authority, its module's name, and
        whether that is trusted.
        """
        for offer in self._offers.get(name, ()):
            if (found := offer.get(name, authority)) is not None:
                return found, offer.provider, offer.is_trusted
        return None

    def choices(self) -> list[InterfaceChoice]:
        return [self._choice(name, offers) for name, offers in sorted(self._offers.items())]

    def _choice(self, name: str, offers: list[_Offer]) -> InterfaceChoice:
        first, *rest = (offer.provider for offer in offers)
        preferred = self._preferred.get(name)
        if first == preferred:
            reason = "the settings say so"
        elif preferred is not None:
            reason = f"the settings say {preferred}, which does not provide it now"
        else:
            reason = "it was approved first" if rest else "it is the only one"
        return InterfaceChoice(interface=name, provider=first, others=tuple(rest), reason=reason)


class ProvidedInterface:
    """An interface as another module uses it, with each call recorded.

    Its methods are coroutines; it is false once no module provides the interface.
    """

    def __init__(
        self,
        name: str,
        find: Callable[[str, Authority], tuple[object, str, bool] | None],
        caller: CallingModule,
        audit: ModuleAudit,
    ) -> None:
        self._name, self._find, self._caller, self._audit = name, find, caller, audit

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
            provider, module, is_trusted = found or (None, "", True)
            what = f"{self._name}.{method}"
            with self._audit.call("module", self._caller.name, module, what, own) as answer:
                if provider is None:
                    raise ModuleFailedError(
                        f"no module provides {self._name} any more; ask get_interface again, which "
                        "then returns None"
                    )
                try:
                    function = getattr(provider, method)
                except AttributeError as error:
                    raise ActRefusedError(str(error)) from error
                try:
                    answer.value = await function(*args, **kwargs)
                finally:
                    pass_on(delegated.taint, own.taint)  # what it has read, its answer may hold
                    if not is_trusted:
                        own.taint.read_words(f"an answer of {self._name}", "imported")
            return answer.value

        return call
