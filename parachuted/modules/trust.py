"""Trust: which modules there are, which were approved, and which may run. The vault proposes; modules.yaml in the home decides."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from parachuted.modules.approved import Approved, Entry, TrustLevel
from parachuted.modules.consent import Consent


class Trust:
    """The modules of one home and one vault. Calls read or write the disk: from a thread, where the loop must not wait.

    Whatever changes modules.yaml raises TrustRefusedError, in words, having approved nothing.
    """

    def __init__(self, home: Path, vault: Path, *, env: Mapping[str, str], release_keys: Sequence[str] | None = None) -> None: ...

    @property
    def problem(self) -> str | None:
        """Why nothing may run at all: modules.yaml cannot be trusted."""
        raise NotImplementedError

    def entries(self) -> list[Entry]:
        """Every module of modules.yaml and every folder in the vault's `Modules/`, by name."""
        raise NotImplementedError

    def entry(self, name: str) -> Entry:
        """That one; raises NotFoundError."""
        raise NotImplementedError

    def consent(self, name: str) -> Consent:
        """What approving the folder as it is now would allow; its `digest` is what `approve` wants."""
        raise NotImplementedError

    def approve(self, name: str, expected_digest: str, *, trust: TrustLevel | None = None) -> Entry:
        """Approve exactly the bytes that were shown. First time: enabled too."""
        raise NotImplementedError

    def enable(self, name: str) -> Entry:
        raise NotImplementedError

    def disable(self, name: str) -> Entry:
        raise NotImplementedError

    def remove(self, name: str, *, keep_folder: bool = False) -> None:
        raise NotImplementedError

    def set_trust(self, name: str, trust: TrustLevel) -> Entry:
        raise NotImplementedError

    def ready(self) -> list[Approved]:
        """What may run now, verified just now, by name. Why another may not is in its `Entry.problem`."""
        raise NotImplementedError

    def install(self, source: str, *, dev: bool = False, path: str | None = None) -> tuple[Entry, Consent]:
        """Put the source's module into the vault's `Modules/` (with `dev`: link to it). Approves nothing."""
        raise NotImplementedError

    def diff(self, name: str) -> str:
        """The approved copy against the folder, as unified text with control characters visible; empty: the same."""
        raise NotImplementedError

    def look(self) -> frozenset[str]:
        """The names of modules whose folder or entry changed since the last look; the first look sees nothing. A stat a file."""
        raise NotImplementedError
