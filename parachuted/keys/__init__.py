"""Keys: who a caller is and what they may do; nothing in the vault can change it."""

from parachuted.keys.api_key import (
    USUAL,
    ApiKey,
    MintedKey,
    key_document,
    mint,
    parse_end,
    parse_scope,
    parse_words,
    scope_document,
    time_text,
)
from parachuted.keys.key_ring import KeyFile, KeyRing, KeysRefusedError, NameTakenError
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
