"""The base class of a module."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

from parachuted.access.agent_config import AgentConfig
from parachuted.modules.results import to_json
from parachuted.modules.services import Services


class Module:
    """The base class of a module.

    Its methods become routes, tools and listeners: `@route`, `@mcp_tool`, `@event`, `@schedule`.
    What a class leaves open, its manifest.yaml declares. Where both declare something they must
    agree, since a person approved the manifest.
    """

    name: ClassVar[str] = ""
    version: ClassVar[str] = ""
    description: ClassVar[str] = ""
    permissions: ClassVar[Mapping[str, object]] = {}
    agents: ClassVar[Mapping[str, AgentConfig | Mapping[str, object]]] = {}
    provides: ClassVar[Sequence[str]] = ()

    def __init__(self, services: Services) -> None:
        self._services = services
        self.vault = services.vault
        self.config = services.config
        self.state = services.state
        self.log = services.log

    def publish(self, event: str, /, **data: object) -> None:
        """Say that something happened.

        The name begins with the module's own: `daily.entry.created`. The data must be JSON.
        """
        self._services.publish(event, {name: to_json(value) for name, value in data.items()})

    def get_interface(self, name: str) -> object | None:
        """The object that another module provides under that name, or None: ask each time, for
        modules come and go.
        """
        return self._services.get_interface(name)

    async def run_agent(self, agent: str, prompt: str, /, **options: object) -> str:
        """Let one of the module's agents answer the prompt, and return its words."""
        return await self._services.run_agent(agent, prompt, options)

    async def suggest(
        self,
        action: str,
        path: str,
        payload: Mapping[str, object] | None = None,
        /,
        *,
        reasoning: str,
        base: str | None = None,
    ) -> str:
        """Suggest a change that a person is to decide on, and return its id.

        `action`: create, update, delete or link.

        `payload` is `{"text": ...}`, `{"section": ..., "content": ..., "append": True}`, `{"key":
        ..., "value": ...}` or, for a link, `{"to": ...}`. The module must be able to read the file;
        it need not be able to write it. `base`: the digest that it decided on.
        """
        return await self._services.suggest(action, path, payload or {}, reasoning, base)

    async def on_enable(self) -> None:
        """Called once when the module begins to serve; what it raises marks the module as
        failed.
        """

    async def on_disable(self) -> None:
        """Called once when it stops."""

    def interfaces(self) -> Mapping[str, object]:
        """The objects behind `provides`: by default the module itself."""
        return dict.fromkeys(self.provides, self)


def is_every_modules(name: str, found: object = None) -> bool:
    """Whether all modules have a method of that name, which uses the module's own rights and so
    cannot be an interface method.

    A class may define its own `suggest`, as a BrainInterface does; `found` is the object, if
    available.
    """
    if name == "suggest" and (
        not isinstance(found, Module) or type(found).suggest is not Module.suggest
    ):
        return False
    return hasattr(Module, name)
