#!/usr/bin/env bash
# Guess: reading a valid .ics file and writing it again changes layout at most; a SUMMARY is a string.
# Seen: ics (PyPI) writes a weekly 09:00 in Berlin as 07:00 UTC and keeps the RRULE, so that from the end of
# October the event is at 08:00; a time without a zone ("wherever you are") becomes UTC too. It and node-ical read
# an escaped backslash before an n as a line break: C:\notes comes back in two lines. node-ical's summary
# is an object {params, val} as soon as the line has a parameter, as in SUMMARY;LANGUAGE=de of some calendars.
# icalendar and ical.js keep all of it.
# Why it matters: a module that puts appointments into the daily note and writes them back moves people's
# meetings by an hour twice a year, and shows "[object Object]" for the calendars of one maker alone.
source "$(dirname "$0")/support/common.sh"
python_packages ics==0.7.3 icalendar==7.3.0 tzdata==2026.3
node_packages node-ical@0.27.2 ical.js@2.2.1

cat >"$work/node/week.ics" <<'X'
BEGIN:VCALENDAR
VERSION:2.0
PRODID:-//example//notes//EN
BEGIN:VEVENT
UID:1@example.org
DTSTAMP:20261001T080000Z
DTSTART;TZID=Europe/Berlin:20261019T090000
RRULE:FREQ=WEEKLY;COUNT=3
SUMMARY;LANGUAGE=de:Plan C:\\notes
END:VEVENT
BEGIN:VEVENT
UID:2@example.org
DTSTAMP:20261001T080000Z
DTSTART:20261020T070000
SUMMARY:Walk
END:VEVENT
END:VCALENDAR
X
sed -i 's/$/\r/' "$work/node/week.ics"
cat >"$work/run.py" <<'X'
import sys
import icalendar, ics

text = open(sys.argv[1], newline="").read()
written = {"ics": ics.Calendar(text).serialize(), "icalendar": icalendar.Calendar.from_ical(text).to_ical().decode()}
for library, lines in written.items():
    for line in sorted(lines.splitlines()):
        if line.startswith(("DTSTART", "RRULE")):
            print(f"{library} writes: {line}")
names = {"ics": [event.name for event in ics.Calendar(text).events],
         "icalendar": [str(event["SUMMARY"]) for event in icalendar.Calendar.from_ical(text).events]}
for library, summaries in names.items():
    print(f"{library} reads: {sorted(summaries)!r}")
X
cat >"$work/node/run.mjs" <<'X'
import ICAL from 'ical.js';
import nodeIcal from 'node-ical';
import { readFileSync } from 'node:fs';
const text = readFileSync('week.ics', 'utf8');
const calendar = new ICAL.Component(ICAL.parse(text));
console.log('ical.js reads:', JSON.stringify(calendar.getAllSubcomponents('vevent').map((event) => event.getFirstPropertyValue('summary'))));
const events = Object.values(nodeIcal.sync.parseICS(text)).filter((event) => event.type === 'VEVENT');
console.log('node-ical reads:', JSON.stringify(events.map((event) => event.summary)));
X
{ "$python" "$work/run.py" "$work/node/week.ics"; (cd "$work/node" && node run.mjs); } | tee "$work/out"
cat >"$work/expected" <<'X'
ics writes: DTSTART:20261019T070000Z
ics writes: DTSTART:20261020T070000Z
ics writes: RRULE:FREQ=WEEKLY;COUNT=3
icalendar writes: DTSTART:20261020T070000
icalendar writes: DTSTART;TZID=Europe/Berlin:20261019T090000
icalendar writes: RRULE:FREQ=WEEKLY;COUNT=3
ics reads: ['Plan C:\\\notes', 'Walk']
icalendar reads: ['Plan C:\\notes', 'Walk']
ical.js reads: ["Plan C:\\notes","Walk"]
node-ical reads: [{"params":{"LANGUAGE":"de"},"val":"Plan C:\\\notes"},"Walk"]
X
diff "$work/expected" "$work/out" || changed "see the lines above"
