"""Keys: who a caller is and what they may do; nothing in the vault can change it."""

from parachuted.keys.api_key import USUAL as USUAL
from parachuted.keys.api_key import ApiKey as ApiKey
from parachuted.keys.api_key import MintedKey as MintedKey
from parachuted.keys.api_key import key_document as key_document
from parachuted.keys.api_key import mint as mint
from parachuted.keys.api_key import parse_end as parse_end
from parachuted.keys.api_key import parse_words as parse_words
from parachuted.keys.key_ring import KeyFile as KeyFile
from parachuted.keys.key_ring import KeyRing as KeyRing
from parachuted.keys.path_globs import PathGlob as PathGlob
from parachuted.keys.scopes import BEYOND_PATHS as BEYOND_PATHS
from parachuted.keys.scopes import CAPABILITIES as CAPABILITIES
from parachuted.keys.scopes import EVERYTHING as EVERYTHING
from parachuted.keys.scopes import EVERYWHERE as EVERYWHERE
from parachuted.keys.scopes import KNOWN_MODULES as KNOWN_MODULES
from parachuted.keys.scopes import NOBODY as NOBODY
from parachuted.keys.scopes import NOWHERE as NOWHERE
from parachuted.keys.scopes import AccessGrant as AccessGrant
from parachuted.keys.scopes import Capability as Capability
from parachuted.keys.scopes import Identity as Identity
from parachuted.keys.scopes import KeyScope as KeyScope
from parachuted.keys.scopes import granted as granted
from parachuted.keys.scopes import is_narrower as is_narrower
