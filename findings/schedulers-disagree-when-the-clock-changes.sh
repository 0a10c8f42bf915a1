#!/usr/bin/env bash
# Guess: a time that the clock jumps over runs right after the jump, or is left out, by all schedulers alike;
# a time that comes twice runs once; "every half hour" is every half hour.
# Seen: four schedulers, four answers. systemd (as systemd-analyze reckons) leaves out a day whose time was
# jumped over, also plain `daily` where the clock changes at midnight (Beirut, Santiago), and in autumn its
# *:0/30 passes over the second 02:00 and 02:30: 90 minutes of silence. cronsim and croniter run at the
# first minute after the jump; of 02:30 in autumn cronsim makes one run, croniter and apscheduler two.
# apscheduler leaves out the midnight that is not there, but runs a 02:30 that is not there, and names it by
# a wall time that no clock shows (02:30+01:00).
# Why it matters: a daily reflection is missed, or written twice into one file, twice a year, and differently
# under a timer of systemd than in the daemon. Key a daily run by its date, not its time, and ask at
# each start whether today's was done.
source "$(dirname "$0")/support/common.sh"
need systemd-analyze
systemctl --version | head -n 1
python_packages cronsim==2.8 croniter==7.0.0 apscheduler==3.11.3 tzdata==2026.3

cat >"$work/run.py" <<'X'
import os, re, subprocess
from datetime import datetime
from zoneinfo import ZoneInfo
from apscheduler.triggers.cron import CronTrigger
from croniter import croniter
from cronsim import CronSim

CASES = [  # what, zone, start, cron, OnCalendar, how many
    ("jumped over", "Europe/Berlin", "2027-03-27 12:00", "30 2 * * *", "*-*-* 02:30:00", 1),
    ("comes twice", "Europe/Berlin", "2026-10-24 12:00", "30 2 * * *", "*-*-* 02:30:00", 2),
    ("half hours in autumn", "Europe/Berlin", "2026-10-25 01:31", "*/30 * * * *", "*:0/30", 3),
    ("midnight jumped over", "Asia/Beirut", "2026-03-28 12:00", "0 0 * * *", "daily", 1),
    ("midnight jumped over", "America/Santiago", "2026-09-05 12:00", "0 0 * * *", "daily", 1),
]

def systemd(zone, start, calendar, count):
    # The times in UTC, since a wall time that comes twice says nothing.
    out = subprocess.run(["systemd-analyze", "calendar", f"--base-time={start}", f"--iterations={count}", calendar],
                         env={**os.environ, "TZ": zone, "LC_ALL": "C"}, capture_output=True, text=True, check=True).stdout
    utc = re.findall(r"\(in UTC\): \w+ (\S+ \S+) UTC", out)
    return [datetime.fromisoformat(text + "+00:00").astimezone(ZoneInfo(zone)) for text in utc]

def apscheduler(zone, start, cron, count):
    trigger, last, times = CronTrigger.from_crontab(cron, timezone=zone), None, []
    for _ in range(count):
        last = trigger.get_next_fire_time(last, last or start)
        times.append(last)
    return times

for what, name, text, cron, calendar, count in CASES:
    zone = ZoneInfo(name)
    start = datetime.fromisoformat(text).replace(tzinfo=zone)
    simulated, iterated = CronSim(cron, start), croniter(cron, start, ret_type=datetime)
    for scheduler, times in (
        ("systemd", systemd(name, text, calendar, count)),
        ("cronsim", [next(simulated) for _ in range(count)]),
        ("croniter", [iterated.get_next() for _ in range(count)]),
        ("apscheduler", apscheduler(name, start, cron, count)),
    ):
        print(f"{what}, {name}: {scheduler}:", ", ".join(time.strftime("%d %H:%M%z") for time in times))
X
"$python" "$work/run.py" | tee "$work/out"
cat >"$work/expected" <<'X'
jumped over, Europe/Berlin: systemd: 29 02:30+0200
jumped over, Europe/Berlin: cronsim: 28 03:00+0200
jumped over, Europe/Berlin: croniter: 28 03:00+0200
jumped over, Europe/Berlin: apscheduler: 28 02:30+0100
comes twice, Europe/Berlin: systemd: 25 02:30+0200, 26 02:30+0100
comes twice, Europe/Berlin: cronsim: 25 02:30+0200, 26 02:30+0100
comes twice, Europe/Berlin: croniter: 25 02:30+0200, 25 02:30+0100
comes twice, Europe/Berlin: apscheduler: 25 02:30+0200, 25 02:30+0100
half hours in autumn, Europe/Berlin: systemd: 25 02:00+0200, 25 02:30+0200, 25 03:00+0100
half hours in autumn, Europe/Berlin: cronsim: 25 02:00+0200, 25 02:30+0200, 25 02:00+0100
half hours in autumn, Europe/Berlin: croniter: 25 02:00+0200, 25 02:30+0200, 25 02:00+0100
half hours in autumn, Europe/Berlin: apscheduler: 25 02:00+0200, 25 02:30+0200, 25 02:00+0100
midnight jumped over, Asia/Beirut: systemd: 30 00:00+0300
midnight jumped over, Asia/Beirut: cronsim: 29 01:00+0300
midnight jumped over, Asia/Beirut: croniter: 29 01:00+0300
midnight jumped over, Asia/Beirut: apscheduler: 30 00:00+0300
midnight jumped over, America/Santiago: systemd: 07 00:00-0300
midnight jumped over, America/Santiago: cronsim: 06 01:00-0300
midnight jumped over, America/Santiago: croniter: 06 01:00-0300
midnight jumped over, America/Santiago: apscheduler: 07 00:00-0300
X
diff "$work/expected" "$work/out" || changed "see the lines above"
