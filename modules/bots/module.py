"""Bots: conversations of Chat from other platforms, for the people who were paired."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from functools import partial
from typing import Any, TypeAlias

from parachuted.errors import ParachuteError
from parachuted.modules import Finding, event

from .bot import Bot
from .connector import ConnectorError, CredentialsError, Incoming, UnknownError
from .connectors import PLATFORMS, connector_class, fields_of
from .conversations import limit_chats
from .pairing import Pairing, Refusals
from .routes import BotRoutes
from .settings import SettingsFile
from .store import Store, StoredCursor

Work: TypeAlias = Callable[[], Awaitable[None]]


class BotsModule(BotRoutes):
    """One task starts what the bots do, for the module itself."""

    async def on_enable(self) -> None:
        folder = self.data_folder
        self.file = SettingsFile(folder)
        self.store = Store(folder / "bots.db")
        self.pairing = Pairing(self.store)
        self.bots: dict[str, Bot] = {}
        self.errors: dict[str, ConnectorError] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._refusals: dict[str, Refusals] = {}  # an hour of it outlasts a bot's settings
        self._wanted: asyncio.Queue[tuple[Work, asyncio.Future[None] | None]] = asyncio.Queue()
        self._post(limit_chats, self, self.file, self.store)
        for platform, settings in self.file.present.platforms.items():
            if settings.enabled:
                self._post(self._restart, platform)
        self.spawn(self._supervise, name="the bots")

    async def on_disable(self) -> None:
        if "store" in vars(self):  # else its settings could not be read
            for platform in [*self.bots]:  # in peace, before all tasks are cancelled
                await self._stop(platform)
            self.store.close()

    @event("chat.session.message")
    async def on_message(self, session_id: str, message_id: str, role: str, source: str) -> None:
        if role == "user" and source not in PLATFORMS and self.bots:
            self._post(self._relay, session_id, message_id)

    @event("module.enabled")
    async def on_enabled(self) -> None:
        self._post(limit_chats, self, self.file, self.store)

    @event("suggestion.created")
    async def on_suggested(self, id: str, run: str | None, path: str, action: str) -> None:  # noqa: A002  its name
        if self.bots:
            self._post(self._apart, self._suggest, id, run, path, action)

    @event("suggestion.resolved")
    async def on_resolved(self, id: str, status: str) -> None:  # noqa: A002  its name
        self._post(self._apart, self._resolved, id, status)

    async def doctor(self) -> Sequence[Finding]:
        return [
            Finding(
                problem=f"the bot on {name.title()}: {error.message}",
                advice=error.advice.format(platform=name),
            )
            for name in PLATFORMS
            if (error := self.error_of(name)) is not None
        ]

    async def start_bot(self, platform: str) -> None:
        await self._done(self._restart, platform)

    async def stop_bot(self, platform: str) -> None:
        await self._done(self._stop, platform)

    def _post(self, work: Callable[..., Awaitable[None]], *args: object) -> None:
        self._wanted.put_nowait((partial(work, *args), None))

    async def _done(self, work: Callable[..., Awaitable[None]], *args: object) -> None:
        done = asyncio.get_running_loop().create_future()
        self._wanted.put_nowait((partial(work, *args), done))
        await done

    async def _supervise(self) -> None:
        while True:
            work, done = await self._wanted.get()
            try:
                await work()
            except Exception as error:  # what one of them raises does not end the others
                self.log.warning("what was asked of the bots could not be done", exc_info=error)
                if done is not None and not done.done():
                    done.set_exception(error)
            else:
                if done is not None and not done.done():
                    done.set_result(None)

    async def _apart(self, work: Callable[..., Coroutine[Any, Any, None]], *args: object) -> None:
        self.spawn(work, *args, name="a suggestion in its chat")

    async def _restart(self, platform: str) -> None:
        await self._stop(platform)
        try:
            await self._start(platform)
        except Exception as error:
            unknown = UnknownError("it could not be started")
            self.errors[platform] = error if isinstance(error, ConnectorError) else unknown
            raise

    async def _start(self, platform: str) -> None:
        settings = self.file.platform(platform)
        if settings is None:
            return
        made = await asyncio.to_thread(connector_class, platform)
        if any(
            not (field.is_optional or settings.credentials.get(field.name))
            for field in fields_of(platform)
        ):
            add = f"`parachute bots add {platform} - < token.txt` gives it one"
            raise CredentialsError(f"its token is not here; {add}")
        connector = made(settings.credentials, StoredCursor(self.store, platform))
        bot = Bot(
            self,
            connector,
            self.file,
            self.store,
            self.pairing,
            self._refusals.setdefault(platform, Refusals(self, connector.title)),
        )
        self.bots[platform] = bot
        self._tasks[platform] = self.spawn(bot.run, name=f"the bot on {platform}")

    async def _stop(self, platform: str) -> None:
        self.bots.pop(platform, None)
        self.errors.pop(platform, None)
        task = self._tasks.pop(platform, None)
        if task is not None:
            task.cancel()
            await asyncio.wait([task])

    async def _suggest(self, suggestion_id: str, run: str | None, path: str, action: str) -> None:
        try:
            conversations: Any = self.get_interface("ConversationInterface")
            if conversations is None:
                return
            session_id = await conversations.session_of_suggestion(suggestion_id, run)
            if session_id is None:
                return
            session = await conversations.get(session_id)
            bot = self.bots.get(session["linkedBotPlatform"] or "")
            if bot is not None:
                await bot.suggest(session, suggestion_id, f"Suggested: {action} {path}")
        except ParachuteError as error:  # Chat, or the session, is gone
            self.log.warning("a suggestion is not shown in its chat: %s", error.message)

    async def _resolved(self, suggestion_id: str, status: str) -> None:
        for question in await self.store.questions_of("", suggestion_id):
            bot = self.bots.get(question.platform)
            if bot is not None:
                try:
                    await bot.conversations.close(question, f"It was {status} elsewhere.")
                except ParachuteError as error:  # such as a message that was deleted there
                    self.log.warning("a decided suggestion keeps its buttons: %s", error.message)

    async def _relay(self, session_id: str, message_id: str) -> None:
        conversations: Any = self.get_interface("ConversationInterface")
        if conversations is None:
            return
        session = await conversations.get(session_id)
        bot = self.bots.get(session["linkedBotPlatform"] or "")
        said = next((one for one in session["messages"] if one["id"] == message_id), None)
        if bot is None or said is None or not isinstance(said["content"], str):
            return
        await bot.relay(
            session_id,
            Incoming(
                update_id=f"page {message_id}",
                kind="relay",
                chat_id=session["linkedBotChatId"],
                chat_type=session["linkedBotChatType"] or "dm",
                sender_id="",
                text=said["content"],
            ),
        )
