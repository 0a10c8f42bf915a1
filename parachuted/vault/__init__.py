"""Vault: the folder of notes, and the only code that writes in it."""

from parachuted.vault.author import Author, Caller, SourceType
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
from parachuted.vault.frontmatter import NoteProblem, declared_origin, declared_watch
from parachuted.vault.history import (
    BRINGS_BACK,
    PERSONS,
    RESTORE,
    UNDO,
    History,
    new_id,
)
from parachuted.vault.ignore import IGNORE_FILE, IgnoreRules
from parachuted.vault.index import CONTEXT_NAMES, IndexEntry, IndexSnapshot, VaultIndex
from parachuted.vault.link_moves import FileNames, LinkRewrites
from parachuted.vault.links import (
    Link,
    LinkNames,
    leads_straight,
    links_in,
    name_key,
    resolve,
    resolve_target,
    rewrite_links,
    spelled,
)
from parachuted.vault.merge import MergeResult, count_changed, diff_of, merge_three
from parachuted.vault.note import (
    Meaning,
    ParsedNote,
    Section,
    Span,
    changed_units,
    is_utf8,
    meaning,
    parse_note,
)
from parachuted.vault.objects import IncomingFile, ObjectStore
from parachuted.vault.paths import VaultPath, begins_with_dot, fold_name, printable, refusal
from parachuted.vault.placing import place_incoming
from parachuted.vault.recovery import Recovery
from parachuted.vault.rescue import rescue
from parachuted.vault.root import FileContent, VaultRoot, digest_of, digest_of_open, named_errors
from parachuted.vault.scanner import NOTE_SUFFIXES, PathDifference, ScanFindings, Scanner
from parachuted.vault.store import Store
from parachuted.vault.trail import KnownBases, TextVersion, place_of, trail_of, version_named
from parachuted.vault.write_records import ObservedWrite, Write

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
    "Caller",
    "DeleteKey",
    "Edit",
    "EditRequest",
    "FileContent",
    "FileNames",
    "History",
    "IgnoreRules",
    "IncomingFile",
    "IndexEntry",
    "IndexSnapshot",
    "KnownBases",
    "Link",
    "LinkNames",
    "LinkRewrites",
    "Meaning",
    "MergeResult",
    "NoteProblem",
    "ObjectStore",
    "ObservedWrite",
    "ParsedNote",
    "PathDifference",
    "Recovery",
    "ReplaceAll",
    "ReplaceSection",
    "ReplaceSpans",
    "ScanFindings",
    "Scanner",
    "Section",
    "SectionEdit",
    "SetFrontmatterKey",
    "SeveralEdits",
    "SourceType",
    "Span",
    "Store",
    "TextSpan",
    "TextVersion",
    "VaultIndex",
    "VaultPath",
    "VaultRoot",
    "Write",
    "WriteIntent",
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
    "leads_straight",
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
    "rewrite_links",
    "spelled",
    "trail_of",
    "version_named",
]
