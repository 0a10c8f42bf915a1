"""Usage: what the model cost, as the daemon counted it."""

from __future__ import annotations

from argparse import Namespace

from parachuted.cli.client import ask
from parachuted.cli.commands import JSON, Json, argument, command
from parachuted.cli.show import count, say, say_json, say_table, when

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
        _tell(spent)
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


def _tell(spent: Json) -> None:
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
