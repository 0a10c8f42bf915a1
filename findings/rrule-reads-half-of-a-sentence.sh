#!/usr/bin/env bash
# Guess: RRule.fromText, with which task plugins read "every ..." behind a task, reads a sentence whole or raises; and a rule
# that toText can say comes back from fromText as the same rule.
# Seen: it raises for some sentences and drops the end of others in silence. "every weekend" is every week, "every day on Sunday"
#   every day, "every year on April 15th" every April without the day (the other order, "every April on the 15th", has it), "every
#   2 weekdays" a fortnight's weekdays. Back from text, the first Monday of a month (BYSETPOS) becomes every Monday of it, a
#   ten o'clock rule loses its minutes, and the start of the week is gone; isFullyConvertibleToText
#   answers true for all three.
# Why it matters: a task that is done "every weekend" comes back on the weekday on which it was ticked. Read the text, say the rule
#   in words again, and show it where the two differ; store the rule, not its words.
source "$(dirname "$0")/support/common.sh"
node_packages rrule@2.8.1

cat >"$work/node/run.cjs" <<'X'
const { RRule } = require('rrule');
const tried = (call) => { try { return call(); } catch (error) { return `raises: ${error.message}`; } };
for (const text of ['every weekday', 'every weekend', 'every day on Sunday', 'every April on the 15th', 'every year on April 15th',
  'every 2 weekdays', 'every week starting tomorrow', 'every two weeks', 'every other day'])
  console.log(`${text}: ${tried(() => { const rule = RRule.fromText(text); return `${rule} = ${rule.toText()}`; })}`);
for (const line of ['FREQ=MONTHLY;BYDAY=MO;BYSETPOS=1', 'FREQ=DAILY;BYHOUR=10;BYMINUTE=30', 'FREQ=WEEKLY;INTERVAL=2;WKST=SU;BYDAY=SU']) {
  const rule = RRule.fromString(line);
  console.log(`${line}: ${rule.toText()} = ${tried(() => RRule.fromText(rule.toText()))} (convertible: ${rule.isFullyConvertibleToText()})`);
}
X
(cd "$work/node" && node run.cjs) | tee "$work/out"
cat >"$work/expected" <<'X'
every weekday: RRULE:FREQ=WEEKLY;BYDAY=MO,TU,WE,TH,FR = every weekday
every weekend: RRULE:FREQ=WEEKLY = every week
every day on Sunday: RRULE:FREQ=DAILY = every day
every April on the 15th: RRULE:FREQ=YEARLY;BYMONTH=4;BYMONTHDAY=15 = every April on the 15th
every year on April 15th: RRULE:FREQ=YEARLY;BYMONTH=4 = every April
every 2 weekdays: RRULE:INTERVAL=2;FREQ=WEEKLY;BYDAY=MO,TU,WE,TH,FR = every 2 weeks on weekdays
every week starting tomorrow: RRULE:FREQ=WEEKLY = every week
every two weeks: raises: Unknown symbol
every other day: raises: Unexpected end
FREQ=MONTHLY;BYDAY=MO;BYSETPOS=1: every month on Monday = RRULE:FREQ=MONTHLY;BYDAY=MO (convertible: true)
FREQ=DAILY;BYHOUR=10;BYMINUTE=30: every day at 10 = RRULE:FREQ=DAILY;BYHOUR=10 (convertible: true)
FREQ=WEEKLY;INTERVAL=2;WKST=SU;BYDAY=SU: every 2 weeks on Sunday = RRULE:INTERVAL=2;FREQ=WEEKLY;BYDAY=SU (convertible: true)
X
diff "$work/expected" "$work/out" || changed "see the lines above"
