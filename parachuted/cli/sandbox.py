"""Sandbox commands: build and doctor ask the Docker engine themselves and need no daemon."""

from __future__ import annotations

import json
import os
import sys
import tempfile
from argparse import Namespace
from collections.abc import Awaitable, Callable
from contextlib import aclosing
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from parachuted.cli.agents import network_of, shell_of
from parachuted.cli.client import ask, quoted
from parachuted.cli.commands import JSON, Command, Json, Steps, command, verb
from parachuted.cli.show import count, escape, say, say_each, say_json, say_text
from parachuted.errors import ParachuteError

if TYPE_CHECKING:
    from parachuted.agents.sandbox import Sandboxes


SANDBOX = Command(
    "sandbox",
    "where agents with a shell run",
    "Agents with a shell run in containers, which Docker makes. These commands need no daemon.",
)


@command("sandbox build", "make their image")
def sandbox_build(options: Namespace) -> int:
    """Make the image that agents with a shell run in.

    --offline  of this machine's own programs, mounted read only; needs no network
    """

    async def build(sandboxes: Sandboxes) -> int:
        async with aclosing(sandboxes.build(offline=options.offline)) as lines:
            async for line in lines:
                sys.stdout.write(f"{escape(line)}\n")
                sys.stdout.flush()
        say("The image is there. `parachute sandbox doctor` tries it.")
        return 0

    return _with_sandboxes(build)


@command("sandbox doctor", "check what they need", JSON)
def sandbox_doctor(options: Namespace) -> int:
    """Check everything that sandboxes need, and say what to do. Exits with 1 when something is
    wrong.
    """
    from parachuted.agents.sandbox.doctor import examine

    async def look(sandboxes: Sandboxes) -> int:
        checks = []
        async for check in examine(sandboxes):
            checks.append(check)
            if not options.json:
                say(f"{'ok' if check.is_well else 'NOT WELL':<10}{check.part:<20}{check.says}")
        is_well = all(check.is_well for check in checks)
        if options.json:
            say_json({"is_well": is_well, "checks": [asdict(check) for check in checks]})
        elif is_well:
            say("Agents with a shell can run here.")
            _say_daemon()
        else:
            say("Agents with a shell do not run here; those that use our own tools alone do.")
        return int(not is_well)

    return _with_sandboxes(look)


def _say_daemon() -> None:
    """Say where a daemon sees less than this shell, started with another DOCKER_HOST perhaps."""
    try:
        problem = ask("GET /api/sandbox")["problem"]
    except ParachuteError:  # none runs, or it does not answer, which `parachute doctor` is for
        return
    if problem is not None:
        say(f"note      not with the daemon that runs: {problem}")
        where = "where its own DOCKER_HOST says"
        say(f"          It looks {where}; `parachute restart` from here gives it yours.")


def _with_sandboxes(act: Callable[[Sandboxes], Awaitable[int]]) -> int:
    import asyncio

    from parachuted.agents.sandbox import Sandboxes

    async def main() -> int:
        with tempfile.TemporaryDirectory(prefix="parachute-") as folder:
            label = f"command-{os.getpid()}"
            sandboxes = Sandboxes(folder=Path(folder), env=os.environ, label=label)
            try:
                return await act(sandboxes)
            finally:
                await sandboxes.close()

    return asyncio.run(main())


@verb("sandbox explain", "what an agent could do")
def sandbox_explain(options: Namespace) -> Steps:
    """Say exactly what an agent could see and do if it ran now, and whether it would. Exits with 1
    when it would not.

    agent  as `parachute agents list` names it
    --folder FOLDER  the folder of the vault that it would work in
    """
    folder = f"&working_directory={quoted(options.folder)}" if options.folder else ""
    answer = ask(f"GET /api/sandbox/explain?agent={quoted(options.agent)}{folder}")
    yield answer, not answer["runs_here"]
    agent, files = answer["agent"], answer["files"]
    say(f"{agent['name']}: {agent['description']}")
    problem = f": {answer['problem']}" if answer["problem"] else ""
    say(f"runs here  {'yes' if answer['runs_here'] else 'no'}{problem}")
    say(f"begins     {answer['begins']}")
    _say_files("reads", files["reads"], files["first"])
    _say_files("writes", files["writes"], files["first_writes"])
    strangers = f"{count(files['strangers'], 'file')} of those that it reads"
    say(f"strangers  {strangers}; after one of them: {answer['after_strangers_text']}")
    say(f"left out   {count(files['left_out'], 'file')} of the vault")
    say_each(f"           a copy of {path}, to read" for path in agent["permissions"]["outside"])
    say(f"tools      {', '.join(agent['tools'])}")
    say(f"shell      {shell_of(agent)}")
    say(f"network    {network_of(agent)}")
    say(f"limits     {_limits(agent['constraints'])}")
    say(f"never      {'; '.join(answer['always_refused'])}")
    if answer["container"] is None:
        say("container  none: its tools run in the daemon, which checks each call")
    else:
        say("container")
        say_text(json.dumps(answer["container"], indent=2, sort_keys=True))


def _say_files(what: str, number: int, first: list[str]) -> None:
    say(f"{what:10} {count(number, 'file')}{':' if first else ''}")
    say_each(f"           {path}" for path in first)
    if number > len(first):
        say(f"           and {number - len(first)} more")


def _limits(bounds: Json) -> str:
    limits = []
    if bounds["timeout_s"] is not None:
        turns = f"{bounds['max_turns']} turns, ${bounds['max_cost_usd']:g}"
        limits.append(f"{bounds['timeout_s']:g} s, {turns}")
    if bounds["needs_container"]:
        processors = f"{bounds['cpus']:g} processor{'' if bounds['cpus'] == 1 else 's'}"
        processes = f"{bounds['pids_limit']} processes"
        limits.append(f"{bounds['memory']} of memory, {processors}, {processes}")
    return "; ".join(limits) or "those of every run"
