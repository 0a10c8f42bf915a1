#!/usr/bin/env bash
# Guess: pytodotxt writes a line of todo.txt back as it read it, or with the change that was asked for.
# Seen: of a completed task without a day of creation, which the format allows, the day of completion is read and not written. A clock time, as in
#   "at 10:30", is an attribute named 10.
# Why it matters: a tool that ticks one task rewrites the file, and every line of that form loses its day. Change the line that is meant,
#   as bytes.
source "$(dirname "$0")/support/common.sh"
python_packages pytodotxt==3.1.0

cat >"$work/run.py" <<'X'
from pytodotxt import Task

for line in [
    "x 2026-01-03 2026-01-02 Sow beans",
    "x 2026-01-03 Sow beans",
    "x Sow beans",
    "2026-01-02 Meet Kim at 10:30",
]:
    task = Task(line)
    print(line, "->", str(task), task.completion_date, dict(task.attributes))
X
"$python" "$work/run.py" | tee "$work/out"
cat >"$work/expected" <<'X'
x 2026-01-03 2026-01-02 Sow beans -> x 2026-01-03 2026-01-02 Sow beans 2026-01-03 {}
x 2026-01-03 Sow beans -> x Sow beans 2026-01-03 {}
x Sow beans -> x Sow beans None {}
2026-01-02 Meet Kim at 10:30 -> 2026-01-02 Meet Kim at 10:30 None {'10': ['30']}
X
diff "$work/expected" "$work/out" || changed "see the lines above"
