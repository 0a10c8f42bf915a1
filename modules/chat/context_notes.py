"""What a conversation's curator adds to the context files of the conversation's folders."""

from __future__ import annotations

import datetime as dt
from typing import Final

from parachuted.errors import EditRefusedError
from parachuted.modules import AppendSection, Module, Note, NoteChange

from .no_model import shortened
from .prompt_parts import CONTEXT_NAMES, in_folder
from .session import Session

_SECTIONS: Final = {"facts": "Facts", "current focus": "Current Focus", "history": "History"}
_HISTORY: Final = "History"
_LONGEST: Final = 2_000


class ContextNotes:
    """Adds lines to context files, each as a run that `parachute undo` takes back."""

    def __init__(self, module: Module) -> None:
        self._module = module

    async def add(
        self, session: Session, file_path: str, section: str, content: str
    ) -> dict[str, str]:
        """Add to a section of a context file of the session's folders, or suggest that where a
        stranger's text led to it. EditRefusedError: another file or section.
        """
        path = await self._file(session, file_path)
        heading = _SECTIONS.get(section.strip("# ").casefold())
        if heading is None:
            raise EditRefusedError(f"section should be one of {', '.join(_SECTIONS.values())}")
        text = " ".join(content.replace("<!--", " ").replace("-->", " ").split()).lstrip("-*#> ")
        if not text:
            raise EditRefusedError("content should have words")
        text = shortened(text, _LONGEST)
        note = await self._module.vault.note(path)
        if _says(note, heading, text):
            return {"status": "unchanged", "path": path}
        lines, reason = f"- {text}", f"From the conversation “{session.title or session.id}”"
        if heading == _HISTORY:
            now = dt.datetime.now(dt.UTC)
            lines = f"\n<!-- Added by curator on {now:%Y-%m-%d %H:%M} UTC -->\n{lines}"
        if self._module.current_call.is_strangers:
            payload = {"section": heading, "content": lines, "append": True}
            made = await self._module.suggest("update", path, payload, reasoning=reason)
            return {"status": "suggested", "path": path, "suggestion": made}
        change = NoteChange(path, [AppendSection(heading, lines)], base=note.digest)
        run = await self._module.vault.edit_all([change], reason=reason)
        return {"status": "ok", "path": path, "run": run}

    async def files_of(self, session: Session) -> list[str]:
        found: list[str] = []
        for folder in session.context_folders:
            place = folder.strip("/")
            names = [in_folder(place, name) for name in CONTEXT_NAMES]
            if place.endswith(".md"):
                names = [place]
            there = [name for name in names if await self._module.vault.exists(name)]
            found += there[:1]
        return list(dict.fromkeys(found))

    async def _file(self, session: Session, file_path: str) -> str:
        asked, files = file_path.strip().strip("/"), await self.files_of(session)
        meant = [one for one in files if asked in {one, one.rpartition("/")[0]}]
        if len(meant) != 1:
            listed = ", ".join(files) or "there are none"
            raise EditRefusedError(
                f"{asked[:200]!r} is not a context file of this conversation's folders: {listed}"
            )
        return meant[0]


def _says(note: Note, heading: str, text: str) -> bool:
    section = note.section(heading)
    if section is None:
        return False
    plain = " ".join(text.casefold().split()).rstrip(".")
    return plain in " ".join(section.content(note).casefold().split())
