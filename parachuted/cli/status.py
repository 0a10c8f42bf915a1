"""Status: how the daemon is. It is asked often, so it imports little."""

from __future__ import annotations

from parachuted import __version__
from parachuted.cli.client import ask, daemon_record
from parachuted.cli.show import count, say, say_json


def tell_status(*, as_json: bool) -> None:
    """Print it. Raises NoDaemonError when there is none."""
    health = ask("GET /api/health?detailed=true")
    if as_json:
        say_json(health)
        return
    vault, agent, tasks, budget = map(health.get, ("vault", "agent", "tasks", "budget"))
    record = daemon_record()
    where = f"pid {health['pid']}, http://{record['host']}:{record['port']}"
    up = _span(health["uptime"])
    say(f"parachuted {health['version']} is {health['status']}: {where}, up {up}")
    if health["version"] != __version__:
        say(f"version  this command is {__version__}; `parachute restart` starts that one")
    holds = f"{count(vault['files'], 'file')}, {count(vault['watchers'], 'watcher')}"
    say(f"vault    {vault['path']}: {holds}, noticed by {vault['watched_by']}")
    paused = " - PAUSED, `parachute resume` goes on" if agent["paused"] else ""
    say(f"agent    {agent['reason']}{paused}")
    say(f"tasks    {tasks['queued']} waiting, {tasks['running']} being worked on")
    hour = f"{budget['runs_last_hour']} of {budget['runs_per_hour']} runs this hour"
    say(f"budget   {hour}, {budget['runs_last_day']} of {budget['runs_per_day']} this day")
    for waiting in health["waiting"]:
        say(f"waits    {waiting['watcher']}: {waiting['reason']}")
    for behind in health["freshness"]["behind"]:
        rest = "what it has not seen is part of its next task (`parachute watches`)"
        say(f"behind   {behind} has not seen all it watches; {rest}")
    for subject, problem in health["problems"].items():
        say(f"problem  {subject}: {problem}")


def _span(seconds: float) -> str:
    hours, rest = divmod(int(seconds), 3600)
    return f"{hours} h {rest // 60} min" if hours else f"{rest // 60} min {rest % 60} s"
