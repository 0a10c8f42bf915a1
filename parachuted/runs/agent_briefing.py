"""Agent briefing: what an agent gets for one run: prompt, system prompt, files, tools."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from pathlib import PurePosixPath
from typing import Annotated, Any, TypeAlias, cast

from pydantic import ConfigDict, Field, TypeAdapter, ValidationError

from parachuted.access.grant import Grant
from parachuted.agents.job import (
    ConversationInput,
    PromptFile,
    QuestionStep,
    Step,
    Tool,
    ToolResult,
)
from parachuted.context import ContextAssembly
from parachuted.errors import ActRefusedError, ParachuteError
from parachuted.runs.agent_tools import (
    MCP_SERVERS,
    DeclaredTool,
    ModuleTools,
    ServerTools,
    is_for,
    module_tools,
    server_tools,
)
from parachuted.runs.note_tools import NoteTools
from parachuted.runs.requested_run import RequestedRun
from parachuted.runs.skills import TOOL, AgentSkills, Skill, skill_tool
from parachuted.suggestions import Suggestions, suggestion_tool
from parachuted.suggestions.orchestrating import Orchestrator
from parachuted.tools.definitions import an_object
from parachuted.vault import printable

_MEDIA_TYPES = {
    **{f".{kind}": f"image/{kind}" for kind in ("png", "jpeg", "gif", "webp")},
    ".jpg": "image/jpeg",
    ".pdf": "application/pdf",
}
_MOST_FILES = 20
_LARGEST_FILE, _LARGEST_ALL = 5 << 20, 16 << 20  # as the Messages API takes them
_LONGEST_TEXT = 100_000
_LONGEST_CONTEXT = 64_000
_CONTEXT_FILES = ("AGENTS.md", "CLAUDE.md")
_IN_A_CONTAINER = """
You work in a container. /vault is your own copy of the notes that you may see; what you change in it is taken over into the vault when you have
ended, as far as you may write there; what you may not write is proposed to the person or left out. Nothing else that you make there outlasts this run.
"""  # noqa: E501


@dataclass(frozen=True, slots=True)
class AgentBriefing:
    skills: AgentSkills
    tools: AgentTools
    contexts: ContextAssembly

    async def prepare(self, run: RequestedRun) -> None:
        """Give the run its account and its job. Raises ActRefusedError as a hook objects."""
        request, options, config = run.request, run.request.options, run.request.definition.config
        if request.is_strangers:
            run.taint.read("the prompt")
        if request.session is not None:
            run.parts.taints.recall(request.session, run.taint)
        prompt = await self._prompt(run)
        skills = await self.skills.find(config, options.working_directory, run.bounds)
        if (named := options.narrowing.skills) is not None:
            skills = tuple(skill for skill in skills if skill.name in named)
        system = await self._system_prompt(run, skills)
        if options.attachments:
            run.tell_follower()  # who follows it answers what reading them asks
            run.taint.read("an attachment")
        words, files = await load_attachments(options.attachments, run.vault.read_bytes)
        run.brief(
            prompt,
            system,
            await self.tools.of_run(run, skills),
            request.limits,
            model=config.model,
            said_first=words,
            session_id=request.session,
            conversation=request.input,
            files=files,
            history=options.history,
            pool=request.pool,
            hold=run.hold if request.input is not None else None,
            grant=run.grant,
        )

    async def _prompt(self, run: RequestedRun) -> str:
        request = run.request
        if request.input is None:
            return await run.hooks.prompt(request.prompt)
        source = run.sessions.start_of(request.session and run.talks_in)
        context = () if source is None else await run.hooks.session_started(source)
        prompt = await run.hooks.prompt(request.prompt, source="user")
        return "\n\n".join(filter(None, [request.options.context.rstrip(), prompt, *context]))

    async def _system_prompt(self, run: RequestedRun, skills: Sequence[Skill]) -> str:
        definition, options = run.request.definition, run.request.options
        parts = [definition.system_prompt]
        if skills:
            listed = "\n".join(f"- {skill.name}: {skill.description}" for skill in skills)
            parts.append(f"\nYour skills; call {TOOL} with a name to get one:\n{listed}\n")
        if definition.config.load_cwd_claude_md and options.working_directory is not None:
            parts.append(await self._folder_context(run, options.working_directory))
        if options.context_folders:
            loaded = await self.contexts.load(
                options.context_folders, sees=run.bounds.may_read, read=run.vault.read
            )
            parts.append(f"\n{loaded.text}" if loaded.text else "")
        if run.missing is not None:
            parts.append(f"\nNow {run.missing}.\n")
        return "".join([*parts, _IN_A_CONTAINER if run.grant.needs_container else ""])

    async def _folder_context(self, run: RequestedRun, folder: str) -> str:
        for name in _CONTEXT_FILES:
            path = f"{folder}/{name}"
            if not run.grant.may_read(path):  # what the agent did not ask for asks no person
                continue
            with contextlib.suppress(ParachuteError):
                text = (await run.vault.read(path))[:_LONGEST_CONTEXT]
                return f"\nOf the folder that you work in, {printable(path)} says:\n\n{text}\n"
        return ""


@dataclass(frozen=True, slots=True)
class AgentTools:
    """A run's tools: the daemon's, those of modules, and of other people's MCP servers."""

    modules: ModuleTools
    servers: ServerTools | None = None

    def callable_tools(self, asked: Sequence[str], agent: str) -> tuple[str, ...]:
        """Without tools for other agents, with those of MCP servers. Blocks on the disk."""
        known = [(spec.name, is_for(of, spec, agent)) for of, spec in self.modules.tools()]
        asked = [name for name in asked if (name, True) in known or (name, False) not in known]
        if MCP_SERVERS not in asked:
            return tuple(asked)
        of_servers = [tool.name for tool in self.servers.tools()] if self.servers else []
        return (*(name for name in asked if name != MCP_SERVERS), *of_servers)

    def server_names(self, grant: Grant) -> tuple[str, ...]:
        """The MCP servers whose tools a run of that grant could call. Blocks on the disk."""
        offered, allowed = self.servers.tools() if self.servers else (), set(grant.tools)
        return tuple(sorted({tool.server for tool in offered if tool.name in allowed}))

    async def of_run(self, run: RequestedRun, skills: Sequence[Skill]) -> Sequence[Tool]:
        request, definition = run.request, run.request.definition
        if not definition.has_tools:
            return ()
        notes = NoteTools(vault=run.vault, writing=lambda _what, _path: nullcontext(run.id))
        tools = [
            *(notes.tools(may_write=request.may_write) if request.may_read else ()),
            *([skill_tool(skills)] if skills else []),
            *(definition.tools(run.taint) if definition.tools else ()),
        ]
        if request.input is not None:
            tools.append(question_tool(request.input, run.stepped, run.parts.answer_s))
        if request.may_read:
            suggesting = replace(run.suggestions.run, read=notes.seen.digests)
            tools.append(suggestion_tool(run.suggestions, suggesting))
            tools += _orchestrating_tools(run)

        async def call_module(module: str, tool: str, arguments: Mapping[str, object]) -> object:
            """Its rights are its own, but it writes nothing that the run may not write now."""
            answer = await self.modules.call_tool(module, tool, arguments, run.tool_caller())
            if not self.modules.trust_of(module).is_trusted:
                run.taint.read(f"an answer of {tool}, of the module {module}")
            return answer

        taken = [tool.name for tool in tools]
        tools += module_tools(
            self._offered(run), run.grant.tools, definition.module or "", taken, call_module
        )
        # servers were approved for the whole vault: a run that may read only some of it has none
        is_limited = run.request.caller.grant.is_limited
        if self.servers is None or is_limited or not any("__" in name for name in run.grant.tools):
            return tools
        offered = await asyncio.to_thread(self.servers.tools)
        run.server_calls = self.servers.open()
        return [*tools, *server_tools(offered, run.grant.tools, tools, run.server_calls, run.taint)]

    def _offered(self, run: RequestedRun) -> Iterator[tuple[str, DeclaredTool]]:
        """All of its own module's; of others, what may act and provides an interface it may use."""
        allowed, definition = run.grant.interfaces, run.request.definition
        for module, spec in self.modules.tools():
            if not is_for(module, spec, definition.name):
                continue
            is_provided = allowed is None or not set(allowed).isdisjoint(
                self.modules.trust_of(module).provides
            )
            may_act = run.request.may_write or not spec.writes
            if module == definition.module or (may_act and is_provided):
                yield module, spec


def _orchestrating_tools(run: RequestedRun) -> tuple[Tool, ...]:
    config, suggestions = run.request.definition.config, run.parts.suggestions
    if not config.orchestrates or not isinstance(suggestions, Suggestions):
        return ()
    return Orchestrator(
        suggestions,
        grant=run.grant,
        of=config.orchestrates,
        run=run.id,
        causes=run.task.causes,
        taint=run.taint,
    ).tools()


async def load_attachments(
    paths: Sequence[str], read: Callable[[str], Awaitable[bytes]]
) -> tuple[str, tuple[PromptFile, ...]]:
    """Texts go as words before the prompt, other files as they are. Raises ActRefusedError."""
    if len(paths) > _MOST_FILES:
        raise ActRefusedError(f"at most {_MOST_FILES} files go with a message")
    words, files, size = [], [], 0
    for path in paths:
        data = await read(path)
        size += len(data)
        media_type = _MEDIA_TYPES.get(PurePosixPath(path).suffix.lower())
        if len(data) > _LARGEST_FILE or size > _LARGEST_ALL:
            raise ActRefusedError(
                f"{printable(path)} is too large: a file that goes with a message has at most "
                f"{_LARGEST_FILE >> 20} MB, and all together {_LARGEST_ALL >> 20}"
            )
        if media_type is not None:
            files.append(PromptFile(path=path, media_type=media_type, data=data))
        else:
            try:
                text = data.decode()
            except UnicodeDecodeError as error:
                kinds = "neither text nor a picture (png, jpeg, gif, webp) nor a PDF"
                raise ActRefusedError(f"{printable(path)} is {kinds}") from error
            cut = "\n(it goes on; read_note reads all of it)" if len(text) > _LONGEST_TEXT else ""
            words.append(f"The file {printable(path)}:\n\n{text[:_LONGEST_TEXT]}{cut}\n\n")
    return "".join(words), tuple(files)


QUESTION_TOOL = "AskUserQuestion"
_UNANSWERED = "The person has not answered. Go on without the answer, or say what you need."
_LONGEST_ANSWER = 32_000
_Words: TypeAlias = Annotated[str, Field(max_length=_LONGEST_ANSWER)]
_ANSWERS = TypeAdapter[str | dict[str, str | list[str]]](
    _Words | Annotated[dict[str, _Words | list[_Words]], Field(min_length=1)],
    config=ConfigDict(strict=True, defer_build=True),
)
_OPTION = an_object("label", label="string", description="string")
_QUESTION = an_object(
    "question",
    question={"type": "string", "description": "The whole question."},
    header={"type": "string", "description": "One or two words for it."},
    options={"type": "array", "maxItems": 4, "items": _OPTION},
    multiSelect="boolean",
)
_QUESTIONS = an_object(
    "questions", questions={"type": "array", "minItems": 1, "maxItems": 4, "items": _QUESTION}
)


def question_tool(said: ConversationInput, tell: Callable[[Step], None], wait_s: float) -> Tool:
    async def ask(arguments: Mapping[str, object]) -> ToolResult:
        questions = tuple(map(_question, cast("list[Any]", arguments["questions"])))
        name = f"q-{secrets.token_hex(4)}"
        answer: asyncio.Future[str] = asyncio.get_running_loop().create_future()

        def take(value: object) -> bool:
            if answer.done():
                return False
            answer.set_result(_answers(value))
            return True

        said.expect(name, take)
        tell(QuestionStep(id=name, questions=questions))
        try:
            async with asyncio.timeout(wait_s):
                return ToolResult(text=await answer)
        except TimeoutError:
            return ToolResult(text=_UNANSWERED, is_error=True)
        finally:
            said.forget(name)

    return Tool(
        name=QUESTION_TOOL,
        description="Ask the person up to four questions, each with options to choose from, and "
        "wait for the answers.",
        schema=_QUESTIONS,
        call=ask,
    )


def _question(question: Mapping[str, Any]) -> dict[str, object]:
    """With all that apps expect."""
    options = [{"description": "", **option} for option in question.get("options", ())]
    return {"header": "", "multiSelect": False, **question, "options": options}


def _answers(value: object) -> str:
    """A text, or by question a text or a list of texts. Raises ActRefusedError."""
    try:
        answers = _ANSWERS.validate_python(value)
    except ValidationError as error:
        raise ActRefusedError(
            f"an answer is a text of at most {_LONGEST_ANSWER:,} characters, or a mapping of "
            "question to a text or a list of texts"
        ) from error
    if isinstance(answers, str):
        return answers
    text = "\n".join(
        f"{question}: {answer if isinstance(answer, str) else ', '.join(answer)}"
        for question, answer in answers.items()
    )
    if len(text) > _LONGEST_ANSWER:
        raise ActRefusedError(f"an answer has at most {_LONGEST_ANSWER:,} characters in all")
    return text
