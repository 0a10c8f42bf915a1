"""State: small tables beside a vault, durable at every change and disposable."""

from tinydb import where

from parachuted.state.journal import JournalDisk
from parachuted.state.state import StateStore, open_state
from parachuted.state.table import Table, TableRecord

__all__ = ["JournalDisk", "StateStore", "Table", "TableRecord", "open_state", "where"]
