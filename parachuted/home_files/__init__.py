"""Home files: the YAML files of the home, which people edit too, and the folders of states."""

from parachuted.home_files.document import REMOVED as REMOVED
from parachuted.home_files.document import Changes as Changes
from parachuted.home_files.document import HomeFile as HomeFile
from parachuted.home_files.document import PlainValue as PlainValue
from parachuted.home_files.document import YamlNode as YamlNode
from parachuted.home_files.document import YamlRejectedError as YamlRejectedError
from parachuted.home_files.document import edit_document as edit_document
from parachuted.home_files.document import new_document as new_document
from parachuted.home_files.document import read_document as read_document
