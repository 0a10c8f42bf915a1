"""Proves that a suggestion's file is what was proposed, by a key that agents, modules and devices
lack.

HMAC-SHA256 (RFC 2104) over the suggestion and all that a person is shown of it.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import secrets
from pathlib import Path

from parachuted.errors import StorageFailedError
from parachuted.private import UntrustedFileError, locked, read_private, replace_private
from parachuted.suggestions.suggestion import Suggestion, to_document

KEY_FILE = "suggestions.key"
_LOCK = "suggestions.lock"
_BYTES = 32
_LARGEST_KEY = 1024


class Sealer:
    """Makes seals and checks them.

    The key is made when it is first needed. Blocks on the disk then.
    """

    def __init__(self, home: Path) -> None:
        self._home = home
        self._key: bytes | None = None

    def seal(self, suggestion: Suggestion, shown: str) -> str:
        """The seal, as 64 hexadecimal digits.

        Raises StorageFailedError when the key cannot be read or kept.
        """
        message = json.dumps(
            [to_document(suggestion), shown], sort_keys=True, separators=(",", ":")
        ).encode()
        return hmac.new(self._known_key(), message, hashlib.sha256).hexdigest()

    def holds(self, seal: str, suggestion: Suggestion, shown: str) -> bool:
        """Whether that is the seal of this."""
        return hmac.compare_digest(
            seal.encode("utf-8", "replace"), self.seal(suggestion, shown).encode()
        )

    def _known_key(self) -> bytes:
        if self._key is None:
            path = self._home / KEY_FILE
            try:
                with locked(self._home, _LOCK):
                    text = read_private(path, _LARGEST_KEY, is_secret=True)
                    if text is None:
                        text = secrets.token_hex(_BYTES)
                        replace_private(path, text.encode())
                key = bytes.fromhex(text.strip())
            except UntrustedFileError as error:
                raise StorageFailedError(f"suggestions cannot be sealed: {error}") from error
            except ValueError as error:
                raise StorageFailedError(
                    f"{KEY_FILE} holds no key; remove it, and a new one is made"
                ) from error
            except OSError as error:
                raise StorageFailedError(
                    f"{KEY_FILE} cannot be read or kept: {error.strerror}", errno=error.errno
                ) from error
            if len(key) < _BYTES:
                raise StorageFailedError(
                    f"{KEY_FILE} holds no key; remove it, and a new one is made"
                )
            self._key = key
        return self._key
