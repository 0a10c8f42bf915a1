#!/usr/bin/env bash
# Guess: jrnl's "yesterday: text" looks for a date before a colon and leaves a sentence alone that has none; and what one entry is
# given stays one entry.
# Seen: a word that is in a date, or a number, is enough, and it is cut out of the text: "may: we go?" is "we go?" in May, "3: things I
#   learned." is "things I learned." in March 2001. A line of the text that begins with a date in brackets is an entry of its
#   own when the journal is read again, dated so, and the lines after it go along. "Call Dr. Smith." has the title "Call Dr.".
# Why it matters: a journal that is imported from jrnl has entries in months in which none was written, and a capture that is handed
#   to it loses its first word. Give the date apart, as an option, and never look for one in what a person said.
source "$(dirname "$0")/support/common.sh"
python_packages jrnl==4.6

cat >"$work/config.yaml" <<X
version: '4.6'
colors: {body: none, date: none, tags: none, title: none}
default_hour: 9
default_minute: 0
display_format: pretty
editor: ''
encrypt: false
highlight: false
indent_character: '|'
journals:
  default: {journal: $work/journal.txt}
linewrap: 79
tagsymbols: '#@'
template: false
timeformat: '%F %H:%M'
X
touch "$work/journal.txt"
journal() { HOME="$work" XDG_CONFIG_HOME="$work" XDG_DATA_HOME="$work" "$work/venv/bin/jrnl" --config-file "$work/config.yaml" "$@" </dev/null 2>/dev/null; }
for text in "may: we go?" "3: things I learned." "Call Dr. Smith. About the knee." $'2026-05-06 10:00: Read\n[2024-01-02 10:00] quoted\nthe rest'; do
  journal "$text" >/dev/null
done
journal --format json >"$work/export.json"
"$python" - "$work/export.json" <<'X' | tee "$work/out"
import datetime, json, sys
today = datetime.date.today()
for entry in json.load(open(sys.argv[1]))["entries"]:
    day = datetime.date.fromisoformat(entry["date"])
    shown = "today" if abs((day - today).days) < 2 and entry["title"].startswith("Call") else "some May 1" if entry["title"] == "we go?" and (day.month, day.day) == (5, 1) else day
    print(f"{shown}: title {entry['title']!r}, text {entry['body']!r}")
X
cat >"$work/expected" <<'X'
2001-03-01: title 'things I learned.', text ''
2024-01-02: title 'quoted', text 'the rest'
some May 1: title 'we go?', text ''
2026-05-06: title 'Read', text ''
today: title 'Call Dr.', text 'Smith. About the knee.'
X
diff "$work/expected" "$work/out" || changed "see the lines above"
