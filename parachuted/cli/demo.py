"""Demo: the whole loop in a temporary vault, as a person would live it."""

from __future__ import annotations

import json
import os
import queue
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
from argparse import Namespace
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from parachuted.bundled import bundled_folder
from parachuted.cli.client import ask
from parachuted.cli.commands import Commands, add_command
from parachuted.cli.show import say, say_diff
from parachuted.errors import DaemonError
from parachuted.presence import running_daemon

_PATIENCE_S = 20.0
_OLD = "- Start the tomatoes indoors."
_NEW = "- Plant the tomatoes out: the frost is over."


def add_parsers(commands: Commands) -> None:
    """Add these commands to the parser."""
    demo_parser = add_command(
        commands,
        "demo",
        demo,
        "see it work, in ten seconds",
        "Run the whole loop in a temporary vault: change, run, diff, why, undo.",
    )
    demo_parser.add_argument(
        "--keep", action="store_true", help="keep the demo's vault, and say where it is"
    )


def demo(options: Namespace) -> int:
    """`parachute demo`."""
    folder = Path(tempfile.mkdtemp(prefix="parachute-demo-"))
    try:
        _run(folder / "Parachute", folder / "home")
    finally:
        if options.keep:
            say(f"\nThe demo's vault is kept in {folder / 'Parachute'}.")
        else:
            shutil.rmtree(folder, ignore_errors=True)
    return 0


def _run(vault: Path, home: Path) -> None:
    shutil.copytree(bundled_folder("vault-template"), vault)
    os.environ["PARACHUTE_HOME"] = os.fspath(home)
    note = vault / "Projects" / "garden" / "AGENTS.md"
    say(
        f"A vault in {vault}. Its AGENTS.md says in its frontmatter that it watches Projects/* "
        "and Areas/*."
    )
    with _daemon(vault, home) as record, _events(record) as events:
        say("The daemon watches; the agent is the offline one: no model, no account, no cost.\n")
        _show_plan()
        say(
            f"\n1. You edit Projects/garden/AGENTS.md, as an editor would: {_OLD[2:]!r} becomes "
            f"{_NEW[2:]!r}"
        )
        _save(note, note.read_text("utf-8").replace(_OLD, _NEW))
        change = events.wait("file.modified")
        say(f"2. noticed    {change['path']} was changed by a {change['by']}")
        task = events.wait("task.queued")
        say(f"3. queued     {task['watcher']} watches {', '.join(task['paths'])}")
        run = events.wait("run.finished")
        say(f"4. run        {run['run']}: {run['outcome']}, {run['reason']}\n")
        _show_run(run["run"])
        _show_why(vault, run["run"])
        undone = ask("POST", f"/api/runs/{run['run']}/undo", {})
        say(
            f"\n6. undo       {len(undone['runs'])} run taken back; AGENTS.md is as it was, your "
            "edit of the garden stays."
        )
    say(
        "\nThat is the whole loop. Now with notes of your own: `parachute init`, `parachute "
        "start`, then edit something that is watched."
    )


def _show_plan() -> None:
    plan = ask("POST", "/api/bubble/plan", {"path": "Projects/garden/AGENTS.md"})
    woken = ", ".join(run["watcher"] for run in plan["runs"])
    say("$ parachute bubble plan Projects/garden/AGENTS.md")
    say(f"  at most {plan['most_runs']} run ({woken}), at most ${plan['most_cost_usd']:.2f}")


def _show_run(run: str) -> None:
    for wrote in ask("GET", f"/api/runs/{run}")["wrote"]:
        say_diff(wrote["diff"])


def _show_why(vault: Path, run: str) -> None:
    lines = (vault / "AGENTS.md").read_text("utf-8").splitlines()
    number = next((number for number, line in enumerate(lines, 1) if "frost" in line), 1)
    origin = ask("GET", f"/api/why?path=AGENTS.md&line={number}")
    document = origin["runs"].get(run)
    say(f"\n5. why        $ parachute why AGENTS.md:{number}")
    say(f"  {lines[number - 1].strip()}")
    if document is not None:
        cause = document["causes"][0]
        say(
            f"  by {document['agent']} ({document['backend']}) in {run}, started by your change "
            f"of {cause['path']}"
        )


def _save(path: Path, text: str) -> None:
    temporary = path.with_name(f".{path.name}.swp")
    temporary.write_text(text, "utf-8")
    temporary.replace(path)


@contextmanager
def _daemon(vault: Path, home: Path) -> Iterator[dict[str, object]]:
    environment = {
        **{key: value for key, value in os.environ.items() if not key.startswith("PARACHUTE_")},
        "PARACHUTE_HOME": os.fspath(home),
        "PARACHUTE_AGENT_BACKEND": "offline",
        "PARACHUTE_BUBBLE_QUIET_S": "1",
    }
    command = [
        sys.executable,
        "-P",
        "-m",
        "parachuted",
        "start",
        "--foreground",
        "--vault",
        os.fspath(vault),
        "--port",
        "0",
    ]
    process = subprocess.Popen(  # noqa: S603  our own program
        command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
    )
    try:
        yield _wait_for_daemon(home, process)
    finally:
        process.terminate()
        try:
            process.wait(_PATIENCE_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _wait_for_daemon(home: Path, process: subprocess.Popen[bytes]) -> dict[str, object]:
    deadline = time.monotonic() + _PATIENCE_S
    while time.monotonic() < deadline:
        record = running_daemon(os.fspath(home))
        if record is not None:
            return record
        if process.poll() is not None:
            break
        time.sleep(0.02)
    said = process.communicate()[1].decode("utf-8", "replace").strip()
    raise DaemonError(f"the demo's daemon did not start: {said or 'it said nothing'}")


class _Events:
    """The daemon's events, read by a thread from a raw socket."""

    def __init__(self, connection: socket.socket) -> None:
        self._arrived: queue.Queue[dict[str, Any]] = queue.Queue()
        threading.Thread(target=self._read, args=(connection,), daemon=True).start()

    def wait(self, event: str) -> Any:  # noqa: ANN401  JSON
        """The data of the next such event."""
        deadline = time.monotonic() + _PATIENCE_S
        while True:
            try:
                happened = self._arrived.get(timeout=max(0.0, deadline - time.monotonic()))
            except queue.Empty:
                raise DaemonError(f"the demo waited in vain for {event}") from None
            if happened["event"] == event:
                return happened["data"]

    def _read(self, connection: socket.socket) -> None:
        with connection.makefile("rb") as lines:
            for line in lines:
                if line.startswith(b'data: {"event"'):
                    self._arrived.put(json.loads(line[6:]))


@contextmanager
def _events(record: dict[str, object]) -> Iterator[_Events]:
    address = (str(record["host"]), int(str(record["port"])))
    with socket.create_connection(address) as connection:
        connection.sendall(
            f"GET /api/events HTTP/1.1\r\nHost: {address[0]}:{address[1]}\r\n\r\n".encode()
        )
        yield _Events(connection)
        connection.shutdown(socket.SHUT_RDWR)
