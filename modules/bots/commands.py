"""What a paired person can write to the bot beside what is for the agent."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from parachuted.errors import ActRefusedError, NotFoundError
from parachuted.modules import Module

from .settings import READING

if TYPE_CHECKING:
    from .answers import Answer
    from .conversations import Conversations
    from .pairing import Refusals
    from .store import Update

_COMMAND: Final = re.compile(r"\s*[/!]([a-z]+)(?:@\S+)?(?:\s+|\Z)(.*)", re.DOTALL | re.IGNORECASE)
_HELP: Final = """\
/new, or /new TEXT, begins another conversation here
/link NAME, a title or an id, goes on with one that this chat had
/unlink lets this chat go; its conversation stays
/stop stops the answer
/status says what this conversation is, and what it may
/journal TEXT writes into the journal
/ask QUESTION asks beside the conversation
A `!` does for the slash."""
_WRITING: Final = "journal"
_WRITING_TOOL: Final = "daily-create"
_MAY_NOT_WRITE: Final = (
    "groups may not write into the journal: the owner of this bot allows it with the tool "
    f"`{_WRITING_TOOL}` among the defaults for groups"
)
NOT_RUNNING: Final = (
    "{title} is not running here, and what you wrote is not kept. `parachute modules enable {name}`"
    " starts it; where it is not installed, `parachute modules install parachute://{name} --trust "
    "trusted` installs it"
)
_MOST_FOUND: Final = 100
_MOST_LISTED, _FIRST_WORDS, _SHORT_ID = 5, 60, 8
COMMANDS: Final = frozenset(re.findall(r"^/([a-z]+)", _HELP, re.MULTILINE)) | {"help", "start"}
AT_ONCE: Final = frozenset({"stop", "status"})
"""Commands that do not wait until the present answer has ended."""


def command_of(text: str) -> tuple[str, str]:
    match = _COMMAND.match(text)
    return (match[1].lower(), match[2].strip()) if match else ("", text)


class Commands:
    def __init__(self, module: Module, conversations: Conversations, refusals: Refusals) -> None:
        self._module, self._conversations, self._refusals = module, conversations, refusals

    async def run(self, update: Update, answer: Answer) -> str | None:
        """Do what a message commands, and return what to say; None: it is for the agent."""
        name, rest = command_of(update.incoming.text)
        if not name:
            return None
        if name not in COMMANDS:
            return f"There is no command `/{name[:40]}`; `/help` lists them."
        session = await self._conversations.session_of(update.incoming.chat_id)
        said = _status(session) if name == "status" else _HELP
        match name:
            case "new" | "unlink":
                said = await self._leave(update, session)
                if name == "new" and not (rest or update.incoming.attachments):
                    said = "A new conversation begins with your next message."
                elif name == "new":
                    await self._conversations.converse(update, answer)
                    said = ""
            case "link":
                said = await self._link(update, rest)
            case "stop":
                said = await self._stop(session)
            case "journal":
                said = await self._write_entry(update, rest)
            case "ask":
                said = await self._ask(update, answer, rest)
        return said

    async def _leave(self, update: Update, session: Mapping[str, Any] | None) -> str:
        if session is not None and not update.session_id:  # else it was begun before a restart
            await self._conversations.service.link(session["id"], None)
        return "This chat has no conversation any more; your next message begins one."

    async def _stop(self, session: Mapping[str, Any] | None) -> str:
        if session is not None:
            with suppress(NotFoundError):
                await self._conversations.service.stop_turn(session["id"])
                return "Stopped."
        return "Nothing is running here."

    async def _ask(self, update: Update, answer: Answer, question: str) -> str:
        if not question:
            raise NotFoundError("`/ask` needs a question")
        made = update.session_id
        if not made:
            made = (await self._conversations.create(update.incoming, is_linked=False))["id"]
        await self._conversations.converse(update, answer, made)
        return ""

    async def _link(self, update: Update, wanted: str) -> str:
        """Go on with a session that this chat had: what others wrote, and what they may, is linked
        to it on the page.
        """
        incoming, service = update.incoming, self._conversations.service
        if not wanted:
            raise NotFoundError("`/link` needs a title or an id")
        found = {one["id"] for one in await service.get_sessions(wanted, _MOST_FOUND)}
        known = await self._conversations.sessions_here(incoming)
        chosen = (
            [one for one in known if (one["title"] or "").casefold() == wanted.casefold()]
            or [one for one in known if one["id"].startswith(wanted)]
            or [one for one in known if one["id"] in found]
        )
        if not chosen and (found or await self._is_session(wanted)):
            self._refusals.add(incoming, "link")
        if len(chosen) != 1:
            raise NotFoundError(_which(chosen))
        session = chosen[0]
        link = {"platform": update.platform, "chat_id": incoming.chat_id}
        await service.link(session["id"], {**link, "chat_type": incoming.chat_type})
        return f"This chat goes on with “{session['title']}”."

    async def _is_session(self, session_id: str) -> bool:
        with suppress(NotFoundError):
            return bool(await self._conversations.service.get(session_id))
        return False

    async def _write_entry(self, update: Update, text: str) -> str:
        journal: Any = self._module.get_interface("JournalInterface")
        if journal is None:
            raise NotFoundError(NOT_RUNNING.format(title="Daily", name="daily"))
        if not text:
            raise NotFoundError("`/journal` needs the words of the entry")
        tools = self._conversations.tools_in(update.incoming)
        if tools is not None and _WRITING_TOOL not in tools:
            raise ActRefusedError(_MAY_NOT_WRITE)
        if update.session_id:  # begun before a restart: it is not written twice
            return "The daemon was restarted while it wrote this; see whether it is in the journal."
        update.session_id = _WRITING
        await self._conversations.save(update)
        await journal.create(f"{text}\n\n*{self._conversations.title}*")
        return "It is in the journal."


def _which(found: Sequence[Mapping[str, Any]]) -> str:
    if not found:
        return "this chat had no conversation of that title or id; others are linked on the page"
    lines = []
    for one in found[:_MOST_LISTED]:
        said = one["messages"]
        words = str(said[0]["content"])[:_FIRST_WORDS] if said else "nothing was said yet"
        lines.append(
            f"- `{one['id'][:_SHORT_ID]}`, {one['createdAt'][:10]}: {one['title']}: {words}"
        )
    return "\n".join(["which of these? `/link` takes its id", "", *lines])


def _status(session: Mapping[str, Any] | None) -> str:
    if session is None:
        return "This chat has no conversation yet; your next message begins one."
    said = session["metadata"].get("permissions") or {}
    lines = [
        f"**{session['title'] or 'Without a title'}**, {session['messageCount']} messages",
        f"Mode: {session['mode']}",
        f"Folders: {_listed(said.get('allowed_folders', ('those of its mode',)))}",
        f"Tools: {_listed(said.get('allowed_mcps'))}",
        f"May be read: {_readable(said.get('allowed_folders'), said.get('allowed_mcps'))}",
        f"May: {_listed(said.get('capabilities'))}",
    ]
    return "\n".join(f"{line}  " for line in lines)


def _readable(folders: Any, tools: Any) -> str:  # noqa: ANN401  as a session's metadata has them
    found = ["these folders"] if folders is None or folders else []
    asked = [one for one in READING if tools is None or one in tools]
    modules = dict.fromkeys(one.partition("-")[0].title() for one in asked)
    found += [f"what {module} finds in the notes" for module in modules]
    return " and ".join(found) or "no notes"


def _listed(names: Any) -> str:  # noqa: ANN401  as a session's metadata has it
    return "all" if names is None else ", ".join(names) or "none"
