"""Key ring: the current keys of keys.yaml, in memory, and when each was last used."""

from __future__ import annotations

import hmac
import time
from collections.abc import Callable
from datetime import datetime, timedelta

from parachuted.errors import ParachuteError
from parachuted.keys.api_key import ApiKey, hash_of
from parachuted.keys.key_file import KeyFile, KeysRefusedError, LoadedKeys
from parachuted.keys.scopes import Identity

_LONGEST = 200
_UNSETTLED_S = 0.1


class KeyRing:
    """Looks at the file again whenever it may have changed, which costs one stat."""

    def __init__(self, file: KeyFile, clock: Callable[[], datetime]) -> None:
        self.file, self._clock = file, clock
        self._held = LoadedKeys()
        self._kept: list[tuple[bytes, ApiKey]] = []
        self.problem: str | None = None
        self._mark: object = ()
        self._read_at = 0.0
        self._used: dict[str, datetime] = {}
        self.look()

    @property
    def keys(self) -> tuple[ApiKey, ...]:
        """All of them, the expired too, with the times of their last use."""
        return self._held.keys

    def last_used(self, key: ApiKey) -> datetime | None:
        """When it was last shown here, or what the file says."""
        return self._used.get(key.id, key.last_used)

    def look(self) -> None:
        """See to it that what is held is what the file says.

        A file read just when it was written is read again.
        """
        mark = self.file.mark()
        if mark == self._mark and not self.is_unsettled:
            return
        if mark != self._mark:
            self._read_at = time.monotonic()
        self._mark = mark
        try:
            self._held = self.file.load()
            self.problem = "; ".join(self._held.faults) or None
        except KeysRefusedError as error:
            self._held, self.problem = LoadedKeys(), error.message
        self._kept = [(key.key_hash.encode(), key) for key in self._held.keys]

    @property
    def is_unsettled(self) -> bool:
        """Whether the file was read so soon after it was written that it has to be read again."""
        return time.monotonic() - self._read_at <= _UNSETTLED_S

    def ends_within(self, seconds: float) -> bool:
        """Whether a key expires in that time."""
        now = self._clock()
        return any(
            key.expires is not None and now < key.expires <= now + timedelta(seconds=seconds)
            for key in self._held.keys
        )

    def find(self, given: str) -> ApiKey | None:
        """The key whose text that is, expired or not; None: there is none.

        The time it takes does not tell how near it was.
        """
        self.look()
        if len(given) > _LONGEST:
            return None
        wanted = hash_of(given).encode()
        found = None
        for kept, key in self._kept:
            if hmac.compare_digest(wanted, kept):
                found = key
        return found

    def identity(self, name: str) -> Identity | None:
        """Who asks with the key of that id; None where there is none, or it has expired."""
        self.look()
        now = self._clock()
        found = (key for key in self._held.keys if key.id == name and not key.is_over(now))
        return next((key.identity() for key in found), None)

    def use(self, key: ApiKey) -> Identity:
        """Who asks with that key; the time is kept, and written by `flush` alone."""
        self._used[key.id] = self._clock()
        return key.identity()

    def holds(self, identity: Identity) -> bool:
        """Whether a key says the same of who asked with it, in the file as it is now, and has not
        expired.
        """
        self.look()
        now = self._clock()
        return any(
            key.id == identity.id and key.identity() == identity and not key.is_over(now)
            for key in self._held.keys
        )

    def flush(self) -> None:
        """Write the times of use. In a thread. Raises KeysRefusedError and StorageFailedError."""
        used, self._used = self._used, {}
        known = {key.id for key in self._held.keys}
        try:
            if kept := {name: at for name, at in used.items() if name in known}:
                self.file.note_uses(kept)
        except ParachuteError:
            self._used = {**used, **self._used}
            raise
