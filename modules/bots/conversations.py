"""Conversations: a message of a chat becomes a turn of its session, and the answer goes back."""

from __future__ import annotations

import asyncio
import base64
import re
from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from typing import Any, Final, Literal

from parachuted.errors import ConflictError, EditRefusedError, NotFoundError, ParachuteError
from parachuted.modules import Finding, Module, reading

from .answers import Answer, Pacing, TurnText, patient
from .commands import COMMANDS, NOT_RUNNING, Commands, command_of
from .connector import Connector, Incoming, UnansweredError
from .pairing import Refusals
from .settings import SettingsFile
from .splitting import split
from .store import AskedQuestion, Store, Update

_BUSY_S: Final = 0.5
_AT_FIRST_S, _WAIT_S = 0.4, 4.0
_MOST_OPTIONS: Final = 8
_DECISIONS: Final = ("Approve", "Deny")
_MOST_SUGGESTIONS: Final = 5
_CHANGE: Final = "What would change"
_NEW_LINE: Final = re.compile(r"\+(?!\+\+ )|`{3,}")
_MORE_ROOM: Final = 200
_EMBED: Final = re.compile(r"!\[\[([^\]|#\n]+\.(?!md\b)[A-Za-z0-9]{1,8})(?:\|[^\]\n]*)?\]\]")
_MOST_FILES: Final = 5
_INTERRUPTED: Final = (
    "An answer was cut off while it was sent to you, and may stand above in part. The whole is in "
    "the conversation on the page."
)


async def limit_chats(module: Module, file: SettingsFile, store: Store) -> None:
    """Tell Chat what the settings allow in each chat, no matter who starts a turn there."""
    service: Any = module.get_interface("ConversationInterface")
    if service is not None:
        known, limit_of = await store.chats(), file.present.limit_of
        await service.limit_chats([limit_of(platform, last) for platform, last in known])


class Conversations:
    def __init__(
        self,
        module: Module,
        connector: Connector,
        file: SettingsFile,
        store: Store,
        refusals: Refusals,
    ) -> None:
        self._module, self._connector, self._store = module, connector, store
        self._file, self._refusals = file, refusals
        self._commands = Commands(module, self, refusals)

    @property
    def service(self) -> Any:  # noqa: ANN401  Chat's ConversationInterface
        """The conversations' own module. NotFoundError: it is not there."""
        found = self._module.get_interface("ConversationInterface")
        if found is None:
            raise NotFoundError(NOT_RUNNING.format(title="Chat", name="chat"))
        return found

    @property
    def title(self) -> str:
        return self._connector.title

    async def save(self, update: Update) -> None:
        await self._store.save(update)

    async def handle(self, update: Update, pacing: Pacing) -> None:
        """It may have been begun before a restart. Nothing follows if its sender is no longer
        paired.
        """
        if not await self._is_let_in(update.incoming):
            return
        answer = Answer(self._connector, pacing, self._store, update)
        with suppress(UnansweredError):
            if not answer.may_be_sent:
                await self._handle(update, answer)
                return
        chat_id, key = update.incoming.chat_id, f"{update.key}-cut"
        await patient(lambda: self._connector.send(chat_id, _INTERRUPTED, key=key))

    async def _handle(self, update: Update, answer: Answer) -> None:
        incoming = update.incoming
        if incoming.problem:
            await answer.show(incoming.problem)
            return
        if incoming.kind == "relay":
            await self._relay(update, answer)
            return
        if incoming.kind == "suggestion":
            await self._suggest(update)
            return
        person = f"{self._connector.title} {incoming.sender_id}"
        is_strangers = incoming.quote is not None and not self._is_known(incoming.quote.sender_id)
        with self._module.on_behalf_of(person, is_strangers=is_strangers):
            if incoming.kind == "message":
                said = await self._commands.run(update, answer)
                if said:
                    await answer.show(said)
                elif said is None:
                    await self.converse(update, answer)
            elif incoming.kind == "button":
                await self._pressed(incoming)
            else:
                await self._changed(incoming)

    async def is_meant(self, incoming: Incoming) -> bool:
        """Whether a message of a group is for the bot, as the session or the settings say."""
        session = await self.session_of(incoming.chat_id)
        said = (session or {}).get("metadata", {}).get("bot_settings") or {}
        mode = said.get("response_mode") or self._file.of(self._connector.platform).response_mode
        pattern = str(said.get("mention_pattern") or "").casefold()
        is_mentioned = bool(pattern) and pattern in incoming.text.casefold()
        is_command = command_of(incoming.text)[0] in COMMANDS
        is_addressed = incoming.is_addressed or is_mentioned or is_command
        return mode == "all" or (mode == "mention" and is_addressed)

    async def session_of(self, chat_id: str) -> Mapping[str, Any] | None:
        service: Any = self._module.get_interface("ConversationInterface")
        if service is None:
            return None
        found: Mapping[str, Any] | None = await service.get_by_bot_link(
            self._connector.platform, chat_id
        )
        return found

    async def sessions_here(self, incoming: Incoming) -> list[Mapping[str, Any]]:
        """The sessions that a chat had, and that are no other's now."""
        here, found = (self._connector.platform, incoming.chat_id), list[Mapping[str, Any]]()
        for session_id in await self._store.sessions(*here):
            with suppress(NotFoundError):
                session = await self.service.get(session_id)
                linked = session["linkedBotPlatform"], session["linkedBotChatId"]
                found += [session] if linked in {here, (None, None)} else []
        return found

    async def migrate(self, incoming: Incoming) -> None:
        """A chat has another id, or more people than two; it may be said again after a restart."""
        platform, new, kind = self._connector.platform, incoming.new_chat_id, incoming.chat_type
        await self._store.migrate(platform, incoming.chat_id, new, kind)
        await limit_chats(self._module, self._file, self._store)
        session = await self.session_of(incoming.chat_id)
        linked = session and (session["linkedBotChatId"], session["linkedBotChatType"])
        if session is not None and linked != (new, kind):
            link = {"platform": platform, "chat_id": new, "chat_type": kind}
            await self.service.link(session["id"], link)

    async def create(self, incoming: Incoming, *, is_linked: bool = True) -> Mapping[str, Any]:
        place = incoming.chat_title or "group"
        if incoming.chat_type == "dm":
            place = "direct message"
        link = {
            "platform": self._connector.platform,
            "chat_id": incoming.chat_id,
            "chat_type": incoming.chat_type,
        }
        found: Mapping[str, Any] = await self.service.create(
            title=f"{self._connector.title}: {place if is_linked else 'question'}"[:200],
            source=self._connector.platform,
            linked_bot=link if is_linked else None,
            **self._file.present.rights_in(self._connector.platform, incoming),
        )
        return found

    async def converse(self, update: Update, answer: Answer, session_id: str = "") -> None:
        """A turn: the message into the session, once, and its answer into the chat."""
        incoming, platform = update.incoming, self._connector.platform
        if not update.session_id:
            session = None if session_id else await self.session_of(incoming.chat_id)
            update.session_id = session_id or (session or await self.create(incoming))["id"]
            update.message_id = update.key
            await self._store.save(update)
        files = await self._attachments(incoming, answer)
        content = self._words(incoming)
        if not content.strip() and not files:
            return
        while True:
            try:
                await self.service.limit_chats([self._file.present.limit_of(platform, incoming)])
                begun = await self.service.start_turn(
                    update.session_id,
                    content,
                    source=platform,
                    message_id=update.message_id,
                    attachments=files,
                    chat_id=incoming.chat_id,
                )
            except ConflictError:  # a turn that was asked for on the page goes on
                await asyncio.sleep(_BUSY_S)
                continue
            break
        await self._follow(update, answer, begun)

    def _words(self, incoming: Incoming) -> str:
        """The message as it stands in the session: who speaks in a group, and what is quoted."""
        name, rest = command_of(incoming.text)
        text = (rest if name in {"new", "ask"} else "") or incoming.text
        if incoming.chat_type == "group":
            name = " ".join(incoming.sender_name.split())
            text = f"{name or incoming.sender_id}: {text}"
        if incoming.quote is None:
            return text
        name = " ".join(incoming.quote.sender_name.split())  # no line of it stands outside
        who = name or incoming.quote.sender_id or "someone"
        quoted = "\n".join(f"> {line}" for line in incoming.quote.text.splitlines())
        return f"> {who} wrote:\n{quoted}\n\n{text}"

    def _is_known(self, sender_id: str) -> bool:
        return sender_id in self._file.of(self._connector.platform).users

    async def _is_let_in(self, incoming: Incoming) -> bool:
        """Whether who wrote it is paired still; of what was said on the page, who wrote there."""
        if incoming.kind != "relay":
            return self._is_known(incoming.sender_id)
        senders = await self._store.senders(self._connector.platform, incoming.chat_id)
        return not senders or any(map(self._is_known, senders))

    async def _attachments(self, incoming: Incoming, answer: Answer) -> list[dict[str, str]]:
        found, refused = list[dict[str, str]](), list[str]()
        largest = self._connector.limits.largest_file
        for attachment in incoming.attachments:
            if attachment.size is not None and attachment.size > largest:
                refused.append(
                    f"{attachment.name} is larger than {largest >> 20} MB and was left out."
                )
                continue
            content = await patient(lambda attachment=attachment: self._connector.fetch(attachment))  # type: ignore[misc]
            data = base64.b64encode(content).decode()
            found.append({"fileName": attachment.name, "base64Data": data})
        if refused:
            await answer.note("\n".join(refused))
        return found

    async def _follow(self, update: Update, answer: Answer, begun: Mapping[str, Any]) -> None:
        text, wait_s, sender = TurnText(), _AT_FIRST_S, update.incoming.sender_id
        while True:
            if sender and not self._is_known(sender):  # unpaired meanwhile
                with suppress(NotFoundError):
                    await self.service.stop_turn(update.session_id, update.message_id)
                return
            for event in begun["events"]:
                text.read(event)
                await self._act_on(update, answer, event)
            await answer.show(text.whole)
            if text.has_ended:
                break
            begun = await self.service.turn_events(update.session_id, begun["after"], wait_s)
            if not begun["events"]:  # else it would hold up the text
                await answer.typing()
                wait_s = _WAIT_S
        for question in await self._store.questions_of(update.session_id):
            await self.close(question, "No longer asked.")
        await self._send_files(update, text.whole)

    async def _send_files(self, update: Update, text: str) -> None:
        """Send the files that an answer embeds, of those in the conversation's own folders."""
        paths = list(dict.fromkeys(_EMBED.findall(text)))[:_MOST_FILES]
        if not paths:
            return
        folders = await self._folders(update)
        for number, path in enumerate(path for path in paths if path.startswith(folders)):
            content, findings = b"", list[Finding]()
            with reading(path, findings):
                content = await self._module.vault.read_bytes(path)
            if findings or len(content) > self._connector.limits.largest_file:
                self._module.log.info("a file of an answer was not sent", extra={"file": path})
                continue
            name, key = path.rpartition("/")[2], f"{update.key}-file-{number}"
            send = partial(self._connector.send_file, update.incoming.chat_id, name, content)
            await patient(partial(send, key=key))

    async def _folders(self, update: Update) -> tuple[str, ...]:
        """What the paths begin with that a session may show in that chat."""
        session = await self.service.get(update.session_id)
        folders = (session["metadata"].get("permissions") or {}).get("allowed_folders") or ()
        most = self._file.present.limit_of(update.platform, update.incoming)["permissions"]
        if most is not None and most["allowed_folders"] is not None:
            folders = [folder for folder in folders if folder in most["allowed_folders"]]
        return tuple(f"{folder.strip('/')}/".removeprefix("/") for folder in folders)

    def tools_in(self, incoming: Incoming) -> list[str] | None:
        """The modules' tools that a chat is limited to; None: it is not."""
        limit = self._file.present.limit_of(self._connector.platform, incoming)["permissions"]
        found: list[str] | None = None if limit is None else limit["allowed_mcps"]
        return found

    async def _act_on(self, update: Update, answer: Answer, event: Mapping[str, Any]) -> None:
        match event["type"]:
            case "user_question":
                await self._ask(update, event)
            case "answered":
                await self._decided(update, str(event["requestId"]))
            case "warning":
                await answer.note(f"{event['title']}: {event['message']}")

    async def _ask(self, update: Update, event: Mapping[str, Any]) -> None:
        """Put an agent's question into the chat, once, with a button for each option."""
        request_id = str(event["requestId"])
        known = [one.request_id for one in await self._store.questions_of(update.session_id)]
        question = event["questions"][0]
        if request_id in known or not question["options"]:
            return
        options = tuple(str(one["label"]) for one in question["options"])[:_MOST_OPTIONS]
        key = f"{update.key}-{len(known)}-asked"
        await self._put(update, request_id, str(question["question"]), options, key)

    async def _suggest(self, update: Update) -> None:
        """Put a suggestion into the chat, unless it was decided on meanwhile."""
        incoming, longest = update.incoming, self._connector.limits.longest - _MORE_ROOM
        open_ones = await self._store.questions_of("")
        if sum(question.chat_id == incoming.chat_id for question in open_ones) >= _MOST_SUGGESTIONS:
            return  # they wait on the page
        pattern = f"Suggestions/*-{incoming.message_id}.md"
        found = [*await self._module.vault.list(pattern, looks=True), ""][0]
        text, folders = incoming.text, await self._folders(update)
        with reading(found, []):
            note = await self._module.vault.note(found)
            if note.frontmatter.get("status") != "pending":
                return
            change = note.section(_CHANGE)
            if incoming.chat_type == "dm" and change:  # a group is not shown what notes say
                lines = note.text[change.body : change.end].strip().splitlines()
                if not str(note.frontmatter.get("path")).startswith(folders):
                    lines = [line for line in lines if _NEW_LINE.match(line)]  # no more of the note
                text = "\n".join([text, "", *lines])
        update.session_id = ""
        shown = split(text, longest, self._connector.size)[0]
        more = f"`parachute suggestions show {incoming.message_id}`"
        await self._put(update, incoming.message_id, f"{shown}\n\n{more}", _DECISIONS, update.key)

    async def _put(
        self, update: Update, request_id: str, text: str, options: tuple[str, ...], key: str
    ) -> None:
        incoming = update.incoming
        message_id = await patient(
            lambda: self._connector.send(incoming.chat_id, text, options, key=key)
        )
        await self._store.ask(
            AskedQuestion(
                platform=update.platform,
                chat_id=incoming.chat_id,
                parent_id=incoming.parent_id,
                message_id=message_id,
                session_id=update.session_id,
                request_id=request_id,
                question=text,
                options=options,
                owner=incoming.sender_id,
            )
        )

    async def _pressed(self, incoming: Incoming) -> None:
        """It is good once, and only for whose turn it is."""
        question = await self._store.question(
            self._connector.platform, incoming.chat_id, incoming.message_id
        )
        if question is None or incoming.button is None or incoming.button >= len(question.options):
            return
        if question.owner != incoming.sender_id:
            self._refusals.add(incoming, "button")
            return
        option = question.options[incoming.button]
        if not await self._store.answered(question):
            return
        who = incoming.sender_name or incoming.sender_id
        said = f"{option}, said {who}."
        try:
            if question.session_id:
                await self.service.answer_question(
                    question.session_id, question.request_id, {question.question: option}
                )
            else:
                decision: Literal["approve", "reject"] = (
                    "approve" if option == _DECISIONS[0] else "reject"
                )
                status = await self._module.resolve_suggestion(question.request_id, decision)
                said = f"{said} It was {status}."
        except (NotFoundError, EditRefusedError):
            said = "It was decided elsewhere."
        except ParachuteError as error:  # such as a hook that objects: it waits still
            said = f"{said} {error.message}"
        await self.close(question, said)

    async def _decided(self, update: Update, request_id: str) -> None:
        for question in await self._store.questions_of(update.session_id, request_id):
            await self.close(question, "It was decided elsewhere.")

    async def close(self, asked: AskedQuestion, how: str) -> None:
        await self._store.answered(asked)
        text = f"{asked.question}\n\n{how}"
        await patient(lambda: self._connector.edit(asked.chat_id, asked.message_id, text))

    async def _changed(self, incoming: Incoming) -> None:
        """The author edited or deleted a message: the session follows."""
        before = await self._store.message_of(
            self._connector.platform, incoming.chat_id, incoming.message_id
        )
        if before is None or before.incoming.sender_id != incoming.sender_id:
            return
        content = None if incoming.kind == "deleted" else self._words(incoming)
        await self.service.change_message(before.session_id, before.message_id, content)

    async def _relay(self, update: Update, answer: Answer) -> None:
        await answer.note(f"On the page: {update.incoming.text}")
        begun = await self.service.turn_events(update.session_id, None, 0)
        await self._follow(update, answer, begun)
