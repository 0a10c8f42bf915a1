"""State: what a daemon keeps beside a vault: small tables, and SQLite files."""

from parachuted.state.database import SQLITE_VERSION, Database, DatabaseStatus, transaction
from parachuted.state.journal import JournalDisk
from parachuted.state.table import StateStore, Table, TableRecord, open_state

__all__ = [
    "SQLITE_VERSION",
    "Database",
    "DatabaseStatus",
    "JournalDisk",
    "StateStore",
    "Table",
    "TableRecord",
    "open_state",
    "transaction",
]
