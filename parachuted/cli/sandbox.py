"""Sandbox commands: build, doctor.

They ask the Docker engine themselves, so no daemon needs to run.
"""

from __future__ import annotations

import os
import sys
import tempfile
from argparse import Namespace
from collections.abc import Awaitable, Callable
from contextlib import aclosing
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from parachuted.cli.agents import sandbox_explain
from parachuted.cli.client import ask
from parachuted.cli.commands import Commands, add_command, add_json
from parachuted.cli.show import escape, say, say_json
from parachuted.errors import ParachuteError

if TYPE_CHECKING:
    from parachuted.agents.sandbox import Sandboxes


def add_parsers(commands: Commands) -> None:
    """Add these commands to the parser."""
    about = (
        "Agents with a shell run in containers, which Docker makes. These commands need no daemon."
    )
    parts = add_command(
        commands, "sandbox", None, "where agents with a shell run", about
    ).add_subparsers(metavar="COMMAND")
    build = add_command(
        parts,
        "build",
        sandbox_build,
        "make their image",
        "Make the image that agents with a shell run in.",
    )
    build.add_argument(
        "--offline",
        action="store_true",
        help="of this machine's own programs, mounted read only; needs no network",
    )
    doctor = add_command(
        parts,
        "doctor",
        sandbox_doctor,
        "check what they need",
        "Check everything that sandboxes need, and say what to do.",
    )
    add_json(doctor)
    says = "Say exactly what an agent could see and do if it ran now, and whether it would."
    explain = add_command(parts, "explain", sandbox_explain, "what an agent could do", says)
    explain.add_argument("agent", metavar="AGENT", help="as `parachute agents list` names it")
    explain.add_argument(
        "--folder", metavar="FOLDER", help="the folder of the vault that it would work in"
    )
    add_json(explain)


def sandbox_build(options: Namespace) -> int:
    """`parachute sandbox build [--offline]`. Raises AgentUnavailableError."""

    async def build(sandboxes: Sandboxes) -> int:
        async with aclosing(sandboxes.build(offline=options.offline)) as lines:
            async for line in lines:
                sys.stdout.write(f"{escape(line)}\n")
                sys.stdout.flush()
        say("The image is there. `parachute sandbox doctor` tries it.")
        return 0

    return _with_sandboxes(build)


def sandbox_doctor(options: Namespace) -> int:
    """`parachute sandbox doctor`; 1 when something is not well."""
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
            _tell_of_daemon()
        else:
            say("Agents with a shell do not run here; those that use our own tools alone do.")
        return int(not is_well)

    return _with_sandboxes(look)


def _tell_of_daemon() -> None:
    """Where a daemon runs that sees less than this shell, begun with another DOCKER_HOST perhaps,
    its agents do not run: say so.
    """
    try:
        problem = ask("GET", "/api/sandbox")["problem"]
    except ParachuteError:  # none runs, or it does not answer, which `parachute doctor` is for
        return
    if problem is not None:
        say(f"note      not with the daemon that runs: {problem}")
        say(
            "          It looks where its own DOCKER_HOST says; `parachute restart` from here "
            "gives it yours."
        )


def _with_sandboxes(act: Callable[[Sandboxes], Awaitable[int]]) -> int:
    import asyncio

    from parachuted.agents.sandbox import Sandboxes

    async def main() -> int:
        with tempfile.TemporaryDirectory(prefix="parachute-") as folder:
            sandboxes = Sandboxes(
                folder=Path(folder), env=os.environ, label=f"command-{os.getpid()}", is_pooled=False
            )
            try:
                return await act(sandboxes)
            finally:
                await sandboxes.close()

    return asyncio.run(main())
