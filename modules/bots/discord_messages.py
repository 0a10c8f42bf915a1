"""What Discord's events say, as the core takes it. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

import hikari
import pyromark

from .connector import Attachment, Incoming, Quote

ODD: Final = (
    *(LookupError, TypeError, ValueError, AttributeError, AssertionError, OverflowError),
    hikari.UnrecognisedEntityError,
)
"""What hikari raises where something is not as documented."""
_UNREAD: Final = "This bot reads text, pictures, voice messages and files, and cannot read this."


class Reader:
    """`own` is the bot's id, and `names` has those of servers and channels."""

    def __init__(self, factory: hikari.api.EntityFactory, own: int) -> None:
        self._factory, self.own = factory, own
        self.names: dict[str, str] = {}

    def incoming(self, name: str, payload: Any) -> list[Incoming]:  # noqa: ANN401  the same
        read = self._factory
        incomings: list[Incoming | None] = []
        match name:
            case "MESSAGE_CREATE":
                incomings = [self.message(read.deserialize_message(payload))]
            case "MESSAGE_UPDATE":
                incomings = [self._edited(read.deserialize_partial_message(payload))]
            case "MESSAGE_DELETE" | "MESSAGE_DELETE_BULK":
                ids = list(payload["ids"]) if "ids" in payload else [payload["id"]]
                incomings = [_deleted(payload, str(int(entry_id))) for entry_id in ids]
            case "INTERACTION_CREATE" if (
                payload["type"] == hikari.InteractionType.MESSAGE_COMPONENT
            ):
                incomings = [self._press(payload)]
        return [incoming for incoming in incomings if incoming is not None]

    def message(self, said: hikari.PartialMessage, server: int = 0) -> Incoming | None:
        author, server = said.author, int(said.guild_id or server)
        kinds = {hikari.MessageType.DEFAULT, hikari.MessageType.REPLY}
        if not author or author.is_bot or author.is_system or said.webhook_id:
            return None
        if said.type not in kinds:
            return None
        text, quote, is_reply = self._quoted(said)
        files = [
            *(said.attachments or ()),
            *(f for s in said.message_snapshots for f in s.attachments),
        ]
        problem = _UNREAD if (said.stickers or said.poll) and not (text or files) else ""
        for own in (f"<@{self.own}>", f"<@!{self.own}>"):
            text = text.removeprefix(own).lstrip(" ,:\n") if text.startswith(own) else text
        is_addressed = is_reply or self.own in (said.user_mentions or {})
        if not (text or files or problem or quote or is_addressed):
            return None
        return Incoming(
            update_id=str(said.id),
            kind="message",
            chat_id=str(said.channel_id),
            chat_type="group" if server else "dm",
            sender_id=str(author.id),
            sender_name=(said.member.display_name if said.member else author.display_name) or "",
            chat_title=self.names.get(str(said.channel_id)) or self.names.get(str(server), ""),
            message_id=str(said.id),
            text=text,
            is_addressed=is_addressed,
            quote=quote,
            attachments=tuple(_attachment(file) for file in files),
            problem=problem,
            parent_id=str(server or ""),
        )

    def _quoted(self, message: hikari.PartialMessage) -> tuple[str, Quote | None, bool]:
        """A message's own text, what it forwards or answers, and whether that is the bot's."""
        text, answered = message.content or "", message.referenced_message
        if message.message_snapshots:
            return text, Quote(text=_words(message)), False
        if not answered or not answered.author:
            return text, None, False
        author, words = answered.author, _words(answered)
        if author.id == self.own:
            return text, None, True
        if answered.message_snapshots or answered.webhook_id:
            return text, Quote(text=words), False
        name = author.display_name or ""
        return text, Quote(text=words, sender_id=str(author.id), sender_name=name), False

    def _edited(self, message: hikari.PartialMessage) -> Incoming | None:
        """An edit; Discord's own, such as that it looked at a link, has no time."""
        incoming = self.message(message) if message.edited_timestamp else None
        if incoming is None or not incoming.text:
            return None
        return replace(
            incoming, kind="edited", update_id=f"{message.id} {message.edited_timestamp}"
        )

    def _press(self, press: Mapping[str, Any]) -> Incoming | None:
        user, server = press.get("user") or press["member"]["user"], press.get("guild_id")
        data = str(press["data"]["custom_id"])
        if int(press["message"]["author"]["id"]) != self.own or not data.isdecimal():
            return None
        return Incoming(
            update_id=str(press["id"]),
            kind="button",
            chat_id=str(press["channel_id"]),
            chat_type="group" if server else "dm",
            sender_id=str(user["id"]),
            sender_name=str(user.get("global_name") or user["username"]),
            message_id=str(press["message"]["id"]),
            parent_id=str(server or ""),
            button=int(data),
        )


def _deleted(payload: Mapping[str, Any], message_id: str) -> Incoming:
    """Discord does not say whose it was, nor who deleted it."""
    server = str(payload.get("guild_id") or "")
    return Incoming(
        update_id=f"{message_id} deleted",
        kind="deleted",
        chat_id=str(payload["channel_id"]),
        chat_type="group" if server else "dm",
        sender_id="",
        message_id=message_id,
        parent_id=server,
    )


def _words(said: hikari.PartialMessage) -> str:
    words = [said.content or "", *(snapshot.content or "" for snapshot in said.message_snapshots)]
    return "\n".join(filter(None, words)) or "(a message without words)"


def _attachment(file: hikari.Attachment) -> Attachment:
    kind = (file.media_type or "application/octet-stream").partition(";")[0]
    return Attachment(key=file.url, name=file.filename, content_type=kind, size=file.size)


def with_tables(text: str) -> str:
    """The text with its tables as code, for Discord has none."""
    source, parts, end, depth = text.encode("utf-8", "replace"), list[bytes](), 0, 0
    options = pyromark.Options.ENABLE_TABLES
    for event, span in pyromark.events_with_range(source.decode(), options=options):
        begins = isinstance(event, dict) and event.get("Start")
        if begins:
            if isinstance(begins, dict) and "Table" in begins and not depth:
                table = source[span["start"] : span["end"]].rstrip()
                parts += [source[end : span["start"]], b"```\n", table, b"\n```\n"]
                end = span["end"]
            depth += 1
        elif isinstance(event, dict) and "End" in event:
            depth -= 1
    return (b"".join(parts) + source[end:]).decode()
