"""Agents: which there are, what they may do and cost, how they are run and stopped, and where those
with a shell run.
"""

from __future__ import annotations

import os
import sys
import tempfile
import threading
from argparse import Namespace
from collections.abc import Awaitable, Callable
from contextlib import aclosing
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from parachuted.cli.client import ask, quoted
from parachuted.cli.commands import JSON, Columns, Command, Json, Steps, command, verb
from parachuted.cli.show import (
    count,
    escape,
    lines_of,
    say,
    say_each,
    say_json,
    say_lines,
    say_table,
    when,
)
from parachuted.errors import ParachuteError
from parachuted.texts import visible
from parachuted.texts.visible import fact, one_line, quoted_lines

if TYPE_CHECKING:
    from parachuted.agents.sandbox import Sandboxes

_LONGEST_S = 6 * 60 * 60.0  # the daemon ends a run by its own limits, long before
_MOST, _MOST_SHOWN = 2_000, 10_000  # characters of a stranger's on one line
_LOOK_S = 3.0  # each look is a line of the audit
_WANTS = {"bash": "run", "network": "reach", "trusted": "begin as"}
_SESSION = "--session ID  continue an earlier conversation"
_ID = "id  as `parachute permissions list` names it"
_ROWS = 8
_WINDOWS = {"5h": "the five hours", "7d": "the week"}

AGENTS = Command(
    "agents",
    "what agents may do",
    "All agents, what each may do, and which of them a stranger's text could misuse.",
)


@verb("agents list", "all agents")
def agents_list(_options: Namespace) -> Steps:
    """List the agents, and whether each can run here."""
    answer = yield ask("GET /api/agents")
    columns: Columns = {
        "AGENT": "name",
        "SHELL": lambda agent: shell_of(agent) if agent["permissions"] else "-",
        "NETWORK": lambda agent: network_of(agent) if agent["permissions"] else "-",
        "RUNS HERE": "runs_here",
        "WHAT IT IS": "description",
    }
    say_table(answer["agents"], columns, nothing="No agents.")
    for agent in answer["agents"]:
        if agent["problem"]:
            label = "note" if agent["runs_here"] else "problem"
            say(f"{label:8} {agent['name']}: {agent['problem']}")


@verb("agents trust", "trust a note")
def agents_trust(options: Namespace) -> Steps:
    """Take `origin` out of a note that holds strangers' text, once you have read it.

    file  a note, by its path in the vault
    """
    answer = yield ask("POST /api/agents/trust", {"path": options.file})
    if answer["before"] == "you":
        say(f"{answer['path']} was trusted already.")
    else:
        say(f"{answer['path']} is trusted now; its `origin` said {answer['before']}.")


@verb("agents run", "ask one", _SESSION)
def agents_run(options: Namespace) -> Steps:
    """Let an agent answer, and show what it did; `undo` takes it back.

    agent  as `parachute agents list` names it
    prompt+  the question; - is stdin
    --folder FOLDER  the folder of the vault to work in
    """
    folder = {} if options.folder is None else {"working_directory": options.folder}
    path = f"/api/agents/{quoted(options.agent, b'/')}/run"
    _say_ran((yield _ask_agent(f"POST {path}", options, **folder)), options.session)


@verb("stop-agents", "stop all agents at once")
def stop_agents(options: Namespace) -> Steps:
    """Stop every running agent, and start none until `resume`. What a curator was doing is
    undone, and done again then.

    --go-on  stop them, but let new runs start
    """
    answer = yield ask("POST /api/agents/stop", {"pause": not options.go_on})
    names = ": " + ", ".join(answer["stopped"]) if answer["stopped"] else ""
    say(f"Ended: {count(len(answer['stopped']), 'run')}{names}.")
    if answer["paused"]:
        say("No run begins until `parachute resume`; what was being done is done again then.")


@verb("maintenance", "ask the maintenance agent", _SESSION)
def maintenance(options: Namespace) -> Steps:
    """Ask an agent what is wrong with the installation, and let it repair notes in Chat/,
    Daily/ and Brain/. It has no network.

    prompt+  what to look after, such as 'why is search slow?'; - is stdin
    """
    if not options.json:
        say("Starting the maintenance agent: this machine only, no network.")
    _say_ran((yield _ask_agent("POST /api/maintenance", options)), options.session)


def _ask_agent(request: str, options: Namespace, **more: str) -> Json:
    prompt = sys.stdin.read() if options.prompt == ["-"] else " ".join(options.prompt)
    if not prompt.strip():
        raise ParachuteError("there is nothing to ask: give the prompt as words, or - for stdin")
    body: dict[str, object] = {"prompt": prompt, "entry": "cli", **more}
    if options.session is not None:
        body["session"] = options.session
    over = threading.Event()
    watching = threading.Thread(target=_show_questions, args=(over,), daemon=True)
    watching.start()
    try:
        return ask(request, body, timeout_s=_LONGEST_S)
    finally:
        over.set()
        watching.join()


def _say_ran(ran: Json, session: str | None) -> None:
    if session is not None and ran["session"] not in {None, session}:
        say(f"note     the session {session} is not known here any more; a new one was started")
    if ran["warning"]:
        say(f"note     {one_line(ran['warning'], _MOST)}")
    for step in filter(lambda step: step["called"], ran["steps"]):
        refused = ": refused" if step["error"] else ""
        why = f", {step['why']}" if step["why"] else ""
        say(f"did      {one_line(step['called'] + refused + why, _MOST)}")
    say_lines(quoted_lines(ran["words"], sys.maxsize))
    say_each(f"wrote    {one_line(path, _MOST)}" for path in ran["wrote"])
    for name in ran["suggested"]:
        say(f"suggests {name}; `parachute suggestions show {name}` shows it")
    say(f"run      {ran['run']}: {ran['outcome']}, ${ran['cost_usd']:.4f}")
    if ran["wrote"]:
        say(f"take it back with: parachute undo {ran['run']}")
    if ran["session"]:
        say(f"go on with: --session {ran['session']}")


def _show_questions(over: threading.Event) -> None:
    seen: set[str] = set()
    while not over.wait(_LOOK_S):
        try:
            waiting = ask("GET /api/permissions", timeout_s=_LOOK_S)["permissions"]
        except ParachuteError:  # the run's own call tells what is wrong
            continue
        for asked in waiting:
            if asked["id"] not in seen:
                seen.add(asked["id"])
                wants = f"wants to {_WANTS.get(asked['kind'], asked['kind'])} {asked['what']}"
                how = f"`parachute permissions allow {asked['id']}`, or `deny`, in another terminal"
                line = f"{wants}, and waits until {when(asked['until'])} UTC: {how}"
                sys.stderr.write(f"asks     {escape(asked['agent'])} {escape(line)}\n")
                sys.stderr.flush()


def shell_of(agent: Json) -> str:
    bash = agent["permissions"]["bash"]
    return "any command" if bash is True else ", ".join(bash) if bash else "no"


def network_of(agent: Json) -> str:
    network = agent["permissions"]["network"]
    named = {"none": "no", "bridge": "any public host"}
    return named[network] if isinstance(network, str) else ", ".join(network)


PERMISSIONS = Command(
    "permissions",
    "what agents ask you for",
    "What agents ask for while they work, beyond what they were granted. Unanswered requests are "
    "denied.",
)


@verb("permissions list", "those that wait")
def permissions_list(_options: Namespace) -> Steps:
    """List what agents ask for."""
    answer = yield ask("GET /api/permissions")
    for asked in answer["permissions"]:
        say_lines(
            (
                fact("question", f"{asked['id']}, until {when(asked['until'])} UTC"),
                visible.quoted("agent", asked["agent"]),
                fact("wants", str(asked["kind"])),
                visible.quoted("which", asked["what"], _MOST_SHOWN),
                visible.quoted("says", asked["why"]),
            )
        )
    if not answer["permissions"]:
        how = "`parachute permissions allow ID` or `deny ID`"
        say(f"No agent asks for anything. One that does waits a minute for {how}.")


def _answer(options: Namespace, answer: str, what: str) -> Steps:
    asked = yield ask(f"POST /api/permissions/{quoted(options.id)}", {"answer": answer})
    wish = f"{asked['kind']} {one_line(asked['what'], _MOST_SHOWN)}"
    say(f"{one_line(asked['agent'])}: {wish} {what}.")


@verb("permissions allow", "say yes", _ID)
def permissions_allow(options: Namespace) -> Steps:
    """Allow what an agent asks for, this once.

    --session  for as long as the agent's session lasts
    """
    if options.session:
        return _answer(options, "session", "is allowed for as long as its session lasts")
    return _answer(options, "once", "is allowed once")


@verb("permissions deny", "say no", _ID)
def permissions_deny(options: Namespace) -> Steps:
    """Deny what an agent asks for; it is not asked again while the agent's session lasts."""
    return _answer(options, "deny", "is denied for as long as its session lasts")


@verb("usage", "what the model cost")
def usage(options: Namespace) -> Steps:
    """Show what the model cost: by day, agent, model, change and run, and what may still be
    spent.

    --days N=7..90  over how many days, today among them (default: 7, at most 90)
    """
    answer = yield ask(f"GET /api/usage?days={options.days}")
    spent = answer["spent"]
    if spent is None or not spent["total"]["requests"]:
        say("The model was not asked; nothing was spent.")
    else:
        _say_spent(spent)
    if spent is not None:
        _say_limits(spent)
    for name, window in answer["windows"].items():
        until = f", until {when(window['resets_at'])} UTC" if window["resets_at"] else ""
        of = _WINDOWS.get(name, f"the window {name}")
        say(f"account  {window['utilization']:g} % of {of} used{until}")


def _say_spent(spent: Json) -> None:
    total = spent["total"]
    tokens_in = total["input_tokens"] + total["cache_read_tokens"] + total["cache_written_tokens"]
    requests = count(total["requests"], "request")
    tokens = f"{tokens_in} tokens in, {total['output_tokens']} out"
    say(f"${total['usd']:.4f} since {spent['since'][:10]}: {requests}, {tokens}")
    columns: Columns = {
        "COST": lambda row: f"${row['usd']:.4f}",
        "REQUESTS": "requests",
        "IN": lambda row: row["input_tokens"] + row["cache_written_tokens"],
        "FROM CACHE": "cache_read_tokens",
        "OUT": "output_tokens",
    }
    for head in ("DAY", "AGENT", "MODEL", "CAUSE", "RUN"):
        rows = spent[f"{head.lower()}s"]
        if rows:
            say()
            say_table(rows[: None if head == "DAY" else _ROWS], {head: "name", **columns})
    say_each(f"note     {note}" for note in spent["notes"])
    say()


def _say_limits(spent: Json) -> None:
    limits = spent["limits"]
    hour = f"${spent['usd_last_hour']:.4f} of ${limits['usd_per_hour']:g} in the last hour"
    day = f"${spent['usd_last_day']:.4f} of ${limits['usd_per_day']:g} in the last 24 hours"
    most, of_talks = limits["conversations_usd_per_day"], limits["usd_per_session"]
    talked = f"${spent['usd_last_day_conversations']:.4f} of ${most:g} for conversations"
    run = f"${limits['usd_per_run']:g} a run, " if limits["usd_per_run"] else ""
    say(f"limits   {hour}, {day}")
    say(f"         {talked} in the last 24 hours, ${of_talks:g} for one of them")
    say(f"         {run}${limits['usd_per_cause']:g} for all that one change leads to")


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

    async def look(sandboxes: Sandboxes) -> int:
        status = await sandboxes.status()
        if options.json:
            say_json(asdict(status))
        elif status.available:
            say(f"Agents with a shell can run here (Docker {status.engine}).")
            _say_daemon()
        else:
            say(f"NOT WELL  {status.problem}")
            say("Agents with a shell do not run here; those that use our own tools alone do.")
        return int(not status.available)

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
    yield answer, not answer["agent"]["runs_here"]
    say_lines(lines_of(answer))
