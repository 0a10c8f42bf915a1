"""Vault: the folder of notes, and the only code that writes in it."""

from parachuted.vault.author import Author, Requester, SourceType
from parachuted.vault.bounded_yaml import NoteProblem
from parachuted.vault.edit_request import EditRequest, WriteIntent, WriteResult
from parachuted.vault.edits import (
    AppendToSection,
    DeleteKey,
    Edit,
    ReplaceAll,
    ReplaceSection,
    ReplaceSpans,
    SectionEdit,
    SetFrontmatterKey,
    SeveralEdits,
    TextSpan,
    apply_edit,
)
from parachuted.vault.frontmatter import declared_origin, declared_watch
from parachuted.vault.ignore import IGNORE_FILE, IgnoreRules
from parachuted.vault.index import CONTEXT_NAMES, IndexEntry, IndexSnapshot, VaultIndex
from parachuted.vault.link_moves import FileNames, LinkRewrites
from parachuted.vault.links import (
    Link,
    links_in,
    name_key,
    resolve,
    resolve_target,
)
from parachuted.vault.merge import count_changed, diff_of, merge_three
from parachuted.vault.note import (
    ParsedNote,
    Section,
    changed_units,
    is_utf8,
    meaning,
    parse_note,
)
from parachuted.vault.objects import IncomingFile, ObjectStore
from parachuted.vault.paths import (
    PathText,
    VaultPath,
    begins_with_dot,
    fold_name,
    printable,
    refusal,
)
from parachuted.vault.placing import place_incoming
from parachuted.vault.recovery import Recovery
from parachuted.vault.rescue import rescue
from parachuted.vault.root import FileContent, VaultRoot, digest_of, digest_of_open, named_errors
from parachuted.vault.scanner import NOTE_SUFFIXES, PathDifference, ScanFindings, Scanner
from parachuted.vault.store import Store
from parachuted.vault.trail import TextVersion, place_of, trail_of
from parachuted.vault.write_journal import (
    BRINGS_BACK,
    PERSONS,
    RESTORE,
    UNDO,
    RunSpending,
    WriteJournal,
    new_id,
)
from parachuted.vault.write_records import Write

__all__ = [
    "BRINGS_BACK",
    "CONTEXT_NAMES",
    "IGNORE_FILE",
    "NOTE_SUFFIXES",
    "PERSONS",
    "RESTORE",
    "UNDO",
    "AppendToSection",
    "Author",
    "DeleteKey",
    "Edit",
    "EditRequest",
    "FileContent",
    "FileNames",
    "IgnoreRules",
    "IncomingFile",
    "IndexEntry",
    "IndexSnapshot",
    "Link",
    "LinkRewrites",
    "NoteProblem",
    "ObjectStore",
    "ParsedNote",
    "PathDifference",
    "PathText",
    "Recovery",
    "ReplaceAll",
    "ReplaceSection",
    "ReplaceSpans",
    "Requester",
    "RunSpending",
    "ScanFindings",
    "Scanner",
    "Section",
    "SectionEdit",
    "SetFrontmatterKey",
    "SeveralEdits",
    "SourceType",
    "Store",
    "TextSpan",
    "TextVersion",
    "VaultIndex",
    "VaultPath",
    "VaultRoot",
    "Write",
    "WriteIntent",
    "WriteJournal",
    "WriteResult",
    "apply_edit",
    "begins_with_dot",
    "changed_units",
    "count_changed",
    "declared_origin",
    "declared_watch",
    "diff_of",
    "digest_of",
    "digest_of_open",
    "fold_name",
    "is_utf8",
    "links_in",
    "meaning",
    "merge_three",
    "name_key",
    "named_errors",
    "new_id",
    "parse_note",
    "place_incoming",
    "place_of",
    "printable",
    "refusal",
    "rescue",
    "resolve",
    "resolve_target",
    "trail_of",
]
