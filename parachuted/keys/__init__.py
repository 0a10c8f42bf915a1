"""Keys: who a caller is and what they may do; nothing in the vault can change it."""

from parachuted.keys.api_key import ApiKey, key_document, parse_scope, scope_document, time_text
from parachuted.keys.key_file import KeyFile, KeysRefusedError, NameTakenError
from parachuted.keys.key_ring import KeyRing
from parachuted.keys.minting import USUAL, MintedKey, mint, parse_end, parse_words
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
    is_narrower,
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
