"""One bot at work: what comes is admitted or not, kept, and handled chat by chat, in order."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Mapping
from contextlib import aclosing
from dataclasses import replace
from typing import Any, Final

from parachuted.errors import ParachuteError
from parachuted.modules import Module

from .answers import Pacing, patient
from .commands import AT_ONCE, command_of
from .connector import (
    Connector,
    ConnectorError,
    CredentialsError,
    Incoming,
    RetryLaterError,
    UnknownError,
)
from .conversations import Conversations
from .pairing import Pairing, Refusals
from .settings import SettingsFile
from .store import Store, Update

_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 1.0, 300.0
_PAIR: Final = (
    "This bot answers only people that its owner knows. Your code is **{code}**, good for ten "
    "minutes: its owner runs `parachute bots pairing approve {code}`, or finds you on the page."
)
_NOT_KEPT: Final = "What it was sent cannot be kept; the log says why, and it is tried again."
_FAILED: Final = "Something went wrong here; `parachute doctor` on its machine says what."


class Bot:
    """A connector and its chats. `error` is why it is not connected."""

    def __init__(
        self,
        module: Module,
        connector: Connector,
        file: SettingsFile,
        store: Store,
        pairing: Pairing,
        refusals: Refusals,
    ) -> None:
        self._module, self._file, self._store = module, file, store
        self._pairing = pairing
        self.connector = connector
        self.name, self.is_connected, self.has_ended = "", False, False
        self.error: ConnectorError | None = None
        self._refusals = refusals
        self.conversations = Conversations(module, connector, file, store, refusals)
        self._chats: dict[str, asyncio.Queue[Update]] = {}
        self._pacings: dict[str, Pacing] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._at_work: set[int] = set()

    async def run(self) -> None:
        """Connect, and handle what comes, until the platform does not take the token."""
        pause = _FIRST_PAUSE_S
        try:
            while True:
                try:
                    self.name = await self.connector.connect()
                    self.error, self.is_connected = None, True
                    await self._resume()
                    async with aclosing(self.connector.listen()) as updates:  # type: ignore[type-var]  # they are generators
                        async for incoming in updates:
                            pause = _FIRST_PAUSE_S
                            await self.take(incoming)
                except ConnectorError as error:
                    self._lost(error)
                    if not isinstance(error, RetryLaterError):
                        return
                    after_s = error.after_s
                except Exception:  # such as a full disk: what was not kept comes again
                    self._module.log.exception("what a bot was sent could not be kept")
                    self._lost(UnknownError(_NOT_KEPT))
                    after_s = 0.0
                await asyncio.sleep(max(after_s, pause))
                pause = min(2 * pause, _LONGEST_PAUSE_S)
        finally:  # what is not answered to its end is taken up again at the next start
            self.is_connected, self.has_ended = False, True
            for task in [*self._tasks]:
                task.cancel()
            if self._tasks:
                await asyncio.wait([*self._tasks])
            await self.connector.close()

    async def take(self, incoming: Incoming) -> None:
        """Keep it and let it be handled, or turn it away."""
        incoming = incoming.clean()
        if incoming.kind == "deleted" and not incoming.sender_id:
            known = await self._store.message_of(
                self.connector.platform, incoming.chat_id, incoming.message_id
            )
            incoming = replace(incoming, sender_id=known.incoming.sender_id if known else "")
        if incoming.kind == "added":
            await self._added(incoming)
        elif incoming.kind == "migrated":  # before what comes in the new chat
            await self.conversations.migrate(incoming)
        elif await self._is_admitted(incoming):
            update = await self._store.add(self.connector.platform, incoming)
            if update is not None:
                self._begin(update)
        elif incoming.kind == "message" and incoming.chat_type == "dm":
            await self._turn_away(incoming)
        await incoming.done()

    async def relay(self, session_id: str, incoming: Incoming) -> None:
        """Show in a chat what was said on the page, and the answer, or what is suggested."""
        update = await self._store.add(self.connector.platform, incoming)
        if update is not None:
            update.session_id = session_id
            await self._store.save(update)
            self._begin(update)

    async def suggest(self, session: Mapping[str, Any], suggestion_id: str, text: str) -> None:
        """Let who wrote last in a session's chat decide on a suggestion, after the answer."""
        chat_id, session_id = session["linkedBotChatId"], session["id"]
        last = await self._store.last_said(self.connector.platform, chat_id, session_id)
        if last is not None:
            incoming = replace(
                last,
                update_id=f"suggestion {suggestion_id}",
                kind="suggestion",
                message_id=suggestion_id,
                text=text,
                quote=None,
                attachments=(),
                problem="",
            )
            await self.relay(session_id, incoming)

    async def _resume(self) -> None:
        """What an earlier daemon left unanswered comes first."""
        for update in await self._store.waiting(self.connector.platform):
            if update.number not in self._at_work:
                self._begin(update)

    def _begin(self, update: Update) -> None:
        incoming = update.incoming
        self._at_work.add(update.number)
        is_command = incoming.kind == "message" and command_of(incoming.text)[0] in AT_ONCE
        if is_command or incoming.kind == "button":
            self._spawn(self._handle(update), "a command of a chat")
            return
        queue = self._chats.get(incoming.chat_id)
        if queue is None:
            queue = self._chats[incoming.chat_id] = asyncio.Queue()
            self._spawn(self._work(incoming.chat_id, queue), "a chat")
        queue.put_nowait(update)

    def _spawn(self, work: Coroutine[Any, Any, None], name: str) -> None:
        task = self._module.spawn(lambda: work, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _work(self, chat_id: str, queue: asyncio.Queue[Update]) -> None:
        try:
            while not queue.empty():
                await self._handle(queue.get_nowait())
        finally:
            del self._chats[chat_id]

    async def _handle(self, update: Update) -> None:
        chat_id = update.incoming.chat_id
        pacing = self._pacings.setdefault(chat_id, Pacing(self.connector.limits.edit_s))
        try:
            await self.conversations.handle(update, pacing)
        except CredentialsError as error:  # it stays to be answered
            self._at_work.discard(update.number)
            self._lost(error)
            return
        except ParachuteError as error:  # a ConnectorError here is of this chat alone
            await self._say(chat_id, error.message, f"{update.key}-failed")
        except Exception:  # one message that cannot be handled does not end the chat
            self._module.log.exception("a message of a chat could not be handled")
            await self._say(chat_id, _FAILED, f"{update.key}-failed")
        await self._store.finish(update)
        self._at_work.discard(update.number)

    async def _say(self, chat_id: str, text: str, key: str) -> None:
        try:
            await patient(lambda: self.connector.send(chat_id, text, key=key))
        except ConnectorError as error:  # such as a person who has blocked the bot
            self._module.log.warning("a chat cannot be written to: %s", error.message)

    async def _is_admitted(self, incoming: Incoming) -> bool:
        """Whether it is from a paired person, and in a group meant for the bot."""
        settings = self._file.of(self.connector.platform)
        is_dm = incoming.chat_type == "dm"
        is_for_bot = is_dm or incoming.is_addressed or incoming.kind == "button"
        if incoming.sender_id not in settings.users:
            if is_for_bot:
                self._refusals.add(incoming, "unpaired")
            return False
        if is_dm:
            return True
        place = incoming.parent_id or incoming.chat_id
        if await self._store.added_by(self.connector.platform, place) not in settings.users:
            if is_for_bot:
                self._refusals.add(incoming, "group")
            return False
        return incoming.kind != "message" or await self.conversations.is_meant(incoming)

    async def _added(self, incoming: Incoming) -> None:
        platform, chat_id = self.connector.platform, incoming.chat_id
        is_paired = incoming.sender_id in self._file.of(platform).users
        if is_paired:
            await self._store.add_group(platform, chat_id, incoming.sender_id)
        may_stay = is_paired or incoming.chat_type == "dm"
        act = self.connector.join if may_stay else self.connector.leave
        if not may_stay:
            self._refusals.add(incoming, "group")
        try:
            await patient(lambda: act(chat_id))
        except CredentialsError:
            raise
        except ConnectorError as error:  # such as an invitation that was taken back
            self._module.log.warning("a chat could not be joined or left: %s", error.message)

    async def _turn_away(self, incoming: Incoming) -> None:
        code = await self._pairing.code_for(self.connector.platform, incoming)
        if code is None:
            return
        self._spawn(
            self._say(incoming.chat_id, _PAIR.format(code=code), f"pair-{code}"), "a pairing code"
        )

    def _lost(self, error: ConnectorError) -> None:
        self.error, self.is_connected = error, False
        self._module.log.warning("a bot is not connected: %s", error.message)
