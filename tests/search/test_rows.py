from __future__ import annotations

import dataclasses

import pytest

from parachuted.search import NoteQuery


def test_a_query_of_notes_asks_for_all_of_them_by_path_unless_it_says_more():
    query = NoteQuery()

    assert (query.filters, query.folder, query.tag, query.sort, query.after) == (
        (),
        None,
        None,
        "path",
        None,
    )
    with pytest.raises(dataclasses.FrozenInstanceError):
        query.sort = "title"
