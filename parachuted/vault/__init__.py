"""Vault: the folder of notes. What is on disk, and the one writer."""

from parachuted.vault.bases import Bases
from parachuted.vault.batch import Edits
from parachuted.vault.declared_origin import declared_origin
from parachuted.vault.diff import count_changed, diff_of
from parachuted.vault.edits import AppendToSection, DeleteKey, Edit, ReplaceAll, ReplaceSection, SetKey, apply_edit
from parachuted.vault.frontmatter import Problem, declared_watch
from parachuted.vault.history import BRINGS_BACK, PERSONS, RESTORE, UNDO, Author, History, Sighting, Write
from parachuted.vault.identity import new_id
from parachuted.vault.ignore import IGNORE_FILE, Ignore
from parachuted.vault.incoming import Incoming
from parachuted.vault.index import CONTEXT_NAMES, Entry, Index, Snapshot
from parachuted.vault.intent import Intent
from parachuted.vault.links import Link, LinkNames, leads_straight, links_in, name_key, resolve, resolve_target, rewrite_links, spelled
from parachuted.vault.meaning import Meaning, changed_units, meaning
from parachuted.vault.merge import Merged, merge_three
from parachuted.vault.names import begins_with_dot, fold_name
from parachuted.vault.note import Note, Section, parse_note
from parachuted.vault.objects import Objects
from parachuted.vault.paths import VaultPath, printable, refusal
from parachuted.vault.recovery import Recovery
from parachuted.vault.rescue import rescue
from parachuted.vault.retention import Keep, Pruned, Retention, Size
from parachuted.vault.revert import RefuseText, Reverted, refuse_nothing, revert, revert_move
from parachuted.vault.root import Content, VaultRoot, digest_of, digest_of_open, named_errors
from parachuted.vault.scanner import Scanner
from parachuted.vault.seen import NOTE_SUFFIXES, Scan, Seen
from parachuted.vault.store import Store, Written
from parachuted.vault.together import Wish
from parachuted.vault.trail import Version, place_of, trail_of, version_named

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
    "Bases",
    "Content",
    "DeleteKey",
    "Edit",
    "Edits",
    "Entry",
    "History",
    "Ignore",
    "Incoming",
    "Index",
    "Intent",
    "Keep",
    "Link",
    "LinkNames",
    "Meaning",
    "Merged",
    "Note",
    "Objects",
    "Problem",
    "Pruned",
    "Recovery",
    "RefuseText",
    "ReplaceAll",
    "ReplaceSection",
    "Retention",
    "Reverted",
    "Scan",
    "Scanner",
    "Section",
    "Seen",
    "SetKey",
    "Sighting",
    "Size",
    "Snapshot",
    "Store",
    "VaultPath",
    "VaultRoot",
    "Version",
    "Wish",
    "Write",
    "Written",
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
    "leads_straight",
    "links_in",
    "meaning",
    "merge_three",
    "name_key",
    "named_errors",
    "new_id",
    "parse_note",
    "place_of",
    "printable",
    "refusal",
    "refuse_nothing",
    "rescue",
    "resolve",
    "resolve_target",
    "revert",
    "revert_move",
    "rewrite_links",
    "spelled",
    "trail_of",
    "version_named",
]
