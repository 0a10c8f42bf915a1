"""Devices: what keeps a copy of the vault's notes and brings changes back, as an app does, in any
order.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random

from tests.api.calls import digest, post
from tests.stories.daemon_rig import DaemonRig


@dataclass
class Device:
    """A phone: the texts it has, the base of each, all lines that were ever typed on it, and all
    that it ever sent.
    """

    name: str
    daemon_rig: DaemonRig
    chance: Random
    texts: dict[str, str] = field(default_factory=dict)
    bases: dict[str, str] = field(default_factory=dict)
    typed_lines: set[str] = field(default_factory=set)
    sent: set[str] = field(default_factory=set)

    def type(self, path: str, *, only_add: bool = False) -> None:
        """Put a line somewhere into a note, or a new one in place of an old one."""
        lines = self.texts.get(path, "").splitlines(keepends=True)
        line = f"{self.name} {len(self.typed_lines)} in {path}\n"
        self.typed_lines.add(line)
        place = self.chance.randint(0, len(lines))
        stop = place + (not only_add and self.chance.random() < 0.2)
        lines[place:stop] = [line]
        self.texts[path] = "".join(lines)

    async def pull(self, path: str) -> None:
        """Take what is there, unless something was typed here since the last time."""
        if digest(self.texts.get(path, "")) != self.bases.get(path, digest("")):
            return
        answer = await post(self.daemon_rig, "/api/sync/pull", {"root": "Daily", "paths": [path]})
        for file in answer["files"]:
            self.texts[path], self.bases[path] = file["content"], file["hash"]

    async def push(self, path: str) -> dict | None:
        """Bring it back; returns the conflict, which is settled here by keeping both."""
        if path not in self.texts:
            return None
        self.sent |= set(self.texts[path].splitlines(keepends=True))
        sent = {
            "path": path,
            "content": self.texts[path],
            "base_hash": self.bases.get(path, digest("")),
        }
        answer = await post(self.daemon_rig, "/api/sync/push", {"root": "Daily", "files": [sent]})
        (result,) = answer["results"]
        if answer["conflicts"]:
            (conflict,) = answer["conflicts"]
            ours = [
                line
                for line in self.texts[path].splitlines(keepends=True)
                if line not in conflict["theirs"].splitlines(keepends=True)
            ]
            self.texts[path], self.bases[path] = (
                conflict["theirs"] + "".join(ours),
                conflict["theirs_hash"],
            )
            return conflict
        assert result["status"] != "refused", result
        if result["hash"] == digest(self.texts[path]):
            self.bases[path] = result["hash"]
        else:  # merged: what stands there now is another text than ours, and has all of ours
            answer = await post(
                self.daemon_rig, "/api/sync/pull", {"root": "Daily", "paths": [path]}
            )
            self.texts[path], self.bases[path] = (
                answer["files"][0]["content"],
                answer["files"][0]["hash"],
            )
        return None
