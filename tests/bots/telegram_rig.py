"""People on a Bot API server of the tests' own."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from typing import Any

from tests.bots.gate import Gate
from tests.bots.rigs import Shown
from tests.bots.telegram_api import Json, TelegramApi


class TelegramRig:
    platform = "telegram"
    tells_of_deletions = False

    def __init__(self) -> None:
        self.api = TelegramApi()
        self.bot_id = str(self.api.bot["id"])
        self.people: dict[str, Json] = {}
        self._token = self.api.token

    async def open(self) -> TelegramRig:
        await self.api.open()
        self._gate = Gate(self.api.url)
        await self._gate.open()
        return self

    def settings(self) -> dict[str, Any]:
        url = self._gate.url
        urls = {"base_url": f"{url}/bot", "base_file_url": f"{url}/file/bot"}
        return {"enabled": True, "token": self._token, **urls}

    def has_listener(self) -> bool:
        return True  # it asks for what it missed

    async def person(self, name: str) -> str:
        number = 5_000_000_000 + next(self.api.numbers)
        self.people[str(number)] = {"id": number, "is_bot": False, "first_name": name}
        return str(number)

    async def dm(self, person: str) -> str:
        name = self.people[person]["first_name"]
        self.api.chats[int(person)] = {"id": int(person), "type": "private", "first_name": name}
        return person

    async def group(self, person: str, *others: str) -> str:
        del others
        number = -next(self.api.numbers)
        chat = {"id": number, "type": "group", "title": "Garden club"}
        self.api.chats[number] = chat
        member = {"user": self.api.bot, "status": "member"}
        before = {"user": self.api.bot, "status": "left"}
        self.api.update(
            my_chat_member={
                "chat": chat,
                "from": self.people[person],
                "date": 1_700_000_000,
                "old_chat_member": before,
                "new_chat_member": member,
            }
        )
        return str(number)

    async def say(
        self, person: str, chat: str, text: str, *, to_bot: bool = False, reply_to: str = ""
    ) -> str:
        what: Json = {"text": text}
        if to_bot:
            mention = {"type": "mention", "offset": 0, "length": len("@NotesBot")}
            what = {"text": f"@NotesBot {text}", "entities": [mention]}
        if reply_to:
            replied = self.api.messages[int(chat), int(reply_to)]
            what["reply_to_message"] = {
                name: value for name, value in replied.items() if name != "reply_to_message"
            }
        return self.post(person, chat, **what)

    def post(self, person: str, chat: str, **what: Any) -> str:
        said = self.api.message(int(chat), self.people[person], **what)
        self.api.update(message=said)
        return str(said["message_id"])

    async def edit(self, person: str, chat: str, message: str, text: str) -> None:
        del person
        said = self.api.messages[int(chat), int(message)]
        said |= {"text": text, "edit_date": said["date"] + 1}
        said.pop("entities", None)
        self.api.update(edited_message=dict(said))

    async def delete(self, person: str, chat: str, message: str) -> None:
        """Bots hear nothing of it."""

    async def press(self, person: str, chat: str, message: str, button: int) -> None:
        said = self.api.messages[int(chat), int(message)]
        rows = said.get("reply_markup", {}).get("inline_keyboard") or []
        data = rows[button][0]["callback_data"] if button < len(rows) else str(button)
        query = {"id": f"q{next(self.api.numbers)}", "from": self.people[person]}
        self.api.update(
            callback_query={**query, "message": said, "chat_instance": "1", "data": data}
        )

    async def send_file(
        self, person: str, chat: str, name: str, content: bytes, content_type: str
    ) -> None:
        file_id = f"file{next(self.api.numbers)}"
        self.api.files[file_id] = content
        ids = {"file_id": file_id, "file_unique_id": file_id, "file_size": len(content)}
        self.post(person, chat, document={**ids, "file_name": name, "mime_type": content_type})

    async def shown(self, chat: str) -> list[Shown]:
        found = []
        for at, said in self.api.messages.items():
            if at[0] != int(chat) or said["from"] != self.api.bot:
                continue
            file = said.get("document")
            found.append(
                Shown(
                    id=str(at[1]),
                    text=said.get("text", ""),
                    edits=self.api.edits.get(at, 0),
                    buttons=len(said.get("reply_markup", {}).get("inline_keyboard") or ()),
                    file=self.api.files[file["file_id"]] if file else None,
                )
            )
        return found

    def migrate(self, chat: str) -> str:
        """The group becomes a supergroup; returns its new id."""
        old, new = int(chat), -1_000_000_000_000 - next(self.api.numbers)
        self.api.chats[new] = {"id": new, "type": "supergroup", "title": "Garden club"}
        self.api.moved[old] = new
        sender = {"id": 1_087_968_824, "is_bot": True, "first_name": "Group"}
        said = self.api.message(old, sender, migrate_to_chat_id=new)
        self.api.update(message=said)
        self.api.update(message=self.api.message(new, sender, migrate_from_chat_id=old))
        return str(new)

    def outage(self) -> AbstractAsyncContextManager[None]:
        return self._gate.cut()

    def losing_answers(self) -> AbstractAsyncContextManager[None]:
        return self._gate.losing_answers()

    async def shut_out(self, person: str, chat: str) -> None:
        del person
        self.api.left.append(int(chat))

    async def revoke(self) -> None:
        self.api.revoke()

    async def close(self) -> None:
        await self._gate.close()
        await self.api.close()
