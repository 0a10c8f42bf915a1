"""Run document: the record of any run, in the form that the history keeps."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from parachuted.vault.diff import diff_of
from parachuted.vault.objects import ObjectStore
from parachuted.vault.paths import printable

Digests = tuple[str | None, str | None]


def run_document(
    run: str, *, watcher: str, agent: str, started: datetime, **fields: object
) -> dict[str, object]:
    """The document as JSON. What `fields` does not give is empty; `watcher` is printable."""
    return {
        "id": run,
        "task": "",
        "watcher": watcher,
        "agent": agent,
        "backend": "none",
        "model": None,
        "causes": [],
        "parents": [],
        "started": started.isoformat(),
        "ended": None,
        "outcome": "changed",
        "reason": "",
        "reviewed": [],
        "reviewed_count": 0,
        "wrote": [],
        "steps": [],
        "quotes": [watcher],
        "prompt_digest": "",
        "cost_usd": 0.0,
        "input_tokens": 0,
        "output_tokens": 0,
        "undone": None,
    } | fields


def requested(
    causes: Iterable[str], path: str, files: int, at: datetime
) -> list[dict[str, object]]:
    """The entries of `causes` that a person's request began."""
    rest = {"kind": "request", "path": path, "files": files, "at": at.isoformat()}
    return [{"id": cause, **rest} for cause in causes]


def wrote(path: str, digests: Digests, objects: ObjectStore) -> dict[str, object]:
    """An entry of `wrote`: a file, the digests before and after, and the difference."""
    before, after = (b"" if digest is None else objects.get(digest) or b"" for digest in digests)
    return {
        "path": printable(path),
        "before": digests[0],
        "after": digests[1],
        "diff": diff_of(before, after, path),
    }
