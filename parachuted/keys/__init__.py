"""Keys: who asks, and what they may do. Trust: nothing in the vault has a say in it."""

from parachuted.keys.file import KeyFile, KeysRefusedError, NameTakenError
from parachuted.keys.globs import Glob
from parachuted.keys.key import Key, key_document, parse_scope, scope_document, time_text
from parachuted.keys.minting import USUAL, Minted, mint, parse_end, parse_words
from parachuted.keys.narrowing import is_narrower
from parachuted.keys.ring import Ring
from parachuted.keys.scopes import CAPABILITIES, EVERYTHING, EVERYWHERE, KNOWN_MODULES, NOBODY, Capability, Grant, Identity, Scope, granted

__all__ = [
    "CAPABILITIES",
    "EVERYTHING",
    "EVERYWHERE",
    "KNOWN_MODULES",
    "NOBODY",
    "USUAL",
    "Capability",
    "Glob",
    "Grant",
    "Identity",
    "Key",
    "KeyFile",
    "KeysRefusedError",
    "Minted",
    "NameTakenError",
    "Ring",
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
