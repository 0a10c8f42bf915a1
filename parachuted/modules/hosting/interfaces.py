"""Which module provides an interface, and proxies that outlive it: the provider may restart, so
`ProvidedInterface` looks it up at each call.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from parachuted.access.caller import Caller
from parachuted.errors import ModuleFailedError
from parachuted.modules.hosting.audited import ModuleAudit
from parachuted.modules.hosting.host import Args, InterfaceMethods, ModuleHost
from parachuted.modules.registry.approved import ApprovedModule


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
