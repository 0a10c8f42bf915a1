"""Doctor: reports what is wrong with notes and the audit; it repairs nothing."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

from parachuted.audit.files import AuditFolder, ChainHeadFile
from parachuted.audit.reader import verify
from parachuted.bubbling import WatchDeclaration, WatchRegistry
from parachuted.errors import ParachuteError
from parachuted.vault import NOTE_SUFFIXES, PathText, Store, VaultPath, parse_note, printable
from parachuted.vault.conflict_copies import is_conflict_copy
from parachuted.vault.note import conflict_line

Remedy = Literal["scan", "accept_missing", "restart"]


@dataclass(frozen=True, slots=True, kw_only=True)
class DoctorFinding:
    """One thing that is wrong or odd: `about` a subject of the daemon's problems, a module, or what
    is odd about a note, in which file and on which line, what to do, and what the API can do about
    it:

    `scan` is POST /api/scan, `accept_missing` the same with `{"accept_missing": true}`, `restart`
    is POST /supervisor/server/restart.
    """

    about: str
    is_problem: bool = False
    problem: str
    advice: str
    path: PathText | None = None
    line: int | None = None
    remedy: Remedy | None = None


_COPY = "a conflict copy, which wakes and watches nothing; take over what it has, then delete it"
_PROPOSED = "Suggestions/"  # they quote notes, frontmatter and all


def check_notes(store: Store, paths: Iterable[VaultPath]) -> list[DoctorFinding]:
    """What is odd about the notes among these paths. Blocks on the disk."""
    notes = sorted(path for path in paths if path.endswith(NOTE_SUFFIXES))
    return [finding for path in notes for finding in _check_note(store, path)]


def _check_note(store: Store, path: VaultPath) -> Iterator[DoctorFinding]:
    try:
        data = store.read(path).data
        problems = parse_note(data).problems
    except ParachuteError as error:
        yield finding_of_note(path, "unreadable", error.message)
        return
    if (line := conflict_line(data)) is not None:
        why = f"line {line} is a conflict marker; no agent is shown the note"
        yield finding_of_note(path, "conflict-markers", why)
    for problem in problems:
        if not (problem.code == "frontmatter-dashes" and path.startswith(_PROPOSED)):
            yield finding_of_note(path, problem.code, problem.message)


def check_audit(audit: AuditFolder, head: ChainHeadFile) -> dict[str, str]:
    """What is wrong with it, by subject. Reads all of it."""
    try:
        findings = verify(audit, head).findings
    except OSError as error:
        findings = [f"it cannot be read: {error.strerror}"]
    why = "the audit was changed after it was written"
    return {"audit": f"{why}: {findings[0]}"} if findings else {}


def conflict_copies(paths: Iterable[str]) -> list[DoctorFinding]:
    copies = filter(is_conflict_copy, sorted(paths))
    return [finding_of_note(path, "conflict-copy", _COPY) for path in copies]


def check_watches(
    watches: WatchRegistry, declared: Iterable[WatchDeclaration]
) -> Iterator[DoctorFinding]:
    """What cannot be read, and which patterns match nothing. Blocks."""
    for watch in declared:
        for message in watch.problems:
            yield finding_of_note(watch.watcher, "watch", message)
        for message in watches.unmatched(watch.watcher):
            yield finding_of_note(watch.watcher, "watch-unmatched", message)


# By the first word of a problem's subject: what to do, and what the API can do about it.
_ADVICE: Mapping[str, tuple[str, Remedy | None]] = {
    "vault": ("Make the folder readable again; then look again.", "scan"),
    "missing": ("Put the files back; or say that they were meant to go.", "accept_missing"),
    "index": ("Make room on the disk; it is tried again by itself.", "scan"),
    "file": ("Make the file readable, or name it in .parachuteignore; then look again.", "scan"),
    "watching": (
        "Nothing is lost: the vault is looked through instead. Raise fs.inotify.max_user_watches.",
        "restart",
    ),
    "disk": ("Make room on the disk; what waits is written by itself.", None),
    "tables": ("Restart: what can be found in the vault is found again.", "restart"),
    "snapshot": ("Nothing to do: the vault was looked through instead.", None),
    "history": ("Restart; if it comes again, restore the history from a backup.", "restart"),
    "recovered": ("Read the file, and its history, whether all is as you want it.", None),
    "rescued": ("Read both texts, and keep the one that you want.", None),
    "interrupted": ("Look at the run: it is done again where that is safe.", None),
    "search": ("Restart: the index is built again from the notes.", "restart"),
    "suggestions": ("Make room on the disk; it is tried again by itself.", None),
    "audit": ("Run `parachute audit verify`; it says from where on the record is whole.", None),
    "keys": ("Mend keys.yaml, or revoke the key that is not understood.", None),
    "modules": ("Mend modules.yaml in the home; what is approved runs again by itself.", None),
    "module": ("See the module's log; restart it, or approve its changed code.", None),
    "hooks": ("See the hook's runs; mend it, or approve its changed script.", None),
    "hook": ("See the hook's runs; mend it, or approve its changed script.", None),
    "model": ("See which login was found; without a model, runs write what needs none.", None),
    "supervisor": ("Choose another port as api.supervisor_port, then restart.", "restart"),
}
_OF_NOTES: Mapping[str, str] = {
    "watch": "Mend the pattern in the note's `watch:` list.",
    "watch-unmatched": "Mend the pattern, or leave it until there is such a file.",
    "conflict-copy": "Read both, keep what you want, and delete the copy.",
    "unindexed": "Search does not find all of it; split it, if that matters.",
}


def finding_of_problem(subject: str, problem: str) -> DoctorFinding:
    word = re.split("[:. ]", subject, maxsplit=1)[0]
    advice, remedy = _ADVICE.get(word, ("", None))
    return DoctorFinding(
        about=subject,
        is_problem=True,
        problem=problem,
        advice=advice,
        path=subject.partition(":")[2] if word == "file" else None,
        remedy=remedy,
    )


def finding_of_note(path: str, code: str, message: str) -> DoctorFinding:
    advice = _OF_NOTES.get(code, "Open the file and mend what is named.")
    return DoctorFinding(about=code, problem=printable(message), advice=advice, path=path)
