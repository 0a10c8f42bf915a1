#!/usr/bin/env bash
# Guess: readers of dates in plain English (dateparser, parsedatetime and ctparse in Python, chrono-node in JavaScript) read what people
#   write about this week alike, and leave words without a date alone.
# Seen: to the three of Python "the day after tomorrow" is tomorrow and "the day before yesterday" yesterday (ctparse: after and until
#   these); chrono-node reads both right. "In an hour and a half" is one hour to all four. "The sun is out" and "we sat down" hold a day
#   for each, a past one for two. To dateparser "Friday" is last week's and "next Friday" this week's, to the others this week's and the
#   next one's. None says that it left words out; chrono-node and dateparser name the words that they took.
# Why it matters: a task's day that is taken from a sentence comes a day early. Where a reader names its words, take the date
#   only if no word of time stands beside them; show the day before it counts.
source "$(dirname "$0")/support/common.sh"
python_packages dateparser==1.5.0 parsedatetime==2.6 ctparse==0.3.6
node_packages chrono-node@2.10.3

cat >"$work/phrases" <<'X'
the day after tomorrow
the day before yesterday
in an hour and a half
the sun is out
we sat down
friday
next friday
the 3rd time
X
cat >"$work/run.py" <<'X'
import logging
import sys
import warnings
from datetime import datetime

warnings.simplefilter("ignore")
import parsedatetime
from ctparse import ctparse
from dateparser.search import search_dates

logging.disable(logging.CRITICAL)
NOW = datetime(2026, 12, 1, 10)  # a Tuesday
calendar = parsedatetime.Calendar(version=parsedatetime.VERSION_CONTEXT_STYLE)


def by_dateparser(phrase):
    found = search_dates(phrase, languages=["en"], settings={"RELATIVE_BASE": NOW})
    return ", ".join(f"{at:%m-%d %H:%M}" for _words, at in found or ()) or "nothing"


def by_parsedatetime(phrase):
    at, context = calendar.parseDT(phrase, NOW)
    return f"{at:%m-%d %H:%M}" if context.hasDateOrTime else "nothing"


def by_ctparse(phrase):
    found = ctparse(phrase, ts=NOW)
    return str(found.resolution).replace("2026-", "") if found else "nothing"


for phrase in open(sys.argv[1], encoding="utf-8").read().splitlines():
    print(f"{phrase}: dateparser {by_dateparser(phrase)}; parsedatetime {by_parsedatetime(phrase)}; ctparse {by_ctparse(phrase)}")
X
cat >"$work/node/run.mjs" <<'X'
import fs from 'node:fs';
import * as chrono from 'chrono-node';

const now = new Date(2026, 11, 1, 10);
for (const phrase of fs.readFileSync(process.argv[2], 'utf8').trim().split('\n')) {
  const found = chrono.parse(phrase, now).map((each) => `${each.text} ${each.start.date().toISOString().slice(5, 16).replace('T', ' ')}`);
  console.log(`${phrase}: chrono-node ${found.join(', ') || 'nothing'}`);
}
X
export TZ=UTC
{ "$python" "$work/run.py" "$work/phrases" 2>/dev/null && node "$work/node/run.mjs" "$work/phrases"; } | tee "$work/out"
cat >"$work/expected" <<'X'
the day after tomorrow: dateparser 12-02 10:00; parsedatetime 12-02 09:00; ctparse 12-02 X:X (X/X) - None
the day before yesterday: dateparser 11-30 10:00; parsedatetime 11-30 09:00; ctparse None - 11-30 X:X (X/X)
in an hour and a half: dateparser 12-01 11:00; parsedatetime 12-01 11:00; ctparse 1 hours
the sun is out: dateparser 11-29 00:00; parsedatetime 12-06 10:00; ctparse 12-06 X:X (X/X)
we sat down: dateparser 11-25 00:00, 11-28 00:00; parsedatetime 12-05 10:00; ctparse 12-03 X:X (X/X)
friday: dateparser 11-27 00:00; parsedatetime 12-04 10:00; ctparse 12-04 X:X (X/X)
next friday: dateparser 12-04 00:00; parsedatetime 12-11 09:00; ctparse 12-11 X:X (X/X)
the 3rd time: dateparser 03-01 00:00; parsedatetime nothing; ctparse 12-03 X:X (X/X)
the day after tomorrow: chrono-node the day after tomorrow 12-03 10:00
the day before yesterday: chrono-node the day before yesterday 11-29 10:00
in an hour and a half: chrono-node in an hour 12-01 11:00
the sun is out: chrono-node sun 11-29 12:00
we sat down: chrono-node sat 11-28 12:00
friday: chrono-node friday 12-04 12:00
next friday: chrono-node next friday 12-11 12:00
the 3rd time: chrono-node nothing
X
diff "$work/expected" "$work/out" || changed "see the lines above"
