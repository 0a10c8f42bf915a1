#!/usr/bin/env bash
# Guess: between two minor releases of a cron library, an expression that is valid stays valid and names the same minutes.
# Seen: cronsim 2.7 refuses `0 0 30 2 MON` (no February has 30 days), 2.8 takes it and yields the Mondays of February, as Debian's
#   cron has it, where a day of the month and a day of the week that are both given mean either. Backwards from 12:00:00.0005, 2.7
#   leaves out 12:00 itself, 2.8 begins with it.
# Why it matters: schedules stand in people's files. With a range `>=2.7`, the same file has a schedule on one machine and a refusal on another.
set -euo pipefail
folder=$(mktemp -d); trap 'rm -rf "$folder"' EXIT
cat >"$folder/ask.py" <<'PY'
from datetime import datetime
import cronsim
try:
    print(next(cronsim.CronSim("0 0 30 2 MON", datetime(2026, 1, 1))).date(), end=" ")
except cronsim.CronSimError as error:
    print(error, end=" ")
print("|", next(cronsim.CronSim("* * * * *", datetime(2026, 1, 1, 12, 0, 0, 500), reverse=True)).time())
PY
ask() {
  python3 -m venv "$folder/$1"
  "$folder/$1/bin/pip" install -q --disable-pip-version-check "cronsim==$1" 2>/dev/null
  "$folder/$1/bin/python" "$folder/ask.py"
}
lower=$(ask 2.7) upper=$(ask 2.8)
printf 'cronsim 2.7: %s\ncronsim 2.8: %s\n' "$lower" "$upper"
[ "$lower" = "Bad day-of-month | 11:59:00" ] && [ "$upper" = "2026-02-02 | 12:00:00" ] || { echo "changed" >&2; exit 1; }
