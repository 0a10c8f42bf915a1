#!/usr/bin/env bash
# Guess: the format of a daily or weekly note's name (`YYYY-MM-DD`, `gggg-[W]ww`), which Obsidian gives to Moment, means the same to
# libraries that take Moment's letters (arrow, pendulum, Day.js), and what one of them does not know is an error.
# Seen: letters that they do not know stay as they are: with each of the three every week of every year is `gggg-Www`. arrow's `W`
#   is a whole ISO date, so `GGGG-[W]WW` repeats one. Day.js writes the 31st as `31o` and the day of the year 365 as `3131`. Only
#   the plain date and the names of months and weekdays agree everywhere.
# Why it matters: a journal that takes over the format of `.obsidian/daily-notes.json` or Periodic Notes by one of these writes all weeks
#   into one file. Read the format by a table of Moment's letters, and refuse a format with a letter that is not in it.
source "$(dirname "$0")/support/common.sh"
python_packages arrow==1.4.0 pendulum==3.3.0
node_packages moment@2.30.1 dayjs@1.11.19

formats=('YYYY-MM-DD' 'YYYY/MM-MMMM/dddd' 'gggg-[W]ww' 'GGGG-[W]WW' 'YYYY-[Q]Q' 'Do' 'DDDD')
cat >"$work/names.py" <<'X'
import datetime, sys, arrow, pendulum
day = datetime.datetime(2026, 12, 31)
for text in sys.argv[1:]:
    print(text, "arrow:", arrow.get(day).format(text), "pendulum:", pendulum.instance(day).format(text))
X
cat >"$work/node/names.cjs" <<'X'
const moment = require('moment'), dayjs = require('dayjs'), day = new Date(2026, 11, 31);
for (const text of process.argv.slice(2)) console.log('Moment:', moment(day).format(text), 'Day.js:', dayjs(day).format(text));
X
paste -d' ' <("$python" "$work/names.py" "${formats[@]}") <(node "$work/node/names.cjs" "${formats[@]}") | tee "$work/out"
cat >"$work/expected" <<'X'
YYYY-MM-DD arrow: 2026-12-31 pendulum: 2026-12-31 Moment: 2026-12-31 Day.js: 2026-12-31
YYYY/MM-MMMM/dddd arrow: 2026/12-December/Thursday pendulum: 2026/12-December/Thursday Moment: 2026/12-December/Thursday Day.js: 2026/12-December/Thursday
gggg-[W]ww arrow: gggg-Www pendulum: gggg-Www Moment: 2027-W01 Day.js: gggg-Www
GGGG-[W]WW arrow: GGGG-W2026-W53-42026-W53-4 pendulum: GGGG-WWW Moment: 2026-W53 Day.js: GGGG-WWW
YYYY-[Q]Q arrow: 2026-QQ pendulum: 2026-Q4 Moment: 2026-Q4 Day.js: 2026-QQ
Do arrow: 31st pendulum: 31st Moment: 31st Day.js: 31o
DDDD arrow: 365 pendulum: 365 Moment: 365 Day.js: 3131
X
diff "$work/expected" "$work/out" || changed "see the lines above"
