"""What running modules offer one another and the daemon."""

from __future__ import annotations

from dataclasses import dataclass, field

from parachuted.modules.hosting.event_publisher import EventPublisher
from parachuted.modules.hosting.host import ModuleHost
from parachuted.modules.hosting.interfaces import Interfaces
from parachuted.modules.hosting.route_table import ModuleRouteTable
from parachuted.modules.hosting.schedules import ModuleScheduler


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
        self.scheduler.remove(host)
