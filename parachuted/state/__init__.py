"""State: what a daemon keeps beside a vault: small tables, and SQLite files."""

from parachuted.state.database import SQLITE_VERSION as SQLITE_VERSION
from parachuted.state.database import Database as Database
from parachuted.state.database import DatabaseStatus as DatabaseStatus
from parachuted.state.tables import StateStore as StateStore
from parachuted.state.tables import Table as Table
from parachuted.state.tables import open_state as open_state
