"""Home files: keys.yaml, hooks.yaml, modules.yaml and config.yaml, which people edit too, and the
folders of vaults' states. Trust.
"""

from parachuted.home_files.document import PlainValue, YamlNode, YamlRejectedError, read_document
from parachuted.home_files.editing import (
    REMOVED,
    CannotEditError,
    Changes,
    HomeFile,
    edit_document,
    new_document,
)

__all__ = [
    "REMOVED",
    "CannotEditError",
    "Changes",
    "HomeFile",
    "PlainValue",
    "YamlNode",
    "YamlRejectedError",
    "edit_document",
    "new_document",
    "read_document",
]
