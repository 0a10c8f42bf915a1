"""The base class of a module."""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Literal, TypeVar

from parachuted.access.agent_config import AgentConfig
from parachuted.errors import ModuleFailedError
from parachuted.modules.results import Finding, to_json
from parachuted.modules.scheduling import Schedules
from parachuted.modules.services import CurrentCall, ModuleAgent, Services, read_answer, with_schema
from parachuted.modules.settings import read_settings

Result = TypeVar("Result")


class Module:
    """The base class of a module.

    Its methods become routes, tools and listeners: `@route`, `@mcp_tool`, `@event`, `@schedule`.
    What a class leaves open, its manifest.yaml declares. Where both declare something they must
    agree, since a person approved the manifest.

    `Settings` is a dataclass or a model of pydantic whose fields all have a default;
    `self.settings` is one, with what the person wrote under `config:` in modules.yaml.
    """

    name: ClassVar[str] = ""
    version: ClassVar[str] = ""
    description: ClassVar[str] = ""
    permissions: ClassVar[Mapping[str, object]] = {}
    agents: ClassVar[Mapping[str, AgentConfig | Mapping[str, object]]] = {}
    provides: ClassVar[Sequence[str]] = ()
    Settings: ClassVar[type | None] = None

    def __init__(self, services: Services) -> None:
        self._services = services
        self.vault = services.vault
        self.folders = services.folders
        self.config = services.config
        self.settings: Any = read_settings(type(self).Settings, services.config)
        self.state = services.state
        self.log = services.log
        self.activity = services.activity
        self.schedules = Schedules(self, services.schedules)
        self._spawned = ModuleTasks(lambda error: self.log.error("its work failed", exc_info=error))

    async def route_secret(self, path: str) -> str:
        """What callers of the route at that path show in its `secret_header`; empty: no one is let
        in.
        """
        del path
        return ""

    def publish(self, event: str, /, **data: object) -> None:
        """Say that something happened.

        The name begins with the module's own: `daily.entry.created`. The data must be JSON.
        """
        self._services.publish(event, {name: to_json(value) for name, value in data.items()})

    def on_behalf_of(
        self, person: str, *, is_strangers: bool = False
    ) -> AbstractContextManager[None]:
        """For `with`: inside, and in all that begins there, the module acts for a person who asked
        it from elsewhere, such as in a chat. It is new work of theirs: their words are the
        prompt's, what is asked is asked by them, and nothing that was read before marks it.

        `is_strangers`: a stranger's text is part of it. Raises ActRefusedError, unless the module
        is trusted, its manifest says `people: true`, and the module itself began the work.
        """
        return self._services.on_behalf_of(person, is_strangers=is_strangers)

    def get_interface(self, name: str) -> object | None:
        """The object that another module provides under that name, or None: ask each time, for
        modules come and go.
        """
        return self._services.get_interface(name)

    async def run_agent(self, agent: str, prompt: str, /, **options: object) -> str:
        """Let one of the module's agents answer the prompt, and return its words."""
        return await self._services.runs.run(agent, prompt, options)

    def agent(self, name: str) -> ModuleAgent:
        """One of the module's agents: `run = await self.agent("responder").start(prompt)`, then
        `async for step in run`, `await run.result()`, `await run.stop()`.
        """
        return ModuleAgent(name, self._services.runs)

    async def ask(
        self,
        prompt: str,
        *,
        schema: Mapping[str, object] | None = None,
        max_usd: float | None = None,
        system: str | None = None,
        conversation: bool = False,
    ) -> Any:  # noqa: ANN401  a text, or what the schema describes
        """A model's answer to one question, as text, or as JSON that fits the `schema`.

        It has no tools, and counts against the budgets of runs and money as any run does; with
        `conversation`, where a person's request began the work, against a conversation's. Raises
        AgentUnavailableError where there is no model or a budget is used up, AgentFailedError.
        """
        asked = prompt if schema is None else with_schema(prompt, schema)
        answer = await self._services.runs.ask(asked, system, max_usd, conversation=conversation)
        return answer if schema is None else await read_answer(answer, schema)

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
        it need not be able to write it. `base`: the digest that it decided on. ActRefusedError,
        EditRefusedError, NotFoundError, PathRefusedError.
        """
        return await self._services.suggest(action, path, payload or {}, reasoning, base)

    async def resolve_suggestion(
        self, suggestion_id: str, decision: Literal["approve", "reject"], /
    ) -> str:
        """Decide on a suggestion as the person for whom the module acts; returns its status, such
        as `approved`.

        Inside `on_behalf_of` alone, where no stranger's text is part of it. A module decides on no
        suggestion of its own. ActRefusedError, NotFoundError; EditRefusedError: it was decided.
        """
        return await self._services.resolve_suggestion(suggestion_id, decision)

    @property
    def has_model(self) -> bool:
        """Whether the daemon has a model; without one, agents of modules do not run."""
        return self._services.has_model

    @property
    def current_call(self) -> CurrentCall:
        """Which run of an agent the present call is part of, and whose words led to it: ask before
        others' texts are read, and again afterwards.

        Raises ActRefusedError when the caller's rights have ended.
        """
        return self._services.current_call

    @property
    def data_folder(self) -> Path:
        """A folder of the module's own, outside the vault: for what can be made again, such as an
        index.

        It is there, may be empty at any start, and stays when the module is removed.
        StorageFailedError.
        """
        return self._services.data_folder

    def spawn(
        self,
        work: Callable[..., Coroutine[Any, Any, Result]],
        /,
        *args: object,
        name: str | None = None,
    ) -> asyncio.Task[Result]:
        """Start work that goes on after the present call, on that call's behalf.

        It ends with the module, and its failure is the module's problem.
        """
        return self._spawned.begin(work(*args), name or getattr(work, "__name__", None))

    async def doctor(self) -> Sequence[Finding]:
        """What is wrong with the module's own files, for `parachute doctor`: override it."""
        return ()

    async def on_enable(self) -> None:
        """Called once when the module begins to serve; what it raises marks the module as
        failed.
        """

    async def on_disable(self) -> None:
        """Called once when it stops."""

    async def find_para(self, para_id: str) -> Mapping[str, object] | None:
        """The thing of the module's own that has that id, or None: override it where there are any.

        `para_id`, `type`, `path` (a file that the caller may read, or None), `title`, and `url`, a
        path of this API, or None. What it finds is what `GET /api/para/{id}` answers.
        """
        del para_id
        return None

    def interfaces(self) -> Mapping[str, object]:
        """The objects behind `provides`: by default the module itself."""
        return dict.fromkeys(self.provides, self)


class ModuleTasks:
    """Tasks of a module's code that have not ended; `failed` is called with each error."""

    def __init__(self, failed: Callable[[BaseException], None] = lambda _error: None) -> None:
        self.running = set[asyncio.Task[Any]]()
        self.failed = failed

    def begin(
        self,
        work: Coroutine[Any, Any, Result],
        name: str | None = None,
        context: contextvars.Context | None = None,
    ) -> asyncio.Task[Result]:
        task = asyncio.get_running_loop().create_task(_contained(work), name=name, context=context)
        self.running.add(task)
        task.add_done_callback(partial(self._end, work))
        return task

    def _end(self, work: Coroutine[Any, Any, Any], task: asyncio.Task[Any]) -> None:
        self.running.discard(task)
        error = None if task.cancelled() else task.exception()
        if error is not None:
            self.failed(error)
        work.close()  # it may have been cancelled before it started


def spawned_by(module: Module) -> ModuleTasks:
    return module._spawned  # noqa: SLF001  of this file


async def _contained(work: Coroutine[Any, Any, Result]) -> Result:
    """Convert errors like SystemExit, so that a module cannot end the daemon."""
    try:
        return await work
    except (Exception, asyncio.CancelledError):
        raise
    except BaseException as error:
        raise ModuleFailedError(
            f"the module raised {type(error).__name__}; only the daemon may end the process"
        ) from error
