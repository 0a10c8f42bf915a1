"""Keys: who asks, and what they may do. Trust: nothing in the vault has a say in it."""

from parachuted.keys.api_key import ApiKey, key_document, parse_scope, scope_document, time_text
from parachuted.keys.key_file import KeyFile, KeysRefusedError, NameTakenError
from parachuted.keys.key_ring import KeyRing
from parachuted.keys.minting import USUAL, MintedKey, mint, parse_end, parse_words
from parachuted.keys.narrowing import is_narrower
from parachuted.keys.path_globs import PathGlob
from parachuted.keys.scopes import (
    CAPABILITIES,
    EVERYTHING,
    EVERYWHERE,
    KNOWN_MODULES,
    NOBODY,
    AccessGrant,
    Capability,
    Identity,
    Scope,
    granted,
)

__all__ = [
    "CAPABILITIES",
    "EVERYTHING",
    "EVERYWHERE",
    "KNOWN_MODULES",
    "NOBODY",
    "USUAL",
    "AccessGrant",
    "ApiKey",
    "Capability",
    "Identity",
    "KeyFile",
    "KeyRing",
    "KeysRefusedError",
    "MintedKey",
    "NameTakenError",
    "PathGlob",
    "Scope",
    "granted",
    "is_narrower",
    "key_document",
    "mint",
    "parse_end",
    "parse_scope",
    "parse_words",
    "scope_document",
    "time_text",
]
