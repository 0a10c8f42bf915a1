"""The prompt of one turn: who is asked, within which bounds, and what goes into it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from parachuted.errors import ActRefusedError, NotFoundError
from parachuted.modules import Module

from .modes import Mode, mode_of
from .permissions import named_in, narrowing_of, within_agent, within_workspace
from .prompt import ComposedPrompt, compose
from .prompt_parts import AgentNote, PromptOrder, PromptParts, name_in, skill_of
from .session import Session
from .turn import TurnRequest
from .turn_documents import prompt_event
from .turn_events import Event
from .turn_workspaces import find_workspace


class TurnPrompts:
    """Makes prompts of these parts."""

    def __init__(self, module: Module, parts: PromptParts) -> None:
        self._module, self._parts = module, parts

    async def preview(self, session: Session, request: TurnRequest) -> dict[str, object]:
        """The prompt that a message would be asked with, as text, and what it is made of."""
        mode = mode_of(session.mode)
        order, prompt = await self.make(request, session, mode, is_preview=True)
        return {"prompt": prompt.text + prompt.with_message, **await self.event(order, prompt)}

    async def make(
        self,
        request: TurnRequest,
        session: Session,
        mode: Mode,
        *,
        is_preview: bool = False,
    ) -> tuple[PromptOrder, ComposedPrompt]:
        """What a message is asked with. NotFoundError and ActRefusedError: there is no such agent,
        or it may not be.
        """
        folder = (session.working_directory or "").strip("/")
        limits = await self._workspace_limits(session)
        agent = await self._agent(request, session, folder, limits)
        narrowing = narrowing_of(
            session.permissions, mode, folder=folder, context_folders=session.context_folders
        )
        narrowing = within_agent(narrowing, agent.tools if agent else None)
        narrowing = within_workspace(narrowing, limits)
        resources = await self._module.agent(mode.agent).resources(
            working_directory=own_folder(mode, folder), narrowing=narrowing
        )
        if narrowing.skills is not None:
            left = tuple(one for one in resources.skills if one.name in narrowing.skills)
            resources = replace(resources, skills=left)
        is_persons = (request.is_typed or request.is_again) and not request.is_shared
        order = PromptOrder(
            session=session,
            mode=mode,
            narrowing=narrowing,
            resources=resources,
            skill=skill_of(request.message, resources.skills) if is_persons else None,
            message=request.message,
            system_prompt=request.system_prompt,
            agent=agent,
            folder=folder,
            is_preview=is_preview,
        )
        is_own = mode.name == "maintenance"  # the agent has its own words
        return order, compose(() if is_own else await self._parts.gather(order))

    async def event(self, order: PromptOrder, prompt: ComposedPrompt) -> Event:
        """What went into a prompt, as apps read it."""
        allowed = named_in(await self._workspace_limits(order.session), "agents")
        names = await self._parts.agent_names(order.folder)
        return prompt_event(
            prompt,
            order.agent,
            [one for one in names if allowed is None or one in allowed],
            order.resources,
            is_custom=bool(order.system_prompt),
            is_trusted=order.mode.name == "trusted",
        )

    async def _agent(
        self,
        request: TurnRequest,
        session: Session,
        folder: str,
        limits: Mapping[str, str | list[str]],
    ) -> AgentNote | None:
        """The agent that is asked for: by the request, at the beginning of the message, or by the
        session. ActRefusedError: the session's workspace has it not.
        """
        if request.is_shared:
            return None
        name = request.agent or session.agent
        first = request.message.split(maxsplit=1)[:1]
        if first and first[0].startswith("@"):
            named = first[0][1:]
            name = named if named in await self._parts.agent_names(folder) else name
        if not name:
            return None
        agent = await self._parts.find_agent(name, folder)
        allowed = named_in(limits, "agents")
        # A note says in its frontmatter what it likes: its file's name is what was allowed.
        if allowed is not None and name_in(agent.path, folder) not in allowed:
            raise ActRefusedError(
                f"the workspace {session.workspace} has no agent {name[:80]!r}; its capabilities "
                "name those that it has"
            )
        return agent

    async def _workspace_limits(self, session: Session) -> Mapping[str, str | list[str]]:
        """What the session's workspace leaves of MCP servers, skills and agents; one that is gone
        takes nothing.
        """
        if not session.workspace:
            return {}
        try:
            return (await find_workspace(self._module, session.workspace))["capabilities"]
        except NotFoundError:
            return {}


def own_folder(mode: Mode, folder: str) -> str:
    """The folder that is its agent's own, or empty."""
    return folder if mode.name == "workspace" else ""
