#!/usr/bin/env bash
# Guess: a patch release of PyYAML changes no answer for YAML that was read before.
# Seen: the wheel of 6.0.3 reads a mapping nested 1,001 levels deep as events; the wheel of 6.0.4 (another libyaml inside) raises ScannerError
#   "exceeded maximum nesting depth" for it. 999 levels are read by both. In flow style the error comes before the first bracket is an event, since the
#   scanner reads ahead, so a reader that counts levels itself and stops early does not get to say its own sentence.
# Why it matters: a guard that counts levels should know this error too, or its message (and its tests) depend on the day of the installation.
set -euo pipefail
folder=$(mktemp -d); trap 'rm -rf "$folder"' EXIT
cat >"$folder/ask.py" <<'PY'
import yaml
def nested(levels):
    return "\n".join(" " * level + "a:" for level in range(levels))
def ask(text):
    events = yaml.parse(text, Loader=yaml.CSafeLoader)
    count = 0
    try:
        for _ in events:
            count += 1
    except yaml.scanner.ScannerError as error:
        return f"{error.problem} after {count} events"
    return "read"
print(*(f"{levels}: {ask(nested(levels))}" for levels in (999, 1001)), "flow: " + ask("[" * 1500 + "]" * 1500), sep="; ")
PY
ask() {
  python3 -m venv "$folder/$1"
  "$folder/$1/bin/pip" install -q --disable-pip-version-check --only-binary :all: "PyYAML==$1" 2>/dev/null
  "$folder/$1/bin/python" "$folder/ask.py"
}
lower=$(ask 6.0.3) upper=$(ask 6.0.4)
printf 'PyYAML 6.0.3: %s\nPyYAML 6.0.4: %s\n' "$lower" "$upper"
limit="exceeded maximum nesting depth"
[ "$lower" = "999: read; 1001: read; flow: read" ] &&
  [ "$upper" = "999: read; 1001: $limit after 2000 events; flow: $limit after 1 events" ] || { echo "changed" >&2; exit 1; }
