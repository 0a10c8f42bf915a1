"""Agents commands: list, audit, trust, and sandbox explain. The running daemon answers them."""

from __future__ import annotations

import json
from argparse import Namespace
from typing import Any
from urllib.parse import quote, urlencode

from parachuted.cli.agent_runs import agents_run
from parachuted.cli.client import ask
from parachuted.cli.commands import Commands, add_command, add_json
from parachuted.cli.show import count, say, say_json, say_table

_NONE = "No agents."


def add_parsers(commands: Commands) -> None:
    """Add these commands to the parser."""
    about = "All agents, what each may do, and which of them a stranger's text could misuse."
    parts = add_command(
        commands, "agents", None, "all agents, and what they may do", about
    ).add_subparsers(metavar="COMMAND")
    add_json(
        add_command(
            parts,
            "list",
            agents_list,
            "all agents",
            "List the agents, and whether each can run here.",
        )
    )
    says = "Say of each agent whether it has private data, strangers' text and a way out at once."
    add_json(add_command(parts, "audit", agents_audit, "which are exposed", says))
    trust = add_command(
        parts,
        "trust",
        agents_trust,
        "trust a note",
        "Trust a note's text as it is now, until it changes.",
    )
    trust.add_argument("file", metavar="FILE", help="a note, by its path in the vault")
    add_json(trust)
    run = add_command(
        parts,
        "run",
        agents_run,
        "ask one",
        "Let an agent answer, and show what it did; `undo` takes it back.",
    )
    run.add_argument("agent", metavar="AGENT", help="as `parachute agents list` names it")
    run.add_argument("prompt", nargs="+", metavar="PROMPT", help="the question; - is stdin")
    run.add_argument("--folder", metavar="FOLDER", help="the folder of the vault to work in")
    run.add_argument("--session", metavar="ID", help="continue an earlier conversation")
    add_json(run)


def agents_list(options: Namespace) -> int:
    """`parachute agents list`."""
    answer = ask("GET", "/api/agents")
    if options.json:
        say_json(answer)
        return 0
    rows = [
        (
            one["name"],
            _shell(one),
            _network(one),
            "yes" if one["runs_here"] else "no",
            one["description"],
        )
        for one in answer["agents"]
    ]
    say_table(rows, ("AGENT", "SHELL", "NETWORK", "RUNS HERE", "WHAT IT IS"), nothing=_NONE)
    for one in answer["agents"]:
        if one["problem"]:
            say(f"{'note' if one['runs_here'] else 'problem':8} {one['name']}: {one['problem']}")
    return 0


def agents_audit(options: Namespace) -> int:
    """`parachute agents audit`; 1 when an agent is exposed."""
    answer = ask("GET", "/api/agents/audit")
    if options.json:
        say_json(answer)
        return int(answer["exposed"] > 0)
    for one in answer["agents"]:
        say(f"{'EXPOSED' if one['exposed'] else 'ok':8} {one['agent']}")
        for name, words in (("private", "sees"), ("untrusted", "is told"), ("outward", "reaches")):
            say(f"         {words:8} {one[name] or 'nothing'}")
    if answer["exposed"]:
        say(
            f"{count(answer['exposed'], 'agent')} could be told by a stranger to send away what "
            "is yours."
        )
        say(f"What holds it: {answer['held_by']}.")
        say("Narrow one in modules.yaml, or trust what it reads: `parachute agents trust FILE`.")
    else:
        say("No agent has private data, strangers' text and a way out at once.")
    return int(answer["exposed"] > 0)


def agents_trust(options: Namespace) -> int:
    """`parachute agents trust FILE`."""
    answer = ask("POST", "/api/agents/trust", {"path": options.file})
    if options.json:
        say_json(answer)
        return 0
    was = (
        "was trusted already"
        if answer["before"] == "you"
        else f"is trusted now, as it is; it counted as {answer['before']}"
    )
    say(f"{answer['path']} {was}.")
    return 0


def sandbox_explain(options: Namespace) -> int:
    """`parachute sandbox explain AGENT`; 1 when it would not run here."""
    query = {
        "agent": options.agent,
        **({"working_directory": options.folder} if options.folder else {}),
    }
    answer = ask("GET", f"/api/sandbox/explain?{urlencode(query, quote_via=quote)}")
    if options.json:
        say_json(answer)
        return int(not answer["runs_here"])
    agent, files = answer["agent"], answer["files"]
    say(f"{agent['name']}: {agent['description']}")
    say(
        "runs here  "
        f"{'yes' if answer['runs_here'] else 'no'}{': ' + answer['problem'] if answer['problem'] else ''}"  # noqa: E501
    )
    say(f"begins     {answer['begins']}")
    _tell_files("reads", files["reads"], files["first"])
    _tell_files("writes", files["writes"], files["first_writes"])
    say(
        f"strangers  {count(files['strangers'], 'file')} of those that it reads; after one of "
        f"them: {answer['after_strangers_text']}"
    )
    say(f"left out   {count(files['left_out'], 'file')} of the vault")
    for path in agent["permissions"]["outside"]:
        say(f"           a copy of {path}, to read")
    say(f"tools      {', '.join(agent['tools'])}")
    say(f"shell      {_shell(agent)}")
    say(f"network    {_network(agent)}")
    say(f"limits     {_limits(agent['constraints'])}")
    say(f"never      {'; '.join(answer['always_refused'])}")
    if answer["container"] is None:
        say("container  none: its tools run in the daemon, which checks each call")
    else:
        say("container  " + json.dumps(answer["container"], indent=1, sort_keys=True))
    return int(not answer["runs_here"])


def _tell_files(what: str, number: int, first: list[str]) -> None:
    say(f"{what:10} {count(number, 'file')}{':' if first else ''}")
    for path in first:
        say(f"           {path}")
    if number > len(first):
        say(f"           and {number - len(first)} more")


def _shell(agent: Any) -> str:  # noqa: ANN401  JSON
    bash = agent["permissions"]["bash"]
    return "any command" if bash is True else ", ".join(bash) if bash else "no"


def _network(agent: Any) -> str:  # noqa: ANN401  JSON
    network = agent["permissions"]["network"]
    return (
        {"none": "no", "bridge": "any public host"}[network]
        if isinstance(network, str)
        else ", ".join(network)
    )


def _limits(constraints: Any) -> str:  # noqa: ANN401  JSON
    box = (
        f"{constraints['memory']} of memory, {constraints['cpus']:g} processors, "
        f"{constraints['pids_limit']} processes"
    )
    told = [box] if constraints["needs_container"] else []
    if constraints["timeout_s"] is not None:
        told.insert(
            0,
            f"{constraints['timeout_s']:g} s, {constraints['max_turns']} turns, "
            f"${constraints['max_cost_usd']:g}",
        )
    return "; ".join(told) or "those of every run"
