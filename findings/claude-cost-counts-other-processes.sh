#!/usr/bin/env bash
# Guess: `total_cost_usd` in a result, and `--max-budget-usd`, both count what this process spent.
# Seen: they count different things. `total_cost_usd` goes on from where the session stood: a resumed process reports all
#   former processes' cost too, and so does a fork. `--max-budget-usd` counts this process alone: resumed again and again,
#   a session passes any limit. And a process that ends by SIGKILL is missing from the total for good.
# Why it matters: adding up the totals of a conversation's turns overstates (1, 2, 3 make 6), the flag is no cap on a
#   conversation that is resumed a turn, and a total can fall. Keep your own ledger from the tokens of each answer.
source "$(dirname "$0")/support/common.sh"
source "$support/claude_cli.sh"

script <<'PYTHON'
from claude_rig import changed, Cli, events, serve, turn


def answer(number, body):
    return events(f"answer {number}", tokens=(100_000, 20_000))


serve(answer)
session = "22222222-2222-4222-8222-222222222222"
first = turn("one", "--session-id", session)
each = first["total_cost_usd"]
limit = str(each * 1.5)
resumed = [turn(f"more {number}", "--resume", session, "--max-budget-usd", limit) for number in range(2)]
fork = turn("aside", "--resume", session, "--fork-session", "--max-budget-usd", limit)
warm = Cli("--max-budget-usd", limit)
in_one = []
for number in range(2):
    warm.send(f"warm {number}")
    in_one.append(warm.until("result"))
warm.close()

killed = Cli("--resume", session)
killed.send("before the kill")
at_kill = killed.until("result")["total_cost_usd"] / each
killed.process.kill()
killed.process.wait()
after_kill = turn("after the kill", "--resume", session)["total_cost_usd"] / each

totals = [result["total_cost_usd"] / each for result in (first, *resumed, fork)]
print(f"each turn costs {each} USD; the limit is {limit} USD")
print("totals, in turns, of four processes with one turn each (the last a fork):", totals)
print("stopped by the limit:", [result["subtype"] for result in (*resumed, fork)])
print("two turns in one process:", [result["subtype"] for result in in_one])
print("total when killed:", at_kill, "| total after one more turn:", after_kill)

if [round(total) for total in totals] != [1, 2, 3, 4]:
    changed("the totals of resumed sessions and forks no longer carry on")
if {result["subtype"] for result in (*resumed, fork)} != {"success"}:
    changed("--max-budget-usd now counts former processes")
if in_one[1]["subtype"] != "error_max_budget_usd":
    changed("--max-budget-usd no longer ends the second turn of one process")
if round(at_kill) != 4 or round(after_kill) != 4:
    changed("a killed process is counted in another way")
PYTHON
