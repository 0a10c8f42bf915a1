"""What a conversation may do whose answers several people see on another platform."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, TypeAlias

from .session import Mode, Session, SessionPermissions
from .sessions import Sessions

ChatName: TypeAlias = tuple[str, str]
"""A platform, and the chat's id there."""


@dataclass(frozen=True, slots=True)
class ChatLimit:
    permissions: SessionPermissions
    mode: Mode


_NOTHING: Final = ChatLimit(SessionPermissions(allowed_folders=(), allowed_mcps=()), "sandboxed")


class SharedChats:
    """The limits of chats, as the module that connects them says: a session's file says only to
    which chat it belongs. Where no module says anything, a group may read nothing.
    """

    def __init__(self, sessions: Sessions) -> None:
        self._sessions = sessions
        self._limits: dict[ChatName, ChatLimit | None] = {}

    def set(self, chats: Iterable[Mapping[str, Any]]) -> None:
        """One without `permissions` has no limit."""
        for chat in chats:
            said = chat["permissions"]
            limit = None if said is None else ChatLimit(permissions_of(said), chat["mode"])
            self._limits[chat["platform"], chat["chat_id"]] = limit

    async def hold(self, session: Session, chat: ChatName | None = None) -> Session:
        """The session as far as `limited` leaves it; a person sees that on its screen, too."""
        limited = self.limited(session, chat)
        if limited is not session and self._limit(session, chat) is not _NOTHING:
            changes = {
                name: getattr(limited, name)
                for name in ("mode", "permissions")
                if getattr(limited, name) != getattr(session, name)
            }
            if changes:
                await self._sessions.change(session.id, **changes)
        return limited

    def limited(self, session: Session, chat: ChatName | None = None) -> Session:
        """The session with nothing that its chat, or the named one, does not allow; itself where
        that has no limit. What brings other notes or conversations into a prompt is left out.
        """
        limit = self._limit(session, chat)
        if limit is None:
            return session
        is_within = _is_within(session, limit)
        permissions = session.permissions if is_within else limit.permissions
        folders = None if permissions is None else permissions.allowed_folders
        own = session.working_directory
        return replace(
            session,
            mode=session.mode if is_within else limit.mode,
            permissions=permissions,
            context_folders=tuple(one for one in session.context_folders if is_below(one, folders)),
            working_directory=own if own is not None and is_below(own, folders) else None,
            agent=None,
            continued_from=None,
        )

    def _limit(self, session: Session, chat: ChatName | None) -> ChatLimit | None:
        link = session.linked_bot
        if chat is not None:
            return self._limits.get(chat)
        if link is None:
            return None
        usual = None if link.chat_type == "dm" else _NOTHING
        return self._limits.get((link.platform, link.chat_id), usual)


def is_below(path: str, folders: Collection[str] | None) -> bool:
    """Whether a path is one of these folders or in one; None: they are all."""
    if folders is None:
        return True
    path = path.strip("/")
    names = [one.strip("/") for one in folders]
    return any(not one or path == one or path.startswith(f"{one}/") for one in names)


def permissions_of(said: Mapping[str, Any]) -> SessionPermissions:
    lists: dict[str, Any] = {
        name: None if said.get(name) is None else tuple(map(str, said[name]))
        for name in ("allowed_folders", "allowed_mcps")
    }
    return SessionPermissions(**lists, capabilities=tuple(said.get("capabilities", ())))


def _is_within(session: Session, limit: ChatLimit) -> bool:
    said, most = session.permissions, limit.permissions
    modes = {"sandboxed"} if limit.mode == "sandboxed" else {limit.mode, "default", "sandboxed"}
    return (
        said is not None
        and session.mode in modes
        and _is_part(said.allowed_folders, most.allowed_folders)
        and _is_part(said.allowed_mcps, most.allowed_mcps)
        and set(said.capabilities) <= set(most.capabilities)
        and said.sandbox_override is None
    )


def _is_part(names: Collection[str] | None, most: Collection[str] | None) -> bool:
    return most is None or (names is not None and set(names) <= set(most))
