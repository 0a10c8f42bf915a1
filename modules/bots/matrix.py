"""Matrix: rooms without encryption, on any server, by matrix-nio.

The cursor is the server's own token of a sync: it is kept once all that came with it is stored.
"""

from __future__ import annotations

import io
import mimetypes
import re
import uuid
from collections.abc import AsyncIterator, Awaitable, Mapping, Sequence
from typing import Any, ClassVar, Final

import aiohttp
import nio
import pyromark

from .connector import (
    Attachment,
    ChatType,
    Connector,
    ConnectorError,
    CredentialsError,
    Cursor,
    Incoming,
    Limits,
    Platform,
    Quote,
    RetryLaterError,
    host_of,
)

_SYNC_MS: Final = 30_000
_FILTER: Final = {"room": {"timeline": {"limit": 100}, "ephemeral": {"types": []}}}
_MOST_MISSED: Final = 10  # pages of a hundred
_TYPING_MS: Final = 8_000
_DEVICE: Final = "PARACHUTE"
_KEYCAP: Final = "️⃣"
_PRESSED: Final = re.compile("[1-9]\ufe0f?\u20e3")
_DM: Final = 2  # members
_USER_ID: Final = re.compile(r"@[^:\s]+:[^\s/]+")
_FALLBACK: Final = re.compile(r"(?:> [^\n]*\n)+\n?")
_SUFFIXES: Final = {"audio/ogg": ".ogg", "audio/mp4": ".m4a", "audio/webm": ".webm"}
_ENCRYPTED: Final = (
    "This room is encrypted, and the bot has no keys: it cannot read what you write. Invite it "
    "to a room without encryption."
)
_BAD_TOKENS: Final = frozenset(
    {"M_UNKNOWN_TOKEN", "M_MISSING_TOKEN", "M_USER_DEACTIVATED", "M_FORBIDDEN"}
)


class MatrixConnector(Connector):
    """One account of a Matrix server. A chat is a room, or `room root` for a thread of one."""

    platform: ClassVar[Platform] = "matrix"
    title: ClassVar[str] = "Matrix"
    limits: ClassVar[Limits] = Limits(longest=6_000, edit_s=1.0, repeats_safely=True)

    def __init__(self, credentials: Mapping[str, str], cursor: Cursor) -> None:
        config = nio.AsyncClientConfig(
            max_limit_exceeded=0, max_timeouts=0, encryption_enabled=False, store_sync_tokens=False
        )
        self._client = nio.AsyncClient(
            credentials["homeserver_url"].rstrip("/"),
            credentials["user_id"],
            device_id=_DEVICE,
            config=config,
        )
        self._client.user_id = credentials["user_id"]
        self._client.access_token = credentials["access_token"]
        self._cursor = cursor
        self._host = host_of(credentials["homeserver_url"])

    async def connect(self) -> str:
        if not self._host:
            raise ConnectorError(
                "the server's address is malformed; it is like https://example.org"
            )
        if not _USER_ID.fullmatch(self._client.user_id):
            raise ConnectorError("the account is malformed; it is like @bot:example.org")
        found = await self._ask(self._client.whoami(), bad_tokens=_BAD_TOKENS)
        if found.user_id != self._client.user_id:
            raise CredentialsError(f"the token is {found.user_id}'s, not {self._client.user_id}'s")
        return str(found.user_id)

    async def listen(self) -> AsyncIterator[Incoming]:
        since, is_first = await self._cursor.get(), True
        while True:
            timeout = 0 if is_first or not since else _SYNC_MS
            found = await self._ask(
                self._client.sync(
                    timeout, sync_filter=_FILTER, since=since or None, full_state=is_first
                )
            )
            for room_id, invited in found.rooms.invite.items():
                for event in invited.invite_state:
                    said = {
                        **event.source,
                        "content": getattr(event, "content", {}),
                    }  # nio takes it out
                    if self._is_own_membership(said, "invite"):
                        yield self._added(room_id, said)
            if since:
                for room_id, joined in found.rooms.join.items():
                    for event in await self._new_events(room_id, joined.timeline, since):
                        incoming = await self._incoming(room_id, event)
                        if incoming is not None:
                            yield incoming
            since, is_first = found.next_batch, False  # the core has stored what was yielded
            await self._cursor.put(since)

    async def send(
        self, chat_id: str, text: str, buttons: Sequence[str] = (), *, key: str = ""
    ) -> str:
        """Send a message, with a reaction of the bot's own for each button."""
        room_id, _, root = chat_id.partition(" ")
        choices = "".join(f"\n\n{at}{_KEYCAP} {one}" for at, one in enumerate(buttons, 1))
        content = _content(text + choices)
        if root:
            content["m.relates_to"] = {
                "rel_type": "m.thread",
                "event_id": root,
                "is_falling_back": True,
                "m.in_reply_to": {"event_id": root},
            }
        event_id = await self._send(room_id, "m.room.message", content, key)
        for at in range(1, len(buttons) + 1):
            chosen = {"rel_type": "m.annotation", "event_id": event_id, "key": f"{at}{_KEYCAP}"}
            reaction = {"m.relates_to": chosen}
            await self._send(room_id, "m.reaction", reaction, key and f"{key}-{at}")
        return event_id

    async def edit(
        self, chat_id: str, message_id: str, text: str, buttons: Sequence[str] = ()
    ) -> None:
        del buttons  # its reactions stay
        content = {
            "msgtype": "m.text",
            "body": f"* {text}",
            "m.new_content": _content(text),
            "m.relates_to": {"rel_type": "m.replace", "event_id": message_id},
        }
        await self._send(chat_id.partition(" ")[0], "m.room.message", content, "")

    async def send_file(self, chat_id: str, name: str, content: bytes, *, key: str = "") -> str:
        kind = mimetypes.guess_type(name)[0] or "application/octet-stream"
        uploaded, _keys = await self._answered(
            self._client.upload(
                io.BytesIO(content), content_type=kind, filename=name, filesize=len(content)
            )
        )
        self._check(uploaded)
        said = {
            "msgtype": "m.image" if kind.startswith("image/") else "m.file",
            "body": name,
            "url": uploaded.content_uri,
            "info": {"mimetype": kind, "size": len(content)},
        }
        return await self._send(chat_id.partition(" ")[0], "m.room.message", said, key)

    async def typing(self, chat_id: str) -> None:
        room_id = chat_id.partition(" ")[0]
        await self._ask(self._client.room_typing(room_id, typing_state=True, timeout=_TYPING_MS))

    async def fetch(self, attachment: Attachment) -> bytes:
        found = await self._ask(self._client.download(mxc=attachment.key))
        if len(found.body) > self.limits.largest_file:
            raise ConnectorError(f"{attachment.name} is too large")
        return bytes(found.body)

    async def join(self, chat_id: str) -> None:
        await self._ask(self._client.join(chat_id))

    async def leave(self, chat_id: str) -> None:
        """Leave a room, or refuse an invitation."""
        await self._ask(self._client.room_leave(chat_id))

    def size(self, text: str) -> int:
        """Bytes: an event has at most 65,536, of which the text is a part several times."""
        return len(text.encode("utf-8", "replace"))

    async def close(self) -> None:
        await self._client.close()

    async def _new_events(
        self, room_id: str, timeline: nio.Timeline, since: str
    ) -> list[dict[str, Any]]:
        """The events of a room, and those that a long absence left out; of a new room those since
        the invitation.
        """
        events = [dict(event.source) for event in timeline.events]
        ours = [at for at, one in enumerate(events) if self._is_own_membership(one, "invite")]
        ours += [at for at, one in enumerate(events) if self._is_own_membership(one, "join")]
        if ours:
            return events[ours[0] + 1 :]
        start = timeline.prev_batch if timeline.limited else None
        missed: list[dict[str, Any]] = []
        for _page in range(_MOST_MISSED):
            if not start:
                break
            found = await self._ask(
                self._client.room_messages(room_id, start=start, end=since, limit=100)
            )
            missed += [dict(one.source) for one in found.chunk]
            start = found.end if found.chunk else None
        return [*reversed(missed), *events]

    async def _incoming(self, room_id: str, event: Mapping[str, Any]) -> Incoming | None:
        """None: it is nothing to the core."""
        sender, content = str(event.get("sender")), _object(event.get("content"))
        room = self._client.rooms.get(room_id)
        is_of_other = sender != self._client.user_id
        is_joined = event.get("type") == "m.room.member" and content.get("membership") == "join"
        if is_joined and is_of_other and room is not None and self._chat_type(room) == "group":
            return Incoming(
                update_id=str(event.get("event_id")),
                kind="migrated",
                chat_id=room_id,
                chat_type="group",
                sender_id=sender,
                new_chat_id=room_id,
            )
        if not is_of_other or "state_key" in event or room is None:
            return None
        relation = _object(content.get("m.relates_to"))
        fields: dict[str, Any] = {
            "update_id": str(event.get("event_id")),
            "chat_id": room_id,
            "chat_type": self._chat_type(room),
            "sender_id": sender,
            "sender_name": room.user_name(sender) or sender,
            "chat_title": room.named_room_name() or "",
            "message_id": str(event.get("event_id")),
        }
        on = str(relation.get("event_id"))
        match event.get("type"):
            case "m.room.redaction":
                redacted = str(event.get("redacts") or content.get("redacts"))
                fields |= {"kind": "deleted", "message_id": redacted}
            case "m.reaction" if _PRESSED.match(str(relation.get("key"))):
                fields |= {
                    "kind": "button",
                    "message_id": on,
                    "button": int(str(relation["key"])[0]) - 1,
                }
            case "m.room.encrypted":
                fields |= {"kind": "message", "problem": _ENCRYPTED, "is_addressed": True}
            case "m.room.message" if relation.get("rel_type") == "m.replace":
                text = str(_object(content.get("m.new_content")).get("body") or "")
                fields |= {"kind": "edited", "message_id": on, "text": self._plain(text, room)}
            case "m.room.message" if content.get("msgtype") not in {None, "m.notice"}:
                return await self._message(room, fields, content, relation)
        return Incoming(**fields) if "kind" in fields else None

    async def _message(
        self,
        room: nio.MatrixRoom,
        fields: dict[str, Any],
        content: Mapping[str, Any],
        relation: Mapping[str, Any],
    ) -> Incoming:
        text, quote = str(content.get("body") or ""), None
        is_addressed = self._is_mentioned(content, text, room)
        if relation.get("rel_type") == "m.thread":
            fields |= {"chat_id": f"{room.room_id} {relation.get('event_id')}"}
            fields |= {"parent_id": room.room_id}
        replied = _object(relation.get("m.in_reply_to")).get("event_id")
        if replied and not relation.get("is_falling_back"):
            text = _FALLBACK.sub("", text, count=1)
            quote = await self._quoted(room, str(replied))
            is_addressed = is_addressed or quote is None
        attachments: tuple[Attachment, ...] = ()
        if isinstance(content.get("url"), str):
            attachments, name = (_attachment(content),), content.get("filename")
            text = text if name and name != text else ""
        return Incoming(
            **fields,
            kind="message",
            text=self._plain(text, room),
            is_addressed=is_addressed,
            quote=quote,
            attachments=attachments,
        )

    async def _quoted(self, room: nio.MatrixRoom, event_id: str) -> Quote | None:
        """What a message answers; None: the bot's own words."""
        try:
            found = await self._ask(self._client.room_get_event(room.room_id, event_id))
        except RetryLaterError:
            raise
        except ConnectorError:
            return Quote(text="(a message that cannot be read)")
        source = found.event.source
        if source.get("sender") == self._client.user_id:
            return None
        text = str(_object(source.get("content")).get("body") or "")
        sender = str(source.get("sender"))
        return Quote(text=text, sender_id=sender, sender_name=room.user_name(sender) or sender)

    def _added(self, room_id: str, event: Mapping[str, Any]) -> Incoming:
        is_dm = _object(event.get("content")).get("is_direct") is True
        return Incoming(
            update_id=f"{room_id} invited",
            kind="added",
            chat_id=room_id,
            chat_type="dm" if is_dm else "group",
            sender_id=str(event.get("sender")),
        )

    def _is_own_membership(self, event: Mapping[str, Any], membership: str) -> bool:
        return (
            event.get("type") == "m.room.member"
            and event.get("state_key") == self._client.user_id
            and _object(event.get("content")).get("membership") == membership
        )

    def _chat_type(self, room: nio.MatrixRoom) -> ChatType:
        return "dm" if len(room.users) <= _DM else "group"

    def _is_mentioned(self, content: Mapping[str, Any], text: str, room: nio.MatrixRoom) -> bool:
        named = _object(content.get("m.mentions")).get("user_ids")
        is_named = isinstance(named, list) and self._client.user_id in named
        return is_named or any(name.casefold() in text.casefold() for name in self._names(room))

    def _plain(self, text: str, room: nio.MatrixRoom) -> str:
        for name in self._names(room):
            if text.casefold().startswith(name.casefold()):
                return text[len(name) :].lstrip(":, ")
        return text

    def _names(self, room: nio.MatrixRoom) -> list[str]:
        own = self._client.user_id
        names = [own, room.user_name(own), own.partition(":")[0]]
        return sorted({name for name in names if name}, key=len, reverse=True)

    async def _send(self, room_id: str, kind: str, content: dict[str, Any], key: str) -> str:
        sent = await self._ask(
            self._client.room_send(room_id, kind, content, tx_id=key or uuid.uuid4().hex)
        )
        return str(sent.event_id)

    async def _ask(
        self, asked: Awaitable[Any], *, bad_tokens: frozenset[str] = _BAD_TOKENS - {"M_FORBIDDEN"}
    ) -> Any:  # noqa: ANN401  any of nio's answers
        found = await self._answered(asked)
        self._check(found, bad_tokens)
        return found

    async def _answered(self, asked: Awaitable[Any]) -> Any:  # noqa: ANN401  the same
        try:
            return await asked
        except (TimeoutError, aiohttp.ClientError, OSError) as error:
            raise RetryLaterError(f"the Matrix server {self._host} cannot be reached") from error

    def _check(
        self, found: object, bad_tokens: frozenset[str] = _BAD_TOKENS - {"M_FORBIDDEN"}
    ) -> None:
        if not isinstance(found, nio.ErrorResponse):
            return
        code, transport = found.status_code, found.transport_response
        if code in bad_tokens:
            raise CredentialsError("the Matrix server does not take the bot's token")
        if code == "M_LIMIT_EXCEEDED":
            raise RetryLaterError(
                "the Matrix server asks for a pause", (found.retry_after_ms or 5_000) / 1_000
            )
        if transport is None or transport.status >= 500:  # noqa: PLR2004  the server's fault
            raise RetryLaterError("the Matrix server does not work at present")
        raise ConnectorError(f"the Matrix server refused it: {found.message[:200]}")


def _content(text: str) -> dict[str, Any]:
    return {
        "msgtype": "m.text",
        "body": text,
        "format": "org.matrix.custom.html",
        "formatted_body": pyromark.html(text).strip(),
    }


def _attachment(content: Mapping[str, Any]) -> Attachment:
    info = _object(content.get("info"))
    kind = str(info.get("mimetype") or "application/octet-stream")
    name = str(content.get("filename") or content.get("body") or "file")
    suffix = _SUFFIXES.get(kind) or mimetypes.guess_extension(kind) or ""
    size = info.get("size")
    return Attachment(
        key=str(content["url"]),
        name=name if "." in name else name + suffix,
        content_type=kind,
        size=size if isinstance(size, int) else None,
    )


def _object(value: object) -> Mapping[str, Any]:
    """What others sent may be anything."""
    return value if isinstance(value, Mapping) else {}
