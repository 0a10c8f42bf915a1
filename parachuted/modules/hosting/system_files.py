"""What the maintenance agent may read of the installation: settings, logs and the audit, without
secrets. Files that hold only secrets (keys, logins, state) do not exist here.
"""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

from parachuted.access.strangers import Taint
from parachuted.agents.job import Tool
from parachuted.errors import NotFoundError, ParachuteError
from parachuted.texts.redact import redact
from parachuted.tools.definitions import agent_tools, tool, tools_in
from parachuted.vault import VaultPath, VaultRoot

_SERVER = "parachute"
_SETTINGS = ("config.yaml", "modules.yaml", "hooks.yaml")
_AUDIT = ".parachute/audit"
_LARGEST = 128 << 10
_MOST_LOGS, _MOST_AUDITS = 20, 7
_SOUNDS_SECRET = re.compile(
    r"(?im)^(?P<key>\s*(?:-\s*)?[\"']?[\w.-]*(?:key|token|secret|password|passwd|credential|auth|cookie)[\w.-]*[\"']?\s*[:=]\s*)(?P<value>\S.*)$"
)
_PLAIN_VALUES = re.compile(
    r"(?i)(true|false|yes|no|null|~|\d+|remote|always|disabled|auto|claude|offline|\{\}|\[\])\s*$"
)
_ASSIGNED = re.compile(
    r"(?i)(?P<key>\b\w*(?:token|secret|passw(?:or)?d|credential|api_?key)\w*=)(?P<value>\"[^\"]*\"|'[^']*'|[^\s,;&|)}\]]+)"
)
_REMARK = re.compile(r"(?m)(?:^|(?<=\s))#.*$")
_FLOW = re.compile(
    r"(?i)(?P<key>[\"']?[\w.-]*(?:key|token|secret|password|credential)[\w.-]*[\"']?\s*:\s*)(?P<value>\"[^\"]*\"|'[^']*'|[^\s,}\]]+)"
)


class SystemFiles:
    """Methods block on the disk; links are not followed."""

    def __init__(self, home: Path, vault: Path) -> None:
        self._roots = {"home": VaultRoot(home), "vault": VaultRoot(vault)}

    def tools(self, taint: Taint) -> tuple[Tool, ...]:
        return agent_tools(SystemFileTools(self, taint), tools_in(SystemFileTools))

    def paths(self) -> list[str]:
        logs = [f"home/logs/{name}" for name in self._names("home", "logs", (".log", ".jsonl"))]
        audits = self._names("vault", _AUDIT, (".jsonl",))[-_MOST_AUDITS:]
        found = [*(f"home/{name}" for name in _SETTINGS), *logs[-_MOST_LOGS:]]
        return [
            path
            for path in (*found, *(f"vault/{_AUDIT}/{name}" for name in audits))
            if self._is_file(path)
        ]

    def read(self, path: str) -> str:
        """The text, of a long one the end. Raises NotFoundError for all that is not listed."""
        if path not in self.paths():
            raise NotFoundError(
                f"{path[:200]!r} is not among the system files; list_system_files shows them"
            )
        room, _, rest = path.partition("/")
        data = self._roots[room].read(VaultPath(rest)).data
        cut = (
            f"(the last {_LARGEST >> 10} KB of {len(data) >> 10})\n" if len(data) > _LARGEST else ""
        )
        text = data[-_LARGEST:].decode("utf-8", "replace")
        is_settings = rest in _SETTINGS
        return cut + _without_secrets(_REMARK.sub("# [remark]", text) if is_settings else text)

    def _names(self, room: str, folder: str, kinds: tuple[str, ...]) -> list[str]:
        found = (self._roots[room].folder / folder).glob("*")
        return sorted(file.name for file in found if file.suffix in kinds)

    def _is_file(self, path: str) -> bool:
        room, _, rest = path.partition("/")
        root = self._roots[room]
        try:
            with root.straight():
                root.size(VaultPath.parse(rest))
        except ParachuteError:
            return False
        return True


class SystemFileTools:
    """Those of one run, which logs and the audit taint."""

    def __init__(self, files: SystemFiles, taint: Taint) -> None:
        self._files, self._taint = files, taint

    @tool("List what you may read of the installation: settings, logs, the audit.", _SERVER, "read")
    async def list_system_files(self) -> str:
        return "\n".join(await asyncio.to_thread(self._files.paths))

    @tool(
        "Read one of them, by the path that list_system_files gives it. Of a long file you get the "
        "end. Secrets are left out.",
        _SERVER,
        "read",
    )
    async def read_system_file(self, path: str) -> str:
        text = await asyncio.to_thread(self._files.read, path)
        if not path.endswith(_SETTINGS):
            self._taint.read(path)  # words of modules, names that anyone may have given
        return text


def _without_secrets(text: str) -> str:
    return redact(_ASSIGNED.sub(_hidden, _FLOW.sub(_hidden, _SOUNDS_SECRET.sub(_hidden, text))))


def _hidden(found: re.Match[str]) -> str:
    return found[0] if _PLAIN_VALUES.match(found["value"]) else f"{found['key']}[secret]"
