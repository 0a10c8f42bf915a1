#!/usr/bin/env bash
# Guess: TinyDB's search gives what the file holds, as get and all do; and two handles on one file, used in turn by one thread,
# see each other's documents, since each call reads the file.
# Seen: a search that was asked before is answered from a cache of the handle. Another handle's update is missing in it while all()
#   beside it has the update. The cached documents are the caller's own: a list that is appended to in a result is longer in the
#   next search, and in no file and no all(). The next id is kept by the handle too: after another handle's insert, insert raises
#   ValueError and writes nothing, until it has counted past.
# Why it matters: a record that is changed in memory without an update looks saved to the next search and is gone with the process;
#   a tool beside the daemon makes its inserts fail. One handle a file, in one process, and tables made with `cache_size=0`; the class attribute
#   of that meaning, default_query_cache_capacity, changes nothing, for the parameter took its value when the class was made.
source "$(dirname "$0")/support/common.sh"
python_packages tinydb==4.9.0

cat >"$work/run.py" <<'X'
import sys

from tinydb import TinyDB, where
from tinydb.table import Table

here, other = TinyDB(sys.argv[1]), TinyDB(sys.argv[1])
here.insert({"note": "a.md", "tags": ["tea"]})
query = where("note") == "a.md"
print("first search:", here.search(query))
other.update({"seen": True})
print("after another handle's update: search", here.search(query), "all", here.all())
here.search(query)[0]["tags"].append("mine")
print("after an append to a result: search", here.search(query), "all", here.all())
other.insert({"note": "b.md"})
for _ in range(2):
    try:
        print("insert:", here.insert({"note": "c.md"}))
    except ValueError as error:
        print("insert raises:", error)
Table.default_query_cache_capacity = 0
fresh = TinyDB(sys.argv[1])
for name, table in {"default_query_cache_capacity = 0": fresh.table("_default"), "cache_size=0": TinyDB(sys.argv[1]).table("_default", cache_size=0)}.items():
    table.search(query)[0]["tags"].append("mine")
    print(f"{name}:", table.search(query)[0]["tags"])
X
"$python" "$work/run.py" "$work/db.json" | tee "$work/out"
cat >"$work/expected" <<'X'
first search: [{'note': 'a.md', 'tags': ['tea']}]
after another handle's update: search [{'note': 'a.md', 'tags': ['tea']}] all [{'note': 'a.md', 'tags': ['tea'], 'seen': True}]
after an append to a result: search [{'note': 'a.md', 'tags': ['tea', 'mine']}] all [{'note': 'a.md', 'tags': ['tea'], 'seen': True}]
insert raises: Document with ID 2 already exists
insert: 3
default_query_cache_capacity = 0: ['tea', 'mine']
cache_size=0: ['tea']
X
diff "$work/expected" "$work/out" || changed "see the lines above"
