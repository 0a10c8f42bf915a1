"""Database: the file of the index. It can be deleted at any time."""

from __future__ import annotations

from pathlib import Path

from parachuted.search.words import emoji
from parachuted.state import Database

COLUMNS = ("title", "headings", "body", "tags", "matter", "place", "facets")
_VERSION = 4
# FTS5 collects 4 MB of words in memory before it writes a segment; with its default of 1 MB a third
# of the time goes into merging
_SCHEMA = f"""
CREATE TABLE notes (
    id INTEGER PRIMARY KEY, path BLOB NOT NULL UNIQUE, name BLOB NOT NULL, title TEXT NOT NULL, modified REAL NOT NULL,
    size INTEGER NOT NULL, digest TEXT NOT NULL, tags TEXT NOT NULL, matter TEXT NOT NULL, typed TEXT NOT NULL,
    reason TEXT);
CREATE INDEX notes_by_name ON notes (name);
CREATE INDEX notes_with_reason ON notes (path) WHERE reason IS NOT NULL;
CREATE TABLE others (path BLOB PRIMARY KEY, name BLOB NOT NULL) WITHOUT ROWID;
CREATE INDEX others_by_name ON others (name);
CREATE TABLE tags (tag TEXT NOT NULL, note INTEGER NOT NULL, PRIMARY KEY (tag, note)) WITHOUT ROWID;
CREATE TABLE fields (
    note INTEGER NOT NULL, key TEXT NOT NULL, at INTEGER NOT NULL, folded TEXT NOT NULL, kind TEXT NOT NULL, number REAL NOT NULL,
    PRIMARY KEY (note, key, at)) WITHOUT ROWID;
CREATE INDEX fields_by_key ON fields (key, note);
CREATE TABLE links (
    note INTEGER NOT NULL, at INTEGER NOT NULL, kind TEXT NOT NULL, text BLOB NOT NULL, name BLOB NOT NULL, from_folder INTEGER NOT NULL,
    line INTEGER NOT NULL, PRIMARY KEY (note, at)) WITHOUT ROWID;
CREATE INDEX links_by_name ON links (name);
CREATE VIRTUAL TABLE texts USING fts5({", ".join(COLUMNS)}, tokenize = "unicode61 remove_diacritics 2 tokenchars '{emoji()}'");
INSERT INTO texts (texts, rank) VALUES ('hashsize', 4194304);
"""  # noqa: E501, S608


def make_database(path: Path) -> Database:
    """The index in that file, which is opened at its first use."""
    return Database(
        path,
        label="the search index",
        loss="it is rebuilt from the vault",
        migrations={_VERSION: _SCHEMA},
        is_derived=True,
    )
