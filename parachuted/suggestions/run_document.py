"""The history's record of an approval, so that it is listed, explained and undone like any
run.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from parachuted.suggestions.suggestion import Suggestion
from parachuted.vault import PERSONS, Author, History, ObjectStore, Write, diff_of, printable

NAME = "suggestion"


def save_run(
    history: History,
    objects: ObjectStore,
    suggestion: Suggestion,
    author: Author,
    *,
    by: str,
    writes: Sequence[Write],
    at: datetime,
) -> None:
    """Keep the document of the run that applied it, which counts in no budget of agents.

    Blocks. Raises StorageFailedError.
    """
    path = printable(suggestion.path)
    document: dict[str, object] = {
        "id": author.run,
        "task": "",
        "watcher": path,
        "agent": NAME,
        "backend": "none",
        "model": None,
        "causes": [{"id": cause} for cause in author.causes],
        "parents": [suggestion.run] if suggestion.run else [],
        "started": at.isoformat(),
        "ended": at.isoformat(),
        "outcome": "changed",
        "reason": f"{suggestion.action} {path}, suggested by {suggestion.source_agent} as "
        f"{suggestion.id}, approved by {by}",
        "reviewed": [],
        "reviewed_count": 0,
        "wrote": [_wrote(write, objects) for write in writes],
        "steps": [],
        "quotes": sorted({path, *(printable(write.path) for write in writes)}),
        "prompt_digest": "",
        "cost_usd": 0.0,
        "input_tokens": 0,
        "output_tokens": 0,
        "undone": None,
        "suggestion": {
            "id": suggestion.id,
            "source_agent": suggestion.source_agent,
            "resolved_by": by,
        },
    }
    history.save_run(
        str(author.run),
        started=at,
        watcher=suggestion.path,
        outcome=PERSONS,
        causes=list(author.causes),
        document=document,
    )


def _wrote(write: Write, objects: ObjectStore) -> dict[str, object]:
    before, after = (
        b"" if digest is None else objects.get(digest) or b""
        for digest in (write.before, write.after)
    )
    return {
        "path": printable(write.path),
        "before": write.before,
        "after": write.after,
        "diff": diff_of(before, after, write.path),
    }
