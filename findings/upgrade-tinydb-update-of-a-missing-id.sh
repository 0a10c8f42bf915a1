#!/usr/bin/env bash
# Guess: TinyDB's `update(fields, doc_ids=[1, 99])` raises for the id that is not there and changes nothing, or skips it, in every 4.x.
# Seen: 4.8.0 raises KeyError after it has changed document 1 (in MemoryStorage the change stays); 4.9.0 skips 99 in silence and returns [1].
#   A query with `test(f, {...})` cannot be searched in 4.8.0 (TypeError: unhashable) and can in 4.9.0.
# Why it matters: whoever relies on KeyError to learn that a record was removed meanwhile loses that with an upgrade within the range.
set -euo pipefail
folder=$(mktemp -d); trap 'rm -rf "$folder"' EXIT
cat >"$folder/ask.py" <<'PY'
import tinydb
table = tinydb.TinyDB(storage=tinydb.storages.MemoryStorage).table("t")
table.insert({"a": 1})
try:
    print("updated", table.update({"b": 1}, doc_ids=[1, 99]), end=" ")
except KeyError as error:
    print("KeyError", error, end=" ")
print(dict(table.get(doc_id=1)), end="; ")
try:
    print(len(table.search(tinydb.where("a").test(lambda value, limits: value in limits["of"], {"of": [1, 2]}))), "found")
except TypeError as error:
    print("TypeError")
PY
ask() {
  python3 -m venv "$folder/$1"
  "$folder/$1/bin/pip" install -q --disable-pip-version-check "tinydb==$1" 2>/dev/null
  "$folder/$1/bin/python" "$folder/ask.py"
}
lower=$(ask 4.8.0) upper=$(ask 4.9.0)
printf 'tinydb 4.8.0: %s\ntinydb 4.9.0: %s\n' "$lower" "$upper"
[ "$lower" = "KeyError 99 {'a': 1, 'b': 1}; TypeError" ] && [ "$upper" = "updated [1] {'a': 1, 'b': 1}; 1 found" ] || { echo "changed" >&2; exit 1; }
