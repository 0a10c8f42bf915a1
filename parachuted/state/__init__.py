"""State: what a daemon keeps beside a vault: small tables, and SQLite files."""

from parachuted.state.database import SQLITE_VERSION, Database, DatabaseStatus
from parachuted.state.tables import StateStore, Table, open_state

__all__ = [
    "SQLITE_VERSION",
    "Database",
    "DatabaseStatus",
    "StateStore",
    "Table",
    "open_state",
]
