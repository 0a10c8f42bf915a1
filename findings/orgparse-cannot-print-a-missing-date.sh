#!/usr/bin/env bash
# Guess: orgparse gives a task's dates as objects that can be logged, and of the dates in its text those that its author set.
# Seen: a task without a date has one that is false and cannot be printed: str raises AttributeError, repr raises TypeError
#   ("can't happen"), so any log line, f-string or failing assertion on a node ends in an error. Dates
#   in a comment and in verbatim text are in `datelist` too. The logbook's lines are out of the body, its drawer stays there empty.
# Why it matters: an import of Org files that reports what it read fails at the first task without a deadline, and lists dates
#   that were examples.
source "$(dirname "$0")/support/common.sh"
python_packages orgparse==0.5.20260926

cat >"$work/run.py" <<'X'
import orgparse

text = """* TODO Call Ann
  SCHEDULED: <2026-11-30 Mon>
  :LOGBOOK:
  - State "DONE"       from "TODO"       [2026-11-29 Sun 10:00]
  :END:
  As =<2026-01-01 Thu>= shows.
# <2026-02-02 Mon>
"""
node = orgparse.loads(text)[1]
print("scheduled:", node.scheduled, "deadline:", bool(node.deadline))
for show in (str, repr):
    try:
        print(show(node.deadline))
    except (AttributeError, TypeError) as error:
        print(f"{show.__name__} of a missing deadline:", type(error).__name__, error)
print("dates in it:", *node.datelist)
print("body:", node.body.split("\n"))
X
"$python" "$work/run.py" | tee "$work/out"
cat >"$work/expected" <<'X'
scheduled: <2026-11-30 Mon> deadline: False
str of a missing deadline: AttributeError 'NoneType' object has no attribute 'strftime'
repr of a missing deadline: TypeError can't happen: None <class 'NoneType'>
dates in it: <2026-01-01 Thu> <2026-02-02 Mon>
body: ['  :LOGBOOK:', '  :END:', '  As =<2026-01-01 Thu>= shows.', '# <2026-02-02 Mon>']
X
diff "$work/expected" "$work/out" || changed "see the lines above"
