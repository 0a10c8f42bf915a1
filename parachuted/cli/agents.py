"""Agents: which there are, what they may do, ask for and cost, and how one is run or all are
stopped. The running daemon answers these commands.
"""

from __future__ import annotations

import contextlib
import sys
import threading
from argparse import Namespace
from collections.abc import Iterator

from parachuted import visible
from parachuted.cli.client import ask, quoted
from parachuted.cli.commands import JSON, Json, argument, command, flag, group
from parachuted.cli.show import count, escape, say, say_json, say_lines, say_table, when
from parachuted.errors import ParachuteError
from parachuted.visible import fact, one_line, quoted_lines

_LONGEST_S = 6 * 60 * 60.0  # the daemon ends a run by its own limits, long before
_MOST = 2_000  # characters of a stranger's on one line
_LOOK_S = 3.0  # each look is a line of the audit
_WANTS = {"bash": "run", "network": "reach", "trusted": "begin as"}
_SESSION = argument("--session", metavar="ID", help="continue an earlier conversation")


@command(
    "agents",
    "all agents, and what they may do",
    JSON,
    long="All agents, what each may do, and which of them a stranger's text could misuse.",
)
def agents(options: Namespace) -> int:
    """List the agents."""
    return _list_agents(options)


@command("agents list", "all agents", JSON)
def agents_list(options: Namespace) -> int:
    """List the agents, and whether each can run here."""
    return _list_agents(options)


def _list_agents(options: Namespace) -> int:
    answer = ask("GET", "/api/agents")
    if options.json:
        return say_json(answer)
    rows = [
        (
            agent["name"],
            *((shell_of(agent), network_of(agent)) if agent["permissions"] else ("-", "-")),
            *("yes" if agent["runs_here"] else "no", agent["description"]),
        )
        for agent in answer["agents"]
    ]
    say_table(rows, ("AGENT", "SHELL", "NETWORK", "RUNS HERE", "WHAT IT IS"), nothing="No agents.")
    for one in answer["agents"]:
        if one["problem"]:
            say(f"{'note' if one['runs_here'] else 'problem':8} {one['name']}: {one['problem']}")
    return 0


@command("agents audit", "which are exposed", JSON)
def agents_audit(options: Namespace) -> int:
    """Say of each agent whether it has private data, strangers' text and a way out at once.
    Exits with 1 when one has.
    """
    answer = ask("GET", "/api/agents/audit")
    if options.json:
        say_json(answer)
        return int(answer["exposed"] > 0)
    for one in answer["agents"]:
        say(f"{'EXPOSED' if one['exposed'] else 'ok':8} {one['agent']}")
        for name, words in (("private", "sees"), ("untrusted", "reads"), ("outward", "reaches")):
            say(f"         {words:8} {one[name] or 'nothing'}")
    if answer["exposed"]:
        say(
            f"{count(answer['exposed'], 'agent')} could be made by a stranger to send away what "
            "is yours."
        )
        say(f"What holds it: {answer['held_by']}.")
        say("Narrow one in modules.yaml, or trust what it reads: `parachute agents trust FILE`.")
    else:
        say("No agent has private data, strangers' text and a way out at once.")
    return int(answer["exposed"] > 0)


@command(
    "agents trust", "trust a note", argument("file", help="a note, by its path in the vault"), JSON
)
def agents_trust(options: Namespace) -> int:
    """Trust a note's text as it is now, until it changes."""
    answer = ask("POST", "/api/agents/trust", {"path": options.file})
    if options.json:
        return say_json(answer)
    was = (
        "was trusted already"
        if answer["before"] == "you"
        else f"is trusted now, as it is; it counted as {answer['before']}"
    )
    say(f"{answer['path']} {was}.")
    return 0


@command(
    "agents run",
    "ask one",
    argument("agent", help="as `parachute agents list` names it"),
    argument("prompt", nargs="+", help="the question; - is stdin"),
    argument("--folder", help="the folder of the vault to work in"),
    _SESSION,
    JSON,
)
def agents_run(options: Namespace) -> int:
    """Let an agent answer, and show what it did; `undo` takes it back."""
    body: dict[str, object] = {"prompt": _prompt(options), "entry": "cli"}
    if options.folder is not None:
        body["working_directory"] = options.folder
    if options.session is not None:
        body["session"] = options.session
    with _questions_shown():
        ran = ask(
            "POST", f"/api/agents/{quoted(options.agent, b'/')}/run", body, timeout_s=_LONGEST_S
        )
    return _tell(ran, options)


@command(
    "stop-agents",
    "stop all agents at once",
    flag("--go-on", help="stop them, but let new runs start"),
    JSON,
)
def stop_agents(options: Namespace) -> int:
    """Stop every running agent, and start none until `resume`. What a curator was doing is
    undone, and done again then.
    """
    answer = ask("POST", "/api/agents/stop", {"pause": not options.go_on})
    if options.json:
        return say_json(answer)
    names = ": " + ", ".join(answer["stopped"]) if answer["stopped"] else ""
    say(f"Ended: {count(len(answer['stopped']), 'run')}{names}.")
    if answer["paused"]:
        say("No run begins until `parachute resume`; what was being done is done again then.")
    return 0


@command(
    "maintenance",
    "ask the maintenance agent",
    argument(
        "prompt", nargs="+", help="what to look after, such as 'why is search slow?'; - is stdin"
    ),
    _SESSION,
    JSON,
)
def maintenance(options: Namespace) -> int:
    """Ask an agent what is wrong with the installation, and let it repair notes in Chat/,
    Daily/ and Brain/. It has no network.
    """
    body: dict[str, object] = {"prompt": _prompt(options)}
    if options.session is not None:
        body["session"] = options.session
    if not options.json:
        say("Starting the maintenance agent: this machine only, no network.")
    with _questions_shown():
        ran = ask("POST", "/api/maintenance", body, timeout_s=_LONGEST_S)
    return _tell(ran, options)


def _prompt(options: Namespace) -> str:
    words = sys.stdin.read() if options.prompt == ["-"] else " ".join(options.prompt)
    if not words.strip():
        raise ParachuteError(
            "there is nothing to ask: give the prompt as words, or - to read it from the standard "
            "input"
        )
    return words


@contextlib.contextmanager
def _questions_shown() -> Iterator[None]:
    """Meanwhile, say on stderr what agents ask a person for: who waits for the answer would else
    see a minute of nothing, and a refusal.
    """
    over = threading.Event()
    watching = threading.Thread(target=_show_questions, args=(over,), daemon=True)
    watching.start()
    try:
        yield
    finally:
        over.set()
        watching.join()


def _show_questions(over: threading.Event) -> None:
    shown: set[str] = set()
    while not over.wait(_LOOK_S):
        try:
            waiting = ask("GET", "/api/permissions", timeout_s=_LOOK_S)["permissions"]
        except ParachuteError:  # the run's own call tells what is wrong
            continue
        for one in waiting:
            if one["id"] not in shown:
                shown.add(one["id"])
                wants = f"wants to {_WANTS.get(one['kind'], one['kind'])} {one['what']}"
                how = f"`parachute permissions allow {one['id']}`, or `deny`, in another terminal"
                line = f"{one['agent']} {wants}, and waits until {when(one['until'])} UTC: {how}"
                sys.stderr.write(f"asks     {escape(line)}\n")
                sys.stderr.flush()


def _tell(ran: Json, options: Namespace) -> int:
    if options.json:
        return say_json(ran)
    if options.session is not None and ran["session"] not in {None, options.session}:
        say(
            f"note     the session {options.session} is not known here any more; a new one was "
            "started"
        )
    if ran["warning"]:
        say(f"note     {one_line(ran['warning'], _MOST)}")
    for step in ran["steps"]:
        if step["called"]:
            said = (
                f"{': refused' if step['error'] else ''}{', ' + step['why'] if step['why'] else ''}"
            )
            say(f"did      {one_line(step['called'] + said, _MOST)}")
    say_lines(quoted_lines(ran["words"], sys.maxsize))
    for path in ran["wrote"]:
        say(f"wrote    {one_line(path, _MOST)}")
    for one in ran["suggested"]:
        say(f"suggests {one}; `parachute suggestions show {one}` shows it")
    say(f"run      {ran['run']}: {ran['outcome']}, ${ran['cost_usd']:.4f}")
    if ran["wrote"]:
        say(f"take it back with: parachute undo {ran['run']}")
    if ran["session"]:
        say(f"go on with: --session {ran['session']}")
    return 0


def shell_of(agent: Json) -> str:
    bash = agent["permissions"]["bash"]
    return "any command" if bash is True else ", ".join(bash) if bash else "no"


def network_of(agent: Json) -> str:
    network = agent["permissions"]["network"]
    return (
        {"none": "no", "bridge": "any public host"}[network]
        if isinstance(network, str)
        else ", ".join(network)
    )


_MOST_SHOWN = 10_000
_NONE = (
    "No agent asks for anything. One that does waits a minute for `parachute permissions "
    "allow ID` or `deny ID`."
)


_ID = argument("id", help="as `parachute permissions list` names it")

PERMISSIONS = group(
    "permissions",
    "what agents ask you for",
    "What agents ask for while they work, beyond what they were granted. Unanswered requests are "
    "denied.",
)


@command("permissions list", "those that wait", JSON)
def permissions_list(options: Namespace) -> int:
    """List what agents ask for, and what is always denied."""
    answer = ask("GET", "/api/permissions")
    if options.json:
        return say_json(answer)
    for one in answer["permissions"]:
        say_lines(
            (
                fact("question", f"{one['id']}, until {when(one['until'])} UTC"),
                visible.quoted("agent", one["agent"]),
                fact("wants", str(one["kind"])),
                visible.quoted("which", one["what"], _MOST_SHOWN),
                visible.quoted("says", one["why"]),
            )
        )
    if not answer["permissions"]:
        say(_NONE)
    say_lines(visible.quoted("never", one, _MOST_SHOWN) for one in answer["never"])
    return 0


@command(
    "permissions allow",
    "say yes",
    flag("--session", help="for as long as the agent's session lasts"),
    _ID,
    JSON,
)
def permissions_allow(options: Namespace) -> int:
    """Allow what an agent asks for, this once."""
    until, how = (
        ("session", "for as long as its session lasts") if options.session else ("once",) * 2
    )
    return _answer(options, until, f"is allowed {how}")


@command(
    "permissions deny", "say no", flag("--once", help="this time; it may be asked again"), _ID, JSON
)
def permissions_deny(options: Namespace) -> int:
    """Deny what an agent asks for; it is not asked again."""
    if options.once:
        return _answer(options, "deny", "is denied this once")
    return _answer(options, "never", "is denied, and not asked again")


@command(
    "permissions forget",
    "let it ask again",
    argument("agent", help="as `parachute permissions list` names it"),
    JSON,
)
def permissions_forget(options: Namespace) -> int:
    """Let an agent ask again what you denied it."""
    answer = ask("POST", "/api/permissions/forget", {"agent": options.agent})
    if options.json:
        return say_json(answer)
    if answer["forgotten"]:
        say(f"{options.agent} may ask again: {count(answer['forgotten'], 'answer')} forgotten.")
    else:
        say(
            f"Nothing was denied to {options.agent} for ever; `parachute permissions list` shows "
            "to whom something was."
        )
    return 0


def _answer(options: Namespace, answer: str, what: str) -> int:
    asked = ask("POST", f"/api/permissions/{quoted(options.id)}", {"answer": answer})
    if options.json:
        return say_json(asked)
    wish = f"{asked['kind']} {one_line(asked['what'], _MOST_SHOWN)}"
    say(f"{one_line(asked['agent'])}: {wish} {what}.")
    return 0


_MOST_DAYS = 90
_GROUPS = (
    ("days", "date", "DAY (UTC)"),
    ("agents", "agent", "AGENT"),
    ("models", "model", "MODEL"),
    ("causes", "cause", "CAUSE"),
    ("runs", "run", "RUN"),
)
_ROWS = 8
_WINDOWS = {"5h": "the five hours", "7d": "the week"}


@command(
    "usage",
    "what the model cost",
    argument(
        "--days",
        type=int,
        default=7,
        metavar="N",
        help="over how many days, today among them (default: 7, at most 90)",
    ),
    JSON,
)
def usage(options: Namespace) -> int:
    """Show what the model cost: by day, agent, model, change and run, and what may still be
    spent.
    """
    answer = ask("GET", f"/api/usage?days={max(1, min(options.days, _MOST_DAYS))}")
    if options.json:
        return say_json(answer)
    spent = answer["spent"]
    if spent is None or not spent["total"]["requests"]:
        say("The model was not asked; nothing was spent.")
    else:
        _tell_usage(spent)
    if spent is not None:
        limits = spent["limits"]
        hour = f"${spent['usd_last_hour']:.4f} of ${limits['usd_per_hour']:g} in the last hour"
        say(
            f"limits   {hour}, ${spent['usd_last_day']:.4f} of ${limits['usd_per_day']:g} in the "
            "last 24 hours"
        )
        talked = f"${spent['usd_last_day_conversations']:.4f}"
        say(
            f"         {talked} of ${limits['conversations_usd_per_day']:g} for conversations in "
            f"the last 24 hours, ${limits['usd_per_session']:g} for one of them"
        )
        per_run = (
            f"${limits['usd_per_run']:g} a run, " if limits["usd_per_run"] else ""
        )  # none where no model is asked
        say(f"         {per_run}${limits['usd_per_cause']:g} for all that one change leads to")
    for name, window in answer["windows"].items():
        until = f", until {when(window['resets_at'])} UTC" if window["resets_at"] else ""
        say(
            f"account  {window['utilization']:g} % of {_WINDOWS.get(name, f'the window {name}')} "
            f"used{until}"
        )
    return 0


def _tell_usage(spent: Json) -> None:
    total = spent["total"]
    tokens_in = total["input_tokens"] + total["cache_read_tokens"] + total["cache_written_tokens"]
    since = f"since {spent['since'][:10]}"
    say(
        f"${total['usd']:.4f} {since}: {count(total['requests'], 'request')}, {tokens_in} tokens "
        f"in, {total['output_tokens']} out"
    )
    for name, key, head in _GROUPS:
        rows = [_row(one, key) for one in spent[name][: _ROWS if name != "days" else None]]
        if rows:
            say()
            say_table(rows, (head, "COST", "REQUESTS", "IN", "FROM CACHE", "OUT"), nothing="")
    for note in spent["notes"]:
        say(f"note     {note}")
    say()


def _row(one: Json, key: str) -> tuple[str, ...]:
    tokens_in = one["input_tokens"] + one["cache_written_tokens"]
    return (
        *(one[key] or "?", f"${one['usd']:.4f}", str(one["requests"])),
        *(str(tokens_in), str(one["cache_read_tokens"]), str(one["output_tokens"])),
    )
