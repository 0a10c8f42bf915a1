"""What the maintenance agent may read of the installation: settings, logs, audit, modules' code;
never a secret.

Secrets are redacted from every text; values of keys that sound secret and comments in settings are
not shown; and files that hold only secrets (keys, logins, state) do not exist here.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator, Mapping
from pathlib import Path, PurePosixPath

from parachuted.access.origin import Taint
from parachuted.agents import Tool, ToolResult
from parachuted.errors import NotFoundError, ParachuteError
from parachuted.redact import redact
from parachuted.vault import VaultPath, VaultRoot, begins_with_dot, printable

LIST = "List what you may read of the installation: settings, logs, the audit, the code of modules."
READ = (
    "Read one of them, by the path that list_system_files gives it. Of a long file you get the "
    "end. Secrets are left out."
)
_SETTINGS = ("config.yaml", "modules.yaml", "hooks.yaml")
_STRANGERS = (
    "home/logs/",
    "vault/Modules/",
    "vault/.parachute/audit/",
)  # modules' words, and names of files that anyone may have given
_NAMED_BY_STRANGERS = "vault/Modules/"
_LEFT_OUT = (
    f"files of modules are left out; {_NAMED_BY_STRANGERS} as the part lists them, after "
    "which you write in your own lane alone"
)
_LARGEST = 128 << 10
_MOST = 500
_MOST_AUDITS = 7
_CODE = frozenset({".py", ".yaml", ".md", ".toml"})
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
    """`home` is the daemon's own folder.

    Methods block on the disk; files are listed at each call, and links are not followed.
    """

    def __init__(self, home: Path, vault: Path) -> None:
        self._home, self._vault = home, VaultRoot(vault)

    def tools(self, taint: Taint) -> tuple[Tool, ...]:
        """The two tools for an agent.

        Modules' code, their logs, and file names taint the run.
        """

        async def list_them(arguments: Mapping[str, object]) -> ToolResult:
            part = str(arguments.get("part", ""))
            found = [path for path in await asyncio.to_thread(self.list) if part in path]
            strangers = [path for path in found if path.startswith(_NAMED_BY_STRANGERS)]
            if strangers and part.startswith(_NAMED_BY_STRANGERS):
                taint.read(_NAMED_BY_STRANGERS, "imported")
            elif strangers and not taint:
                found = [path for path in found if not path.startswith(_NAMED_BY_STRANGERS)]
                found.append(f"({len(strangers)} {_LEFT_OUT})")
            return ToolResult(text="\n".join(found) or "There is none.")

        async def read(arguments: Mapping[str, object]) -> ToolResult:
            result = await self._read_tool(arguments)
            path = str(arguments["path"])
            if not result.is_error and path.startswith(_STRANGERS):
                taint.read(path, "imported")
            return result

        path = {"type": "string", "description": "The path, as list_system_files gives it."}
        pattern = {"type": "string", "description": "A part of the path, to list less."}
        empty: list[str] = []
        return (
            Tool(
                name="list_system_files",
                description=LIST,
                call=list_them,
                schema={
                    "type": "object",
                    "properties": {"part": pattern},
                    "required": empty,
                    "additionalProperties": False,
                },
            ),
            Tool(
                name="read_system_file",
                description=READ,
                call=read,
                schema={
                    "type": "object",
                    "properties": {"path": path},
                    "required": ["path"],
                    "additionalProperties": False,
                },
            ),
        )

    def list(self) -> list[str]:
        return [*self._of_home(), *self._of_vault()]

    def read(self, path: str) -> str:
        """The text of one, without secrets; of a long one the end.

        Raises NotFoundError for all that is not listed.
        """
        if path not in self.list():
            raise NotFoundError(
                f"{path[:200]!r} is not among the system files; list_system_files shows them"
            )
        room, _, rest = path.partition("/")
        root = VaultRoot(self._home) if room == "home" else self._vault
        data = root.read(VaultPath(rest)).data
        cut = (
            f"(the last {_LARGEST >> 10} KB of {len(data) >> 10})\n" if len(data) > _LARGEST else ""
        )
        text = data[-_LARGEST:].decode("utf-8", "replace")
        return cut + _without_secrets(
            _REMARK.sub("# [remark]", text) if room == "home" and rest in _SETTINGS else text
        )

    def _of_home(self) -> Iterator[str]:
        root = VaultRoot(self._home)
        for name in _SETTINGS:
            if _is_file(root, name):
                yield f"home/{name}"
        logs = sorted(
            file.name
            for file in (self._home / "logs").glob("*")
            if file.suffix in {".log", ".jsonl", ".txt"}
        )
        yield from (f"home/logs/{name}" for name in logs[-20:] if _is_file(root, f"logs/{name}"))

    def _of_vault(self) -> Iterator[str]:
        audits = sorted(
            file.name for file in (self._vault.folder / ".parachute/audit").glob("*.jsonl")
        )
        paths = [f".parachute/audit/{name}" for name in audits[-_MOST_AUDITS:]]
        code = sorted((self._vault.folder / "Modules").glob("*/**/*"))
        found = [
            file.relative_to(self._vault.folder).as_posix() for file in code if file.suffix in _CODE
        ]
        paths += [path for path in map(printable, found[:_MOST]) if _is_shown(path)]
        yield from (f"vault/{path}" for path in paths if _is_file(self._vault, path))

    async def _read_tool(self, arguments: Mapping[str, object]) -> ToolResult:
        try:
            return ToolResult(text=await asyncio.to_thread(self.read, str(arguments["path"])))
        except ParachuteError as error:
            return ToolResult(text=error.message, is_error=True)


def _is_shown(path: str) -> bool:
    """Nothing that is hidden, and nothing that is named as what holds a secret."""
    parts = PurePosixPath(path).parts
    return (
        not any(begins_with_dot(part) for part in parts)
        and "secret" not in path.casefold()
        and "credential" not in path.casefold()
    )


def _is_file(root: VaultRoot, path: str) -> bool:
    try:
        with root.straight():
            root.size(VaultPath.parse(path))
    except ParachuteError:
        return False
    return True


def _without_secrets(text: str) -> str:
    return redact(_ASSIGNED.sub(_hidden, _FLOW.sub(_hidden, _SOUNDS_SECRET.sub(_hidden, text))))


def _hidden(found: re.Match[str]) -> str:
    return found[0] if _PLAIN_VALUES.match(found["value"]) else f"{found['key']}[secret]"
