"""`parachute usage`: what the model cost, in words and as JSON."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

from parachuted.agents.gateway.prices import Tokens
from parachuted.agents.gateway.usage import Charge, MoneyLimits, RunToken, UsageStore
from parachuted.home_files.vault_state import state_folder
from tests.cli.command_line import CommandLine


def spend(command_line: CommandLine, usd: float, agent: str, ago: timedelta) -> None:
    at, model = datetime.now(UTC) - ago, "claude-haiku-4-5"
    folder = state_folder(command_line.home, command_line.vault)
    limits = MoneyLimits(usd_per_cause=1, usd_per_hour=1, usd_per_day=1)
    ledger = UsageStore(folder / "usage.db", at.timestamp, limits)
    token = {"causes": ("c-1",), "session": None, "max_cost_usd": 1, "model": model}
    run_token = RunToken(run=f"run-of-{agent}", agent=agent, **token)
    tokens = Tokens(input=100, output=20, cache_read=900, cache_write_5m=50)
    ledger.settle(Charge(run_token=run_token, model=model, at=at, tokens=tokens, usd=usd))
    ledger.database.close()


def test_it_tells_what_was_spent_on_what_and_what_is_left(command_line: CommandLine):
    spend(command_line, 0.5, "curator", timedelta())
    spend(command_line, 0.25, "judge", timedelta(days=3))
    command_line.start(PARACHUTE_BUDGET_USD_PER_HOUR="7")

    reported = command_line.does("usage")
    whole = r"^\$0\.7500 since \d{4}-\d\d-\d\d: 2 requests, 2100 tokens in, 40 out$"
    assert re.search(whole, reported, re.MULTILINE)
    assert re.search(r"^curator +\$0\.5000 +1 +150 +900 +20$", reported, re.MULTILINE)
    assert re.search(r"^run-of-judge +\$0\.2500 ", reported, re.MULTILINE)
    assert re.search(r"^c-1 +\$0\.7500 +2 ", reported, re.MULTILINE)
    assert "$0.5000 of $7 in the last hour, $0.5000 of $20 in the last 24 hours" in reported
    assert "judge" not in command_line.does("usage", "--days", "1")
    assert command_line.json("usage", "--days", "9999")["spent"]["days_told"] == 90
    assert command_line.json("usage")["spent"]["total"]["usd"] == 0.75


def test_where_no_model_was_asked_it_says_so(running: CommandLine):
    assert running.does("usage").startswith("The model was not asked; nothing was spent.\nlimits ")
