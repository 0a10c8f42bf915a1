#!/usr/bin/env bash
# Guess: python-frontmatter's `dump(post, file)` takes the same kind of file in every 1.x.
# Seen: 1.1.0 writes bytes and needs a binary file (its own documentation uses BytesIO); 1.3.0 writes text and needs a text file. No file
#   object suits both, and there is no deprecation between them: each raises TypeError for the other's.
# Why it matters: code that is tested with one version fails with the other at the moment of writing a person's note. `dumps` is the same in both.
set -euo pipefail
folder=$(mktemp -d); trap 'rm -rf "$folder"' EXIT
cat >"$folder/ask.py" <<'PY'
import io
import frontmatter
for kind in (io.BytesIO, io.StringIO):
    try:
        frontmatter.dump(frontmatter.Post("Beans."), kind())
        print(kind.__name__, "written", end="; ")
    except TypeError:
        print(kind.__name__, "TypeError", end="; ")
print("dumps:", frontmatter.dumps(frontmatter.Post("Beans.", a=1)).split("\n"))
PY
ask() {
  python3 -m venv "$folder/$1"
  "$folder/$1/bin/pip" install -q --disable-pip-version-check "python-frontmatter==$1" PyYAML==6.0.3 2>/dev/null
  "$folder/$1/bin/python" "$folder/ask.py"
}
lower=$(ask 1.1.0) upper=$(ask 1.3.0)
printf 'python-frontmatter 1.1.0: %s\npython-frontmatter 1.3.0: %s\n' "$lower" "$upper"
same="dumps: ['---', 'a: 1', '---', '', 'Beans.']"
[ "$lower" = "BytesIO written; StringIO TypeError; $same" ] && [ "$upper" = "BytesIO TypeError; StringIO written; $same" ] || { echo "changed" >&2; exit 1; }
