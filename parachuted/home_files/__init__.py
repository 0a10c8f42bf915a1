"""Home files: the YAML files of the home, which people edit too, and the folders of states."""

from parachuted.home_files.document import PlainValue, YamlNode, YamlRejectedError, read_document
from parachuted.home_files.editing import (
    REMOVED,
    Changes,
    HomeFile,
    edit_document,
    new_document,
)

__all__ = [
    "REMOVED",
    "Changes",
    "HomeFile",
    "PlainValue",
    "YamlNode",
    "YamlRejectedError",
    "edit_document",
    "new_document",
    "read_document",
]
