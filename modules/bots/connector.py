"""What the core asks of a platform, and what a platform brings.

A connector knows its platform and nothing of sessions, pairing or agents; the core knows these and
nothing of a platform. Ids are texts as the platform has them. A chat's id names the place that is
one session: a direct message, a channel, a room, or a thread of one.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any, ClassVar, Literal, Protocol, TypeAlias
from urllib.parse import urlsplit

from parachuted.errors import ParachuteError

Kind: TypeAlias = Literal[
    "message", "edited", "deleted", "button", "added", "migrated", "relay", "suggestion"
]
ChatType: TypeAlias = Literal["dm", "group"]
Platform: TypeAlias = Literal["matrix", "telegram", "discord"]


class ConnectorError(ParachuteError):
    """The platform did not do what was asked, and would not if it were asked again. `advice` says
    what a person can do.
    """

    advice = "mend that, and start the bot again on the page's screen Bots"


class CredentialsError(ConnectorError):
    """The platform does not take the token: nothing is tried again until a person gives another."""

    advice = "`parachute bots add {platform} - < token.txt` gives it another token"


class RetryLaterError(ConnectorError):
    """The platform cannot be reached, or asks for a pause."""

    advice = "it is tried again without you; see whether this machine reaches {platform}"

    def __init__(self, message: str, after_s: float = 5.0) -> None:
        super().__init__(message)
        self.after_s = after_s


class UnansweredError(RetryLaterError):
    """The platform may have done what was asked: it did not say so."""


class UnknownError(ConnectorError):
    """Something went wrong here."""

    advice = "`parachute logs` says what it was"


def host_of(url: str) -> str:
    """The host and port of an address, without what may be a password; empty: it is malformed."""
    with suppress(ValueError):
        found = urlsplit(url)
        if found.scheme in {"http", "https"} and found.hostname:
            return f"{found.hostname}:{found.port}" if found.port else found.hostname
    return ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Attachment:
    """A file of a message; `key` is what `fetch` finds it by. `size` in bytes, where known."""

    key: str
    name: str
    content_type: str = "application/octet-stream"
    size: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Quote:
    """What a message answers or forwards, and who wrote that: a stranger's text, unless a paired
    person did. What the bot itself wrote is not quoted: it stands in the session.
    """

    text: str
    sender_id: str = ""
    sender_name: str = ""


async def _nothing() -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Incoming:
    """Something that happened in a chat. It may come several times, with the same `update_id`.

    `message_id` is the message that is new, was edited or deleted, or has the button. `sender_id`
    is the platform's id of the person, which no one can choose; `sender_name` is for show alone.
    `is_addressed`: in a group it mentions the bot, or answers it. `problem`: why the message cannot
    be read, for its sender. `button`: which of the message's buttons was pressed, counted from 0.
    Of `added`, `sender_id` is who added the bot to the chat, and of `deleted` it is empty where the
    platform does not say whose message it was; of `migrated`, `new_chat_id` is the
    chat's id from now on. `relay` is the core's own: what a person said on the page, to be shown in
    the chat; and so is `suggestion`, with its id as `message_id`, for that sender to decide on.
    `parent_id`: the chat that this one is a thread of; a change or a button of a message
    in it may come with the parent as its `chat_id`. `done` acknowledges the update, once it cannot
    be lost any more.
    """

    update_id: str
    kind: Kind
    chat_id: str
    chat_type: ChatType
    sender_id: str
    sender_name: str = ""
    chat_title: str = ""
    message_id: str = ""
    text: str = ""
    is_addressed: bool = False
    quote: Quote | None = None
    attachments: tuple[Attachment, ...] = ()
    problem: str = ""
    parent_id: str = ""
    button: int | None = None
    new_chat_id: str = ""
    done: Callable[[], Awaitable[None]] = field(default=_nothing, compare=False)

    def document(self) -> dict[str, Any]:
        """All but `done`, as JSON."""
        found = {one.name: getattr(self, one.name) for one in fields(self) if one.name != "done"}
        found["quote"] = None if self.quote is None else asdict(self.quote)
        found["attachments"] = [asdict(attachment) for attachment in self.attachments]
        return found

    def clean(self) -> Incoming:
        """The same as text that can be written: what is no Unicode is a question mark."""
        texts = {one.name for one in fields(self) if one.type == "str"}
        document = {
            name: "" if value is None and name in texts else value
            for name, value in self.document().items()
        }
        text = json.dumps(document, ensure_ascii=False).encode("utf-8", "replace")
        return replace(Incoming.of(json.loads(text)), done=self.done)

    @classmethod
    def of(cls, document: Mapping[str, Any]) -> Incoming:
        quote = document["quote"]
        files = tuple(Attachment(**one) for one in document["attachments"])
        rest = {"quote": None if quote is None else Quote(**quote), "attachments": files}
        return cls(**{**document, **rest})


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """`longest` is how long a message may be, as `size` counts, `edit_s` the seconds between two
    edits in a chat. `repeats_safely`: two messages that are sent with one key are one.
    """

    longest: int
    edit_s: float = 1.0
    largest_file: int = 20 << 20
    repeats_safely: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class CredentialField:
    """What a person is asked for to add the platform."""

    name: str
    label: str
    is_secret: bool = False
    is_optional: bool = False
    takes_token: bool = True
    """The token is sent to that address: with another one it is asked for again."""


class Cursor(Protocol):
    """A short text that a connector keeps across restarts: how far it has read."""

    async def get(self) -> str: ...

    async def put(self, text: str) -> None: ...


class Connector(Protocol):
    """One bot on one platform. `credentials` have the values of its `CredentialField`s.

    Whatever asks the platform raises RetryLaterError, CredentialsError or another ConnectorError;
    `send`, where it does not repeat safely, UnansweredError if it may have sent. It never writes a
    credential into an error or a log.
    """

    platform: ClassVar[Platform]
    title: ClassVar[str]
    limits: ClassVar[Limits]

    def __init__(self, credentials: Mapping[str, str], cursor: Cursor) -> None: ...

    async def connect(self) -> str:
        """Check the credentials, and return the bot's name, such as @MyParachuteBot."""

    def listen(self) -> AsyncIterator[Incoming]:
        """What happens, at least once each, in the order of each chat: what was not acknowledged
        comes again after the next start. What the bot itself did does not come.
        """

    async def send(
        self, chat_id: str, text: str, buttons: Sequence[str] = (), *, key: str = ""
    ) -> str:
        """Send Markdown of at most `limits.longest`, and return the message's id. `key` is the same
        whenever the same message is sent again.
        """

    async def edit(
        self, chat_id: str, message_id: str, text: str, buttons: Sequence[str] = ()
    ) -> None: ...

    async def send_file(self, chat_id: str, name: str, content: bytes, *, key: str = "") -> str:
        """Send a file, and return the message's id."""

    async def typing(self, chat_id: str) -> None: ...

    async def fetch(self, attachment: Attachment) -> bytes:
        """The content of a file that came, of at most `limits.largest_file`."""

    async def join(self, chat_id: str) -> None:
        """Take part in a chat that the bot was added to; on most platforms it does already."""

    async def leave(self, chat_id: str) -> None: ...

    def size(self, text: str) -> int:
        """How long a Markdown text is as the platform counts it."""

    @property
    def webhook_secret(self) -> str:
        """What shows that a webhook call is the platform's; empty: it makes none."""
        return ""

    async def receive(self, update: Mapping[str, Any]) -> None:
        """Take what a webhook call brings, and return once it is stored."""

    async def close(self) -> None: ...
