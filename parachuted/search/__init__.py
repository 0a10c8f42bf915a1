"""Search: an index of the notes beside the vault, which can be deleted at any time."""

from parachuted.search.engine import Ranking, SearchHit, SearchResults
from parachuted.search.indexed_note import (
    CatalogueLink,
    CataloguePage,
    IndexedLinkKind,
    KeyFilter,
    NoteQuery,
    NoteSummary,
    Operator,
    make_indexed_note,
)
from parachuted.search.indexer import IndexUpdate
from parachuted.search.note_catalogue import NoteCatalogue
from parachuted.search.query import LONGEST, PARTS, ParsedQuery, QueryError, parse_query
from parachuted.search.search import Search, UnindexedNote

__all__ = [
    "LONGEST",
    "PARTS",
    "CatalogueLink",
    "CataloguePage",
    "IndexUpdate",
    "IndexedLinkKind",
    "KeyFilter",
    "NoteCatalogue",
    "NoteQuery",
    "NoteSummary",
    "Operator",
    "ParsedQuery",
    "QueryError",
    "Ranking",
    "Search",
    "SearchHit",
    "SearchResults",
    "UnindexedNote",
    "make_indexed_note",
    "parse_query",
]
