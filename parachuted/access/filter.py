"""Access filter: which files of the vault exist for a caller.

Files and folders whose names begin with a dot do not exist, nor what is beyond the caller's paths:
the answer is the same. Only of what `.parachuteignore` hides within their paths it says so.
"""

from __future__ import annotations

from dataclasses import dataclass

from parachuted.access.paths import is_hidden
from parachuted.errors import NotFoundError, PathRefusedError
from parachuted.keys import AccessGrant
from parachuted.vault import IGNORE_FILE, VaultPath, VaultRoot, printable


@dataclass(frozen=True, slots=True)
class AccessFilter:
    """`for_agents`: what is found is for agents, even where the grant is for everything."""

    root: VaultRoot
    grant: AccessGrant
    for_agents: bool = False

    def sees(self, path: str) -> bool:
        return not is_hidden(path) and self.grant.sees(path) and not self._is_ignored(path)

    def enters(self, folder: str) -> bool:
        return not is_hidden(folder) and self.grant.enters(folder)

    def find(self, path: VaultPath) -> VaultPath:
        """The file, links followed. Raises NotFoundError, in the same words whatever the reason."""
        if self._is_ignored(path) and not is_hidden(path) and self.grant.sees(path):
            raise ignored(path)
        if self.sees(path):
            try:
                real = self.root.resolve(path)
            except PathRefusedError as error:
                raise unknown(path) from error
            if real == path or self.sees(real):
                return real
        raise unknown(path)

    def _is_ignored(self, path: str) -> bool:
        is_whole = self.grant.alternatives is None and not self.for_agents
        return not is_whole and self.root.ignore.hides(path)


def ignored(path: str) -> NotFoundError:
    return NotFoundError(
        f"{printable(path)} is ignored by {IGNORE_FILE}, so agents and keys with paths neither "
        "read nor write it"
    )


def unknown(path: str) -> NotFoundError:
    return NotFoundError(f"{printable(path)} is not in the vault")
