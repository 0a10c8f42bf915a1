"""Search: what the notes say, in an index beside the vault that can be deleted at any time."""

from parachuted.search.catalogue import Catalogue
from parachuted.search.finder import Found, Hit, Why
from parachuted.search.query import LONGEST, PARTS, Query, QueryError, parse_query
from parachuted.search.rows import Filter, LinkKind, LinkPage, LinkRow, NotePage, NoteQuery, NoteRow, Operator
from parachuted.search.search import Search, Unindexed

__all__ = [
    "LONGEST",
    "PARTS",
    "Catalogue",
    "Filter",
    "Found",
    "Hit",
    "LinkKind",
    "LinkPage",
    "LinkRow",
    "NotePage",
    "NoteQuery",
    "NoteRow",
    "Operator",
    "Query",
    "QueryError",
    "Search",
    "Unindexed",
    "Why",
    "parse_query",
]
