"""A Bot API server on loopback, as Telegram's public documentation of it has it."""

from __future__ import annotations

import asyncio
import itertools
import json
import time
from html.parser import HTMLParser
from typing import Any, Final

from aiohttp import ClientError, ClientSession, web

Json = dict[str, Any]

_LONGEST: Final = 4096
_TAGS: Final = frozenset({"b", "i", "s", "u", "a", "code", "pre", "blockquote"})
_GONE: Final = (401, "Unauthorized", {})
_POLLED_ELSEWHERE: Final = (
    409,
    "Conflict: terminated by other getUpdates request; make sure that only one bot is running",
    {},
)


class Refused(Exception):  # noqa: N818  an answer of the server's
    def __init__(self, code: int, description: str, parameters: Json) -> None:
        super().__init__(code, description, parameters)
        self.code, self.description, self.parameters = code, description, parameters


class TelegramApi:
    """One bot, and what it may be asked. `asked` are the calls, by name and time."""

    def __init__(self) -> None:
        self.token = "27:AAF-token_of_a_test"  # noqa: S105  a test's
        self.bot: Json = {"id": 27, "is_bot": True, "first_name": "Notes", "username": "NotesBot"}
        self.url = ""
        self.chats: dict[int, Json] = {}
        self.messages: dict[tuple[int, int], Json] = {}
        self.edits: dict[tuple[int, int], int] = {}
        self.files: dict[str, bytes] = {}
        self.asked: list[tuple[str, float]] = []
        self.left: list[int] = []
        self.refusals: list[tuple[int, str, Json]] = []  # of the next calls but getUpdates
        self.moved: dict[int, int] = {}
        self.numbers = itertools.count(1)
        self._updates: list[Json] = []
        self._changed = asyncio.Event()
        self._polls = 0
        self.webhook: Json = {}
        self.posted: list[int] = []  # what the webhook's calls were answered by
        self._posting: asyncio.Task[None] | None = None

    async def open(self) -> TelegramApi:
        app = web.Application(client_max_size=64 << 20)
        app.router.add_post("/bot{token}/{method}", self._answer)
        app.router.add_get("/file/bot{token}/{path:.+}", self._file)
        self._runner = web.AppRunner(
            app, handler_cancellation=True, shutdown_timeout=0.1, access_log=None
        )
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0)
        await site.start()
        self.url = f"http://127.0.0.1:{self._runner.addresses[0][1]}"
        return self

    async def close(self) -> None:
        await self._end_webhook()
        await self._runner.cleanup()

    def update(self, **what: Any) -> Json:
        """Something happens; the bot can ask for it."""
        found = {"update_id": next(self.numbers), **what}
        self._updates.append(found)
        self._changed.set()
        return found

    def message(self, chat: int, sender: Json, **what: Any) -> Json:
        """A message, as it is given to bots."""
        number = next(self.numbers)
        said = {"message_id": number, "date": int(time.time()), "chat": self.chats[chat]}
        self.messages[chat, number] = {**said, "from": sender, **what}
        return self.messages[chat, number]

    def revoke(self) -> None:
        self.token = "27:another"  # noqa: S105  a test's
        self._changed.set()

    async def _answer(self, request: web.Request) -> web.Response:
        method = request.match_info["method"]
        said = dict(await request.post())
        self.asked.append((method, time.monotonic()))
        try:
            result = await self._call(request.match_info["token"], method, said)
        except Refused as error:
            refusal = {"ok": False, "error_code": error.code, "description": error.description}
            if error.parameters:
                refusal["parameters"] = error.parameters
            return web.json_response(refusal, status=error.code)
        return web.json_response({"ok": True, "result": result})

    async def _call(self, token: str, method: str, said: Json) -> object:
        if token != self.token:
            raise Refused(*_GONE)
        if self.refusals and method != "getUpdates":
            raise Refused(*self.refusals.pop(0))
        call = getattr(self, f"_{method}", None)
        if call is None:
            raise Refused(404, "Not Found", {})
        return await call(said)

    async def _file(self, request: web.Request) -> web.Response:
        content = self.files.get(request.match_info["path"].removeprefix("documents/"))
        if request.match_info["token"] != self.token or content is None:
            return web.json_response({"ok": False, "error_code": 404, "description": "Not Found"})
        return web.Response(body=content)

    async def _getMe(self, _said: Json) -> Json:  # noqa: N802  the method's name
        return {**self.bot, "can_join_groups": True, "can_read_all_group_messages": True}

    async def _deleteWebhook(self, _said: Json) -> bool:  # noqa: N802
        await self._end_webhook()
        return True

    async def _setWebhook(self, said: Json) -> bool:  # noqa: N802
        await self._end_webhook()
        self.webhook = said
        self._posting = asyncio.get_running_loop().create_task(self._post_updates())
        return True

    async def _end_webhook(self) -> None:
        self.webhook = {}
        if self._posting is not None:
            self._posting.cancel()
            await asyncio.wait([self._posting])

    async def _post_updates(self) -> None:
        """Post each until it is answered by 200, as Telegram does."""
        secret = {"X-Telegram-Bot-Api-Secret-Token": self.webhook["secret_token"]}
        async with ClientSession(headers=secret) as client:
            while True:
                self._changed.clear()
                while self._updates:
                    try:
                        async with client.post(self.webhook["url"], json=self._updates[0]) as said:
                            self.posted.append(said.status)
                    except ClientError:
                        self.posted.append(0)
                    if self.posted[-1] == 200:
                        self._updates.pop(0)
                    else:
                        await asyncio.sleep(0.1)
                await self._changed.wait()

    async def _getUpdates(self, said: Json) -> list[Json]:  # noqa: N802
        offset, token = int(said.get("offset") or 0), self.token
        self._polls += 1
        own = self._polls
        self._changed.set()
        self._updates = [update for update in self._updates if update["update_id"] >= offset]
        allowed = json.loads(said.get("allowed_updates") or "[]")
        deadline = time.monotonic() + float(said.get("timeout") or 0)
        while True:
            self._changed.clear()
            if self.token != token:
                raise Refused(*_GONE)
            if self._polls != own:
                raise Refused(*_POLLED_ELSEWHERE)
            found = [
                update for update in self._updates if not allowed or set(update) & set(allowed)
            ]
            left = deadline - time.monotonic()
            if found or left <= 0:
                return found[: int(said.get("limit") or 100)]
            try:
                await asyncio.wait_for(self._changed.wait(), left)
            except TimeoutError:
                continue

    async def _sendMessage(self, said: Json) -> Json:  # noqa: N802
        chat = self._chat(said)
        what = {"text": _text(said)}
        if "message_thread_id" in said:
            what |= {"message_thread_id": int(said["message_thread_id"]), "is_topic_message": True}
        return self.message(chat, self.bot, **what, **_markup(said))

    async def _editMessageText(self, said: Json) -> Json:  # noqa: N802
        at = self._chat(said), int(said["message_id"])
        found = self.messages.get(at)
        if found is None:
            raise Refused(400, "Bad Request: message to edit not found", {})
        if found["from"] != self.bot:
            raise Refused(400, "Bad Request: message can't be edited", {})
        new = {"text": _text(said), **_markup(said)}
        if new == {name: found[name] for name in ("text", "reply_markup") if name in found}:
            raise Refused(
                400,
                "Bad Request: message is not modified: specified new message content and reply "
                "markup are exactly the same as a current content and reply markup of the message",
                {},
            )
        found.pop("reply_markup", None)
        found |= new
        self.edits[at] = self.edits.get(at, 0) + 1
        return found

    async def _sendDocument(self, said: Json) -> Json:  # noqa: N802
        chat, field = self._chat(said), said["document"]
        file_id = f"file{next(self.numbers)}"
        self.files[file_id] = field.file.read()
        return self.message(chat, self.bot, document=_document(file_id, field.filename))

    async def _sendChatAction(self, said: Json) -> bool:  # noqa: N802
        self._chat(said)
        return True

    async def _answerCallbackQuery(self, said: Json) -> bool:  # noqa: N802
        if not said.get("callback_query_id"):
            raise Refused(400, "Bad Request: query is too old", {})
        return True

    async def _leaveChat(self, said: Json) -> bool:  # noqa: N802
        self.left.append(self._chat(said))
        return True

    async def _getFile(self, said: Json) -> Json:  # noqa: N802
        content = self.files.get(said["file_id"])
        if content is None:
            raise Refused(400, "Bad Request: invalid file_id", {})
        if len(content) > 20 << 20:
            raise Refused(400, "Bad Request: file is too big", {})
        file_id = said["file_id"]
        sizes = {"file_size": len(content), "file_path": f"documents/{file_id}"}
        return {"file_id": file_id, "file_unique_id": file_id, **sizes}

    def _chat(self, said: Json) -> int:
        chat = int(said["chat_id"])
        if chat in self.moved:
            moved = {"migrate_to_chat_id": self.moved[chat]}
            text = "Bad Request: group chat was upgraded to a supergroup chat"
            raise Refused(400, text, moved)
        if chat in self.left:
            raise Refused(403, "Forbidden: bot is not a member of the group chat", {})
        if chat not in self.chats:
            raise Refused(400, "Bad Request: chat not found", {})
        return chat


def _document(file_id: str, name: str) -> Json:
    return {"file_id": file_id, "file_unique_id": file_id, "file_name": name}


def _markup(said: Json) -> Json:
    if "reply_markup" not in said:
        return {}
    markup = json.loads(said["reply_markup"])
    for button in itertools.chain(*markup["inline_keyboard"]):
        if not 1 <= len(button["callback_data"].encode()) <= 64:
            raise Refused(400, "Bad Request: BUTTON_DATA_INVALID", {})
    return {"reply_markup": markup} if markup["inline_keyboard"] else {}


def _text(said: Json) -> str:
    text = said.get("text") or ""
    if said.get("parse_mode") == "HTML":
        text = words_of(text)
    if not text.strip():
        raise Refused(400, "Bad Request: message text is empty", {})
    if len(text.strip().encode("utf-16-le")) // 2 > _LONGEST:
        raise Refused(400, "Bad Request: message is too long", {})
    return text.strip()


def words_of(text: str) -> str:
    """The words of HTML. Refused: it is not what Telegram takes."""
    words = _Words()
    words.feed(text)
    words.close()
    if words.open:
        raise Refused(400, f"Bad Request: can't parse entities: <{words.open[-1]}> is open", {})
    return "".join(words.found)


class _Words(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []
        self.open: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        del attrs
        if tag not in _TAGS:
            raise Refused(400, f'Bad Request: can\'t parse entities: unsupported tag "{tag}"', {})
        self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if not self.open or self.open.pop() != tag:
            raise Refused(400, f"Bad Request: can't parse entities: unmatched </{tag}>", {})

    def handle_data(self, data: str) -> None:
        self.found.append(data)
