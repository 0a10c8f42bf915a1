from __future__ import annotations

from parachuted.api.routes import history_documents as told


def test_what_may_be_unknown_says_so():
    kinds = told.FileVersionResponse.__annotations__
    assert all("None" in str(kinds[name]) for name in ("version", "at", "run", "added", "removed"))
