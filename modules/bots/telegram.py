"""Telegram: the Bot API by python-telegram-bot, polled, or by a webhook.

The server keeps what was not confirmed, which the next call does, or the answer to the webhook's
call; so the cursor is not needed, and an offset that is kept across an absence of a week could lie
beyond new updates.
"""

# ruff: noqa: E402  what the libraries read when they are imported is set before

from __future__ import annotations

import asyncio
import hashlib
import html
import logging
import mimetypes
import os
import re
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any, ClassVar, Final

os.environ.setdefault("PTB_TIMEDELTA", "true")  # else the library warns at each 429 of its own use
sys.modules.setdefault("httpx._main", None)  # type: ignore[arg-type]  # its command takes 4 MB
import httpx
import telegram
from telegram import error as telegram_errors
from telegram.request import HTTPXRequest

from .connector import (
    Attachment,
    Connector,
    ConnectorError,
    CredentialsError,
    Cursor,
    Incoming,
    Limits,
    Platform,
    Quote,
    RetryLaterError,
    UnansweredError,
    host_of,
)
from .telegram_html import as_html

WEBHOOK_PATH: Final = "/api/bots/telegram/webhook"
_log: Final = logging.getLogger(__name__)
_ODD: Final = (LookupError, TypeError, ValueError, AttributeError, OverflowError, OSError)
_UNREADABLE: Final = "something that Telegram sent cannot be read"
_POLL_S: Final = 50
_STORING_S, _MOST_POSTED = 10.0, 100
_KINDS: Final = ["message", "edited_message", "callback_query", "my_chat_member"]
_CONFLICT_S: Final = 30.0
_MAYBE_SENT: Final = (
    httpx.ReadError,
    httpx.ReadTimeout,
    httpx.RemoteProtocolError,
    httpx.WriteError,
    httpx.WriteTimeout,
)
_BETWEEN_ALL_S: Final = 1 / 28  # Telegram allows 30 a second
_BETWEEN_OF_GROUP_S, _BURST_OF_GROUP_S = 3.75, 12.0  # 20 a minute, the first four at once
_LONGEST: Final = 4096
_TOKEN: Final = re.compile(r"\d{1,20}:[\w-]{1,100}", re.ASCII)
_LOGGERS: Final = ("httpx", "httpcore.connection", "httpcore.http11", "telegram.Bot")
_MARKUP: Final = re.compile("<[^>]*>")
_SUFFIXES: Final = {"audio/ogg": ".ogg", "audio/mp4": ".m4a", "image/jpeg": ".jpg"}
_TYPES: Final = {telegram.PhotoSize: "image/jpeg", telegram.VideoNote: "video/mp4"}
_WORDLESS: Final = "(a message without words)"
_UNREAD: Final = "This bot reads text, pictures, voice messages and files, and cannot read this."


class _MovedError(ConnectorError):
    def __init__(self, chat_id: str) -> None:
        super().__init__("the group has another id now")
        self.chat_id = chat_id


class _WithoutToken(logging.Filter):
    """Takes the token out of log records: it is a part of every address."""

    def __init__(self, token: str) -> None:
        super().__init__()
        self._token = token

    def filter(self, record: logging.LogRecord) -> bool:
        text = record.getMessage()
        if self._token in text:
            record.msg, record.args = text.replace(self._token, "(the token)"), ()
        return True


class _Requests(HTTPXRequest):
    """Of updates that are not as documented only their number reaches the library: it would read
    none of them, and write what all of them say into the log.
    """

    @staticmethod
    def parse_json_payload(payload: bytes) -> dict[str, Any]:
        found = HTTPXRequest.parse_json_payload(payload)
        if isinstance(found, dict) and isinstance(found.get("result"), list):
            found["result"] = [_readable(one) for one in found["result"]]
        return found


class TelegramConnector(Connector):
    """One bot. A chat is a chat, or `chat topic` for a topic of one."""

    platform: ClassVar[Platform] = "telegram"
    title: ClassVar[str] = "Telegram"
    limits: ClassVar[Limits] = Limits(longest=_LONGEST, edit_s=1.0)

    def __init__(self, credentials: Mapping[str, str], cursor: Cursor) -> None:
        del cursor
        self._token = credentials["token"].strip()
        self._filter = _WithoutToken(self._token)
        for name in _LOGGERS:
            logging.getLogger(name).addFilter(self._filter)
        self._requests = _Requests(
            connection_pool_size=64, pool_timeout=60.0, read_timeout=20.0, connect_timeout=10.0
        )
        base = credentials.get("base_url") or "https://api.telegram.org/bot"
        files = credentials.get("base_file_url") or "https://api.telegram.org/file/bot"
        self._bot = telegram.Bot(
            self._token if _TOKEN.fullmatch(self._token) else "0:0",
            base_url=base,
            base_file_url=files,
            request=self._requests,
            get_updates_request=self._requests,
        )
        self._host = host_of(base) or "an address that is malformed"
        self._webhook = credentials.get("webhook_url", "").rstrip("/")
        self._posted: asyncio.Queue[tuple[Mapping[str, Any], asyncio.Future[None]]] = asyncio.Queue(
            _MOST_POSTED
        )
        self._free_at: dict[str, float] = {}
        self._moved: dict[str, str] = {}

    async def connect(self) -> str:
        if not _TOKEN.fullmatch(self._token):
            raise CredentialsError("a bot's token is a number, a colon and letters")
        found = await self._ask(self._bot.get_me())
        if self._webhook:
            set_webhook = self._bot.set_webhook(
                f"{self._webhook}{WEBHOOK_PATH}",
                allowed_updates=_KINDS,
                max_connections=1,  # so they come in their order
                secret_token=self.webhook_secret,
            )
            await self._ask(set_webhook)
        else:
            await self._ask(self._bot.delete_webhook())
        return f"@{found.username}"

    @property
    def webhook_secret(self) -> str:
        """As lasting as the token, which cannot be found by it; empty without a webhook."""
        return hashlib.sha256(f"webhook of {self._token}".encode()).hexdigest() * bool(
            self._webhook
        )

    async def receive(self, update: Mapping[str, Any]) -> None:
        """RetryLaterError: it cannot be stored now, and Telegram makes the call again."""
        stored = asyncio.get_running_loop().create_future()
        try:
            async with asyncio.timeout(_STORING_S):
                await self._posted.put((update, stored))
                await stored
        except TimeoutError as error:
            raise RetryLaterError("the bot is not connected to Telegram") from error

    async def listen(self) -> AsyncIterator[Incoming]:
        """An update is confirmed once the core has stored it."""
        if self._webhook:
            async for posted in self._received():
                yield posted
        offset: int | None = None
        while True:
            began = time.monotonic()
            updates = await self._ask(
                self._bot.get_updates(
                    offset, timeout=_POLL_S, allowed_updates=_KINDS, read_timeout=10.0
                ),
                unreadable=RetryLaterError,
            )
            for update in updates:
                incoming = self._incoming(update)
                if incoming is not None:
                    yield incoming
            offset = updates[-1].update_id + 1 if updates else None
            if not updates and time.monotonic() - began < 1:
                await asyncio.sleep(1)  # a server that does not wait

    async def send(
        self, chat_id: str, text: str, buttons: Sequence[str] = (), *, key: str = ""
    ) -> str:
        del key  # Telegram knows none
        sent = await self._write(self._bot.send_message, chat_id, text, buttons)
        return str(sent.message_id)

    async def edit(
        self, chat_id: str, message_id: str, text: str, buttons: Sequence[str] = ()
    ) -> None:
        edit = self._bot.edit_message_text
        try:
            await self._write(edit, chat_id, text, buttons, message_id=int(message_id))
        except ConnectorError as error:
            if "message is not modified" not in error.message.casefold():
                raise

    async def send_file(self, chat_id: str, name: str, content: bytes, *, key: str = "") -> str:
        del key
        send = self._bot.send_document
        sent = await self._to(send, chat_id, {"document": content, "filename": name})
        return str(sent.message_id)

    async def typing(self, chat_id: str) -> None:
        chat, thread = _place(self._moved, chat_id)
        await self._ask(self._bot.send_chat_action(chat, "typing", **thread))

    async def fetch(self, attachment: Attachment) -> bytes:
        found = await self._ask(self._bot.get_file(attachment.key))
        if (found.file_size or 0) > self.limits.largest_file:
            raise ConnectorError(f"{attachment.name} is too large")
        try:
            return bytes(await self._ask(found.download_as_bytearray()))
        except CredentialsError:  # a file that is not there is answered like a bad token
            pass
        raise ConnectorError(f"{attachment.name} cannot be downloaded")

    async def leave(self, chat_id: str) -> None:
        await self._ask(self._bot.leave_chat(chat_id))

    def size(self, text: str) -> int:
        """Units of UTF-16."""
        return len(text.encode("utf-16-le", "replace")) // 2

    async def close(self) -> None:
        await self._requests.shutdown()
        for name in _LOGGERS:
            logging.getLogger(name).removeFilter(self._filter)

    async def _received(self) -> AsyncIterator[Incoming]:
        while True:
            update, stored = await self._posted.get()
            if stored.done():  # its call was given up, and is made again
                continue
            posted = self._posted_update(update)
            if posted is not None:
                yield posted
            if not stored.done():
                stored.set_result(None)

    def _posted_update(self, update: Mapping[str, Any]) -> Incoming | None:
        try:
            read = telegram.Update.de_json(dict(update), self._bot)
        except _ODD:
            _log.warning(_UNREADABLE)
            return None
        return self._incoming(read)

    def _incoming(self, update: telegram.Update) -> Incoming | None:
        """None: it is nothing to the core, or cannot be read."""
        try:
            return self._found_in(update)
        except _ODD:
            _log.warning(_UNREADABLE)
            return None

    def _found_in(self, update: telegram.Update) -> Incoming | None:
        fields: dict[str, Any] = {"update_id": f"{self._bot.id} {update.update_id}"}
        if update.message is not None:
            return self._message(update.message, fields)
        if update.edited_message is not None:
            edited = self._message(update.edited_message, fields)
            return replace(edited, kind="edited") if edited is not None and edited.text else None
        if update.callback_query is not None:
            return self._press(update.callback_query, fields)
        changed = update.my_chat_member
        absent = {telegram.ChatMember.LEFT, telegram.ChatMember.BANNED}
        if (
            changed is None
            or changed.chat.type == "private"
            or changed.old_chat_member.status not in absent
            or changed.new_chat_member.status in absent
        ):
            return None
        return Incoming(**fields, kind="added", **_of_chat(changed.chat, changed.from_user))

    def _press(self, query: telegram.CallbackQuery, fields: dict[str, Any]) -> Incoming | None:
        data = query.data or ""
        if query.message is None or not re.fullmatch("[0-9]{1,2}", data):
            return None  # a client may send any data

        async def answer() -> None:
            with suppress(ConnectorError):  # it ends what the button shows, and nothing else
                await self._ask(query.answer())

        fields |= {"message_id": str(query.message.message_id), "button": int(data)}
        fields |= _of_chat(query.message.chat, query.from_user, query.message)
        return Incoming(**fields, kind="button", done=answer)

    def _message(self, message: telegram.Message, fields: dict[str, Any]) -> Incoming | None:
        sender = message.from_user
        if sender is None:
            return None
        fields |= _of_chat(message.chat, sender, message)
        fields |= {"message_id": str(message.message_id)}
        if message.migrate_to_chat_id:
            new = str(message.migrate_to_chat_id)
            return Incoming(**fields, kind="migrated", new_chat_id=new)
        if sender.is_bot or message.sender_chat is not None:
            return None  # an id that many people share
        text = message.text or message.caption or (message.sticker and message.sticker.emoji) or ""
        is_addressed, is_anothers = self._addressed(message)
        if is_anothers:
            return None
        own = f"@{self._bot.username}"
        if text.casefold().startswith(own.casefold()):
            text = text[len(own) :].lstrip(" ,:\n")
        attachments, problem = _attachments(message)
        text, quote, is_reply = self._quoted(message, text)
        if not (text or attachments or problem or quote):
            return None
        return Incoming(
            **fields,
            kind="message",
            text=text,
            is_addressed=is_addressed or is_reply,
            quote=quote,
            attachments=attachments,
            problem=problem,
        )

    def _addressed(self, message: telegram.Message) -> tuple[bool, bool]:
        """Whether a message mentions the bot, and whether it is a command for another one."""
        own, named = f"@{self._bot.username}".casefold(), False
        if message.text:
            entities = message.parse_entities()
        else:
            entities = message.parse_caption_entities() if message.caption else {}
        for entity, words in entities.items():
            name = words.casefold()
            if entity.type == "bot_command" and "@" in name:
                name = name[name.index("@") :]
                if name != own and not entity.offset:
                    return False, True
            named = (
                named or name == own or (entity.user is not None and entity.user.id == self._bot.id)
            )
        return named, False

    def _quoted(self, message: telegram.Message, text: str) -> tuple[str, Quote | None, bool]:
        """A message's own text, what it forwards or answers, and whether that is the bot's."""
        part = message.quote.text if message.quote else ""
        reply, quote, is_own = message.reply_to_message, None, False
        if message.forward_origin is not None:
            text, quote = "", _quote(text, message.forward_origin)
        elif message.via_bot is not None:
            text, quote = "", Quote(text=text, sender_name=message.via_bot.full_name)
        elif message.external_reply is not None:
            quote = _quote(part, message.external_reply.origin)
        elif reply is not None and reply.forum_topic_created is None:
            author, said = reply.from_user, part or reply.text or reply.caption or _WORDLESS
            is_own = author is not None and author.id == self._bot.id
            if reply.forward_origin is not None:
                quote = _quote(said, reply.forward_origin)
            elif author is None or reply.sender_chat is not None or reply.via_bot is not None:
                quote = Quote(text=said)
            elif not is_own:
                quote = Quote(text=said, sender_id=str(author.id), sender_name=author.full_name)
        return text, quote, is_own

    async def _write(
        self,
        ask: Callable[..., Awaitable[Any]],
        chat_id: str,
        text: str,
        buttons: Sequence[str],
        **more: int,
    ) -> Any:  # noqa: ANN401  what the library answers
        """Send or edit a message, without its formatting where Telegram does not take that."""
        rows = [
            [telegram.InlineKeyboardButton(one[:64] or str(at + 1), callback_data=str(at))]
            for at, one in enumerate(buttons)
        ]
        text = text.encode("utf-8", "replace").decode()
        what: dict[str, Any] = {
            **more,
            "reply_markup": telegram.InlineKeyboardMarkup(rows) if rows else None,
            "link_preview_options": telegram.LinkPreviewOptions(is_disabled=True),
        }
        formatted = as_html(text)
        words = html.unescape(_MARKUP.sub("", formatted)).strip()
        if words and self.size(words) <= _LONGEST:
            try:
                return await self._to(
                    ask, chat_id, {**what, "text": formatted, "parse_mode": "HTML"}
                )
            except ConnectorError as error:
                if "parse entities" not in error.message:
                    raise
        return await self._to(ask, chat_id, {**what, "text": text})

    async def _to(
        self, ask: Callable[..., Awaitable[Any]], chat_id: str, what: Mapping[str, Any]
    ) -> Any:  # noqa: ANN401  the same
        """Ask for something in a chat, as often as Telegram allows."""
        chat, thread = _place(self._moved, chat_id)
        if "message_id" in what:
            thread = {}
        if chat.startswith("-"):
            await self._turn(chat, _BETWEEN_OF_GROUP_S, _BURST_OF_GROUP_S)
        await self._turn("", _BETWEEN_ALL_S, 0.0)
        try:
            return await self._ask(ask(chat_id=chat, **what, **thread))
        except _MovedError as error:
            self._moved[chat] = error.chat_id
        return await self._ask(ask(chat_id=self._moved[chat], **what))

    async def _turn(self, name: str, gap_s: float, burst_s: float) -> None:
        now = time.monotonic()
        due = max(now, self._free_at.get(name, now))
        self._free_at[name] = due + gap_s
        await asyncio.sleep(max(0.0, due - burst_s - now))

    async def _ask(
        self, asked: Awaitable[Any], *, unreadable: type[ConnectorError] = ConnectorError
    ) -> Any:  # noqa: ANN401  the same
        """Errors of the library are left behind: they may hold the address, and so the token."""
        try:
            return await asked
        except telegram_errors.TelegramError as error:
            problem = self._problem(error)
            if isinstance(error.__cause__, _MAYBE_SENT):
                problem = UnansweredError(problem.message)
        except _ODD:
            problem = unreadable("Telegram's answer cannot be read; is there a newer parachuted?")
        raise problem

    def _problem(self, error: telegram_errors.TelegramError) -> ConnectorError:
        match error:
            case telegram_errors.InvalidToken():
                return CredentialsError("Telegram does not take the bot's token")
            case telegram_errors.RetryAfter(retry_after=pause):
                after_s = pause if isinstance(pause, int) else pause.total_seconds()
                self._free_at[""] = time.monotonic() + after_s
                return RetryLaterError("Telegram asks for a pause", after_s)
            case telegram_errors.Conflict():
                return RetryLaterError("another program reads what this bot is sent", _CONFLICT_S)
            case telegram_errors.ChatMigrated(new_chat_id=chat_id):
                return _MovedError(str(chat_id))
            case telegram_errors.BadRequest() | telegram_errors.Forbidden():
                said = error.message.replace(self._token, "(the token)")[:200]
                return ConnectorError(f"Telegram refused it: {said}")
        return RetryLaterError(f"Telegram cannot be reached at {self._host}")


def _readable(update: Any) -> Any:  # noqa: ANN401  JSON
    """An update; of one that cannot be read its number alone."""
    try:
        telegram.Update.de_json(update, None)
    except _ODD:
        _log.warning(_UNREADABLE)
        return {"update_id": update["update_id"]} if "update_id" in update else update
    return update


def _of_chat(chat: telegram.Chat, sender: telegram.User, message: Any = None) -> dict[str, Any]:  # noqa: ANN401  of either kind
    thread = getattr(message, "message_thread_id", None)
    is_topic = thread is not None and bool(getattr(message, "is_topic_message", False))
    return {
        "chat_id": f"{chat.id} {thread}" if is_topic else str(chat.id),
        "parent_id": str(chat.id) if is_topic else "",
        "chat_type": "dm" if chat.type == "private" else "group",
        "chat_title": chat.title or "",
        "sender_id": str(sender.id),
        "sender_name": sender.full_name,
    }


def _place(moved: Mapping[str, str], chat_id: str) -> tuple[str, dict[str, Any]]:
    chat, _, thread = chat_id.partition(" ")
    return moved.get(chat, chat), {"message_thread_id": int(thread)} if thread else {}


def _quote(text: str, origin: telegram.MessageOrigin) -> Quote:
    user = getattr(origin, "sender_user", None)
    if user is not None:
        return Quote(text=text, sender_id=str(user.id), sender_name=user.full_name)
    chat = getattr(origin, "sender_chat", None) or getattr(origin, "chat", None)
    name = chat.effective_name if chat else getattr(origin, "sender_user_name", "")
    return Quote(text=text, sender_name=name or "")


def _attachments(message: telegram.Message) -> tuple[tuple[Attachment, ...], str]:
    """The file of a message, or why it has none."""
    found: Any = message.effective_attachment
    if isinstance(found, list | tuple):
        found = found[-1] if found else None
    if found is None or message.sticker is not None:
        return (), ""
    if not hasattr(found, "file_id"):
        return (), _UNREAD
    kind = getattr(found, "mime_type", None) or _TYPES.get(type(found), "application/octet-stream")
    suffix = _SUFFIXES.get(kind) or mimetypes.guess_extension(kind) or ""
    name = getattr(found, "file_name", None) or f"{found.file_unique_id}{suffix}"
    return (Attachment(key=found.file_id, name=name, content_type=kind, size=found.file_size),), ""
