"""Findings: what the doctor found, each with what to do about it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Literal, cast

from typing_extensions import TypedDict

Remedy = Literal["scan", "accept_missing", "restart"]


class FindingResponse(TypedDict):
    """One thing that is wrong or odd: `about` a subject of `problems`, a module or a code of
    `notes`, in which file and on which line, what to do, and what the API can do about it:

    `scan` is POST /api/scan, `accept_missing` the same with `{"accept_missing": true}`, `restart`
    is POST /supervisor/server/restart.
    """

    about: str
    is_problem: bool
    problem: str
    advice: str
    path: str | None
    line: int | None
    remedy: Remedy | None


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
    "state": ("Restart: what can be found in the vault is found again.", "restart"),
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
_ELSE = "Open the file and mend what is named."


def problem_findings(problems: Mapping[str, str]) -> list[FindingResponse]:
    """Those of the daemon and of the vault as a whole."""
    found: list[FindingResponse] = []
    for subject, problem in problems.items():
        word = subject.partition(":")[0].partition(".")[0].partition(" ")[0]
        advice, remedy = _ADVICE.get(word, ("", None))
        found.append(
            {
                "about": subject,
                "is_problem": True,
                "problem": problem,
                "advice": advice,
                "path": subject.partition(":")[2] if word == "file" else None,
                "line": None,
                "remedy": remedy,
            }
        )
    return found


def note_findings(notes: Iterable[Mapping[str, object]]) -> list[FindingResponse]:
    """Those of single notes."""
    return [
        {
            "about": str(note["code"]),
            "is_problem": False,
            "problem": str(note["message"]),
            "advice": _OF_NOTES.get(str(note["code"]), _ELSE),
            "path": str(note["path"]),
            "line": None,
            "remedy": None,
        }
        for note in notes
    ]


def module_findings(findings: Iterable[Mapping[str, object]]) -> list[FindingResponse]:
    """Those that modules report."""
    return [
        cast(
            "FindingResponse",
            {
                "about": one["module"],
                "is_problem": False,
                "problem": one["problem"],
                "advice": one["advice"],
                "path": one["path"],
                "line": one["line"],
                "remedy": None,
            },
        )
        for one in findings
    ]
