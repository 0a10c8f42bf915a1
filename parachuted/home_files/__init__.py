"""Home files: the YAML files of the home, which people edit too, and the folders of states."""

from parachuted.home_files.document import (
    REMOVED,
    Changes,
    HomeFile,
    PlainValue,
    YamlNode,
    YamlRejectedError,
    edit_document,
    new_document,
    read_document,
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
