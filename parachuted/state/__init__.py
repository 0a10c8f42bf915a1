"""State: the small tables a daemon keeps beside a vault, durable at every change and disposable."""

from tinydb import where

from parachuted.state.journal import Disk
from parachuted.state.state import State, open_state
from parachuted.state.table import Record, Table

__all__ = ["Disk", "Record", "State", "Table", "open_state", "where"]
