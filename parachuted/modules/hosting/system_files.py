"""What the maintenance agent may read of the installation: settings, logs and the audit, without
secrets. Files that hold only secrets (keys, logins, state) do not exist here.
"""

from __future__ import annotations

import asyncio
import json
import re
from pathlib import Path

from parachuted.access.strangers import Taint
from parachuted.agents.job import Tool
from parachuted.errors import NotFoundError, ParachuteError
from parachuted.home_files import YamlRejectedError, read_document
from parachuted.texts.redact import SHOWN, redact
from parachuted.tools.definitions import agent_tools, tool, tools_in
from parachuted.vault import VaultPath, VaultRoot

_SERVER = "parachute"
_SETTINGS = ("config.yaml", "modules.yaml", "hooks.yaml")
_AUDIT = ".parachute/audit"
_LARGEST = 128 << 10
_MOST_LOGS, _MOST_AUDITS = 20, 7
_NAME = r"(?:key|token|secret|passw|credential|cookie|auth(?!_mode))"
_IS_SECRET = re.compile(f"(?i){_NAME}")
_IS_PLAIN = re.compile(r"(?i)true|false|yes|no|null|~|\d*")
_ASSIGNED = re.compile(
    rf"(?i)(\b[\w.-]*{_NAME}[\w.-]*[\"']?\s*[:=]\s*)"
    rf"(\"[^\"]*\"|'[^']*'|(?:(?:bearer|basic|token)\s+)?[^\s,;&|)}}\]]+)"
)


class SystemFiles:
    """Those of one run, which logs and the audit taint; links are not followed."""

    def __init__(self, home: Path, vault: Path, taint: Taint) -> None:
        self._roots, self._taint = {"home": VaultRoot(home), "vault": VaultRoot(vault)}, taint

    def tools(self) -> tuple[Tool, ...]:
        return agent_tools(self, tools_in(SystemFiles))

    @tool("List what you may read of the installation: settings, logs, the audit.", _SERVER, "read")
    async def list_system_files(self) -> str:
        return "\n".join(await asyncio.to_thread(self.paths))

    @tool(
        "Read one of them, by the path that list_system_files gives it. Of a long log you get the "
        "end. Secrets and remarks are left out.",
        _SERVER,
        "read",
    )
    async def read_system_file(self, path: str) -> str:
        text = await asyncio.to_thread(self.read, path)
        if not path.endswith(_SETTINGS):
            self._taint.read(path)  # words of modules, names that anyone may have given
        return text

    def paths(self) -> list[str]:
        """Blocks on the disk."""
        logs = self._names("home", "logs", (".log", ".jsonl"))[-_MOST_LOGS:]
        audits = self._names("vault", _AUDIT, (".jsonl",))[-_MOST_AUDITS:]
        settings = [f"home/{name}" for name in _SETTINGS]
        return list(filter(self._is_file, (*settings, *logs, *audits)))

    def read(self, path: str) -> str:
        """The text, of a long log the end. Raises NotFoundError for all that is not listed."""
        if path not in self.paths():
            raise NotFoundError(
                f"{path[:200]!r} is not among the system files; list_system_files shows them"
            )
        room, _, rest = path.partition("/")
        data = self._roots[room].read(VaultPath(rest)).data
        if rest in _SETTINGS:
            return redact(_settings(data.decode("utf-8", "replace")))
        cut = (
            f"(the last {_LARGEST >> 10} KB of {len(data) >> 10})\n" if len(data) > _LARGEST else ""
        )
        return cut + _without_secrets(data[-_LARGEST:].decode("utf-8", "replace"))

    def _names(self, room: str, folder: str, kinds: tuple[str, ...]) -> list[str]:
        found = (self._roots[room].folder / folder).glob("*")
        return sorted(f"{room}/{folder}/{file.name}" for file in found if file.suffix in kinds)

    def _is_file(self, path: str) -> bool:
        room, _, rest = path.partition("/")
        try:
            with self._roots[room].straight():
                self._roots[room].size(VaultPath.parse(rest))
        except ParachuteError:
            return False
        return True


def _settings(text: str) -> str:
    try:
        node = read_document(text)
    except YamlRejectedError as error:
        return f"it cannot be read: {error}"
    return json.dumps(_masked(node.plain() if node else None), indent=1, ensure_ascii=False)


def _masked(value: object, *, is_secret: bool = False) -> object:
    if isinstance(value, dict):
        return {
            name: _masked(inner, is_secret=is_secret or bool(_IS_SECRET.search(str(name))))
            for name, inner in value.items()
        }
    if isinstance(value, list):
        return [_masked(inner, is_secret=is_secret) for inner in value]
    if is_secret and not _IS_PLAIN.fullmatch(str(value)):
        return SHOWN
    return _without_secrets(value) if isinstance(value, str) else value


def _without_secrets(text: str) -> str:
    return redact(_ASSIGNED.sub(rf"\1{SHOWN}", text))
