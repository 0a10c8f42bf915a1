"""History documents: the shapes of answers about what files were, and what runs changed.

Times are ISO 8601.
"""

from __future__ import annotations

from typing_extensions import TypedDict

from parachuted.times import Time


class FileVersionResponse(TypedDict):
    """One version.

    `version` is its digest (None: there was no file), `at` when it came about, where that is known.

    `added` and `removed` count lines against the version before, where both texts are kept; `kept`:
    it can be restored.
    """

    version: str | None
    path: str
    source: str | None
    kind: str
    at: Time | None
    by: str
    run: str | None
    causes: list[str]
    added: int | None
    removed: int | None
    kept: bool


class FileHistoryResponse(TypedDict):
    """The latest versions of a file, newest first, of `count` in all; `since`: when the newest was
    made of those no longer kept.
    """

    path: str
    versions: list[FileVersionResponse]
    count: int
    since: Time | None


class FileChangeResponse(TypedDict):
    """What runs changed in a file, without what others wrote in between.

    `source` is where it was before, when it moved.
    """

    path: str
    source: str | None
    runs: list[str]
    before: str | None
    after: str | None
    diff: str
    added: int | None
    removed: int | None


class RunDiffResponse(TypedDict):
    """What a run changed, and, with `cascade`, what followed from it: the runs, newest first, and
    the files.
    """

    run: str
    runs: list[str]
    files: list[FileChangeResponse]


class RestoreResponse(TypedDict):
    """A file that is as it was.

    `run` takes that back (None: it was so already); `merged`: what was written meanwhile was kept.
    """

    path: str
    version: str
    before: str | None
    after: str | None
    merged: bool
    run: str | None
