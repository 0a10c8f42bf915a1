"""Scheduled agents: files, the routes that the existing app calls, with and without a model."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import pytest

from parachuted.errors import (
    AgentFailedError,
    AgentUnavailableError,
    NotFoundError,
    ParachuteError,
)
from parachuted.testing import ScriptedBackend, say, use
from tests.api.calls import call, get, key_of, post
from tests.daily.journal_of import DAY, NOON, daily, write
from tests.module_files import daily_file, install_official
from tests.stories.daemon_rig import Live, save

parse_agent = daily_file("agents").parse_agent
TOOLS = daily_file("agents").TOOLS
AGENTS = "/api/modules/daily/agents"
REFLECTION = "Daily/reflections/2026-02-24.md"
RUN = {"date": "2026-02-24"}


def offline(_agent: str, _prompt: str) -> str:
    raise AgentUnavailableError("no model")


def test_an_agent_is_read_from_its_file_in_each_form():
    agent = parse_agent(
        "gratitude-list",
        "---\nschedule:\n  enabled: false\n  time: 630  # what YAML makes of 10:30\n"
        'output: "Daily/thanks/{date}.md"\ntools: [read_journal, rm]\n---\nList what went well.\n',
    )

    assert (agent.display_name, agent.is_enabled) == ("Gratitude list", False)
    assert f"{agent.at:%H:%M}" == "10:30"
    assert agent.output_path(date(2026, 2, 24)) == "Daily/thanks/2026-02-24.md"
    assert (agent.tools, agent.prompt) == (("read_journal",), "List what went well.")


def test_a_file_without_frontmatter_is_an_agent_with_defaults():
    agent = parse_agent("sums", "Add up what I spent.\n")

    assert (agent.is_enabled, f"{agent.at:%H:%M}", agent.days) == (True, "03:00", 1)
    assert agent.output == "Daily/sums/{date}.md"
    assert agent.tools == ("read_journal", "read_recent_journals", "read_chat_log")


@pytest.mark.parametrize(
    ("said", "tools"), [("read_chat_log, rm", ("read_chat_log",)), ("[]", ()), ("rm", ())]
)
def test_tools_that_are_said_take_away_all_others(said: str, tools: tuple[str, ...]):
    assert parse_agent("sums", f"---\ntools: {said}\n---\nAdd up.").tools == tools


@pytest.mark.parametrize(
    "output", ["../x/{date}.md", "Daily/.x/{date}.md", "Brain/{date}.md", "Daily/x/a.md", "/etc/x"]
)
def test_an_agent_writes_below_daily_one_file_a_day(output: str):
    assert parse_agent("a", f"---\noutput: {output}\n---\nx").output == "Daily/a/{date}.md"


@pytest.mark.parametrize(
    ("schedule", "cron"),
    [
        ("03:00", "0 3 * * *"),
        ("{time: '13:05', day: Monday}", "5 13 * * mon"),
        ("{time: '25:99', day: someday}", "0 3 * * *"),
    ],
)
def test_when_an_agent_runs(schedule: str, cron: str):
    assert parse_agent("a", f"---\nschedule: {schedule}\n---\nx").cron == cron


async def test_an_agents_words_are_written_with_links_if_they_cite_an_entry(
    tmp_path: Path,
):
    words = (
        "## What happened\n- Kim came by [e1]\n- It was the best day ever\n- Rain [e9]\n\n"
        "## One question\nWhat did Kim want?"
    )
    async with daily(tmp_path, answers=lambda _agent, _prompt: words) as module:
        entry_id = await write(module, "Kim came by. Nice.")
        done = await module.request("POST", f"{AGENTS}/reflection/run", body=RUN)

        assert done == {
            "status": "completed",
            "output_path": REFLECTION,
            "error": None,
            "journal_date": "2026-02-24",
            "output_date": "2026-02-24",
        }
        text = (tmp_path / REFLECTION).read_text()
        assert text.startswith("---\ndate: 2026-02-24\nagent: reflection\ngenerated_at: 20")
        assert text.endswith(
            "## What happened\n- Kim came by "
            f"[[Daily/journals/2026-02-24#{entry_id} 12:00|12:00]]\n\n"
            "## One question\nWhat did Kim want?\n"
        )
        (_, prompt) = module.asked[0]
        assert "[e1] 2026-02-24 12:00\nKim came by. Nice." in prompt
        name, data = module.published[-1]
        assert (name, data["output_path"]) == ("daily.reflection.completed", REFLECTION)
        transcript = await module.request("GET", f"{AGENTS}/reflection/transcript")
        assert [one["content"] for one in transcript["messages"]] == [prompt, words]


class _TypesOfBrain:
    """Knows one type, and remembers what is suggested."""

    def __init__(self) -> None:
        self.suggested: list[tuple[str, str]] = []

    async def types(self) -> list[dict[str, str]]:
        return [{"name": "person"}]

    async def suggest_type(self, name: str, _fields: object, _about: object, why: str) -> str:
        self.suggested.append((name, why))
        return "s-1"

    async def detect_mentions(self, *_args: object) -> list[object]:
        return []

    async def suggest(self, _text: str) -> list[object]:
        return []


async def test_a_type_that_an_agent_proposes_is_suggested_once_and_not_written(tmp_path: Path):
    brain = _TypesOfBrain()
    words = "- Soup [e1]\nNew type: recipe - three soups\nNew type: person - no news\n"
    async with daily(
        tmp_path, answers=lambda _agent, _prompt: words, interfaces={"BrainInterface": brain}
    ) as module:
        await write(module, "Soup.")
        for _ in range(2):
            body = {**RUN, "force": True}
            await module.request("POST", f"{AGENTS}/weekly-review/run", body=body)

    assert brain.suggested == [("recipe", "Weekly review: three soups")]
    assert "New type" not in (tmp_path / "Daily/reviews/2026-02-24.md").read_text()


async def test_without_a_model_a_reflection_is_made_from_the_entries(tmp_path: Path):
    async with daily(tmp_path, answers=offline) as module:
        await write(module, "- [ ] Call Lee", at="2026-02-20T12:00:00-05:00")
        await write(module, "Met [[People/Kim|Kim]]. It rained.")
        await module.request("POST", f"{AGENTS}/reflection/run", body=RUN)
        text = (tmp_path / REFLECTION).read_text()

        assert "*Made without a model" in text
        assert "- Met [[People/Kim|Kim]]. [[Daily/journals/2026-02-24#para:" in text
        assert "## People and projects\n\n- Kim [[Daily/journals/2026-02-24#" in text
        assert "- Call Lee [[Daily/journals/2026-02-20|2026-02-20]]" in text
        assert text.endswith("What would it take to close “Call Lee”?\n")


async def test_a_day_is_done_once_unless_forced_and_never_without_entries(tmp_path: Path):
    async with daily(tmp_path, answers=lambda _agent, _prompt: "- x [e1]") as module:
        await write(module, "Open words.")
        private = {"content": "Secret.", "created_at": NOON, "metadata": {"private": True}}
        await module.request("POST", "/entries", body=private)
        ways = [RUN, RUN, {**RUN, "force": True}, {"date": "2026-02-23"}]
        done = [
            (await module.request("POST", f"{AGENTS}/reflection/run", body=way))["status"]
            for way in ways
        ]
        kept = await module.request("GET", f"{AGENTS}/reflection")

        assert done == ["completed", "skipped", "completed", "skipped"]
        assert kept["state"]["runCount"] == 2
        assert kept["state"]["lastProcessedDate"] == "2026-02-24"
        assert (await module.request("POST", f"{AGENTS}/reflection/reset"))["reset"]
        kept = await module.request("GET", f"{AGENTS}/reflection")
        assert kept["state"] == {"lastRunAt": None, "lastProcessedDate": None, "runCount": 0}
        (_, prompt), _ = module.asked
        assert "Open words." in prompt
        assert "Secret" not in prompt
        assert "Secret" not in await module.tool("read_journal", day="2026-02-24")


async def test_no_agent_has_a_name_that_no_file_can_have(journal):
    for length in (253, 255, 3000):
        for method, rest in (("GET", ""), ("POST", "/reset"), ("POST", "/run")):
            with pytest.raises(NotFoundError, match="There is no agent aaa"):
                await journal.request(method, f"{AGENTS}/{'a' * length}{rest}")


async def test_a_run_that_fails_says_why_and_writes_nothing(tmp_path: Path):
    def fails(_agent: str, _prompt: str) -> str:
        raise AgentFailedError("too slow")

    async with daily(tmp_path, answers=fails) as module:
        await write(module, "Words.")
        done = await module.request("POST", f"{AGENTS}/reflection/run", body=RUN)

        assert (done["status"], done["error"]) == ("failed", "too slow")
        assert not (tmp_path / REFLECTION).exists()


async def test_the_app_lists_the_vaults_agents_and_those_that_are_shipped(tmp_path: Path):
    (tmp_path / "Daily/.agents").mkdir(parents=True)
    (tmp_path / "Daily/.agents/sums.md").write_text("Add up.\n")
    (tmp_path / "Daily/.agents/weekly-review.md").write_text("---\nschedule: '04:00'\n---\nMine.\n")
    async with daily(tmp_path, answers=offline) as module:
        agents = (await module.request("GET", AGENTS))["agents"]
        assert [agent["name"] for agent in agents] == ["reflection", "sums", "weekly-review"]
        assert agents[2]["schedule"] == {"enabled": True, "time": "04:00", "day": None}
        assert agents[0]["outputPath"] == "Daily/reflections/{date}.md"

        await write(module, "Words.")
        await module.request("POST", f"{AGENTS}/sums/run", body=RUN)
        status = await module.request("GET", f"{AGENTS}/status", query=RUN)
        assert {one["name"]: one["outputPath"] for one in status["agents"]} == {
            "reflection": None,
            "sums": "Daily/sums/2026-02-24.md",
            "weekly-review": None,
        }
        assert not (await module.request("GET", f"{AGENTS}/sums"))["hasTodayOutput"]
        with pytest.raises(NotFoundError, match="no agent nobody"):
            await module.request("GET", f"{AGENTS}/nobody")


async def test_what_a_person_wrote_into_an_output_is_not_written_over(tmp_path: Path):
    async with daily(tmp_path, answers=lambda _agent, _prompt: "- x [e1]") as module:
        await write(module, "Words.")
        (tmp_path / "Daily/reflections").mkdir()
        (tmp_path / REFLECTION).write_text("My own.\n")
        done = await module.request("POST", f"{AGENTS}/reflection/run", body=RUN)

        assert done["status"] == "skipped"
        assert (tmp_path / REFLECTION).read_text() == "My own.\n"


async def test_a_saved_agent_is_picked_up_and_works_on_yesterday(tmp_path: Path):
    yesterday = datetime.now().astimezone() - timedelta(days=1)
    folder = tmp_path / "Daily/.agents"
    folder.mkdir(parents=True)
    async with daily(tmp_path, answers=lambda _agent, _prompt: "- x [e1]") as module:
        await write(module, "Words.", at=yesterday.isoformat())
        (folder / "sums.md").write_text("---\nschedule: '07:30'\n---\nAdd up.\n")
        (folder / "weekly-review.md").write_text("---\nschedule: {enabled: false}\n---\n")
        await module.event("file.created", path="Daily/.agents/sums.md")
        found = await module.schedules.list()
        assert [one.name for one in found if one.method == "run_scheduled_agent"] == [
            "reflection",
            "sums",
        ]

        await module.tick("sums")
        output = tmp_path / f"Daily/sums/{yesterday.date().isoformat()}.md"
        assert "- x [[Daily/journals/" in output.read_text()
        (folder / "sums.md").unlink()
        await module.event("file.deleted", path="Daily/.agents/sums.md")
        assert "sums" not in [one.name for one in await module.schedules.list()]


async def test_the_weekly_review_reads_the_seven_days_before_by_its_schedule(tmp_path: Path):
    yesterday = datetime.now().astimezone() - timedelta(days=1)
    asked: list[str] = []

    def answers(_agent: str, prompt: str) -> str:
        asked.append(prompt)
        return "- The week [e1]"

    async with daily(tmp_path, answers=answers) as module:
        await write(module, "Sowed peas.", at=(yesterday - timedelta(days=5)).isoformat())
        await write(module, "Too long ago.", at=(yesterday - timedelta(days=9)).isoformat())
        (schedule,) = [one for one in await module.schedules.list() if one.name == "weekly-review"]
        await module.tick("weekly-review")

    output = tmp_path / f"Daily/reviews/{yesterday.date().isoformat()}.md"
    assert "mon" in str(schedule.timing).lower()
    assert "- The week [[Daily/journals/" in output.read_text()
    assert "Sowed peas." in asked[0]
    assert "Too long ago." not in asked[0]


async def test_an_agent_reads_what_the_sessions_of_the_last_days_were_about(tmp_path: Path):
    today = datetime.now(UTC).date()
    folder = tmp_path / ".parachute/activity"
    folder.mkdir(parents=True)
    lines = [
        {"session_id": "s1", "session_title": "Beans", "summary": "asked"},
        {"session_id": "s1", "session_title": "Beans", "summary": "where\nto sow"},
        {"session_id": "s2", "summary": "rain"},
    ]
    for day in (today, today - timedelta(days=3)):
        said = [json.dumps({"ts": f"{day}T10:0{at}:00Z", **one}) for at, one in enumerate(lines)]
        (folder / f"{day}.jsonl").write_text("\n".join(said))
    async with daily(tmp_path) as module:
        found = await module.tool("read_recent_sessions", days=2)
        assert found == f"- {today} Beans: where to sow\n- {today} rain"
        for tool, wrong in (
            ("read_recent_sessions", {"days": 32}),
            ("read_recent_journals", {"days": 0}),
            ("read_journal", {"day": "2026-02-30"}),
            ("read_chat_log", {"day": "../../x"}),
        ):
            with pytest.raises(ParachuteError):
                await module.tool(tool, **wrong)


async def test_an_agent_reads_journal_and_chat_log_of_a_day_and_writes(
    tmp_path: Path,
):
    save(tmp_path / "Daily/.agents/sums.md", "Add up.\n")
    save(tmp_path / "Daily/chat-log/2026-02-24.md", "Asked for beans.\n\n## Kim #private\n\nIll.\n")
    async with daily(tmp_path) as module:
        await write(module, "Sowed beans.")
        await write(module, "Rain.", at=datetime.now().astimezone().isoformat())
        day = {"day": "2026-02-24"}
        assert "Sowed beans." in await module.tool("read_journal", **day)
        recent = await module.tool("read_recent_journals", days=2)
        assert ("Rain." in recent, "Sowed" in recent) == (True, False)
        log = await module.tool("read_chat_log", **day)
        assert ("Asked for beans." in log, "Ill." in log) == (True, False)

        path = await module.tool("write_output", agent="sums", content="Two beds.", **day)
        assert path == "Daily/sums/2026-02-24.md"
        assert (tmp_path / path).read_text().endswith("Two beds.\n")
        for wrong in ({"agent": "nobody"}, {"day": "2026-02-30"}):
            said = {"agent": "sums", "content": "x", **day, **wrong}
            with pytest.raises(ParachuteError):
                await module.tool("write_output", **said)


OWN = "---\ndays: 7\ntools: [{}]\n---\nCount my walks."


async def test_an_own_agent_without_a_model_says_so_and_lists_what_it_covers(tmp_path: Path):
    save(tmp_path / "Daily/.agents/walks.md", OWN.format("read_journal"))
    async with daily(tmp_path, answers=offline) as module:
        await write(module, "- [ ] Old loop", at="2026-02-20T12:00:00-05:00")
        await write(module, "Walked far. Really.\n\n- [ ] Call Lee")
        await module.request("POST", f"{AGENTS}/walks/run", body=RUN)
        text = (tmp_path / "Daily/walks/2026-02-24.md").read_text()

    assert "*Made without a model, from the entries' own words.*" in text
    assert "- Walked far. [[Daily/journals/2026-02-24#para:" in text
    assert "## Open loops\n\n- Call Lee [[Daily/journals/2026-02-24|2026-02-24]]" in text
    assert "Old loop" not in text


async def test_an_agent_is_given_what_its_tools_name_and_no_more(live: Live, vault: Path):
    cases = (
        ("read_recent_journals", ["Monday", "Tuesday"], "notes"),
        ("read_journal", ["Tuesday"], "notes"),
        ("read_chat_log", [], "nothing"),
        ("", [], "nothing"),
    )
    backend = ScriptedBackend([use("read_note", path=DAY), say("Two walks.")])
    for number, (tools, _given, _reached) in enumerate(cases):
        save(vault / f"Daily/.agents/walks-{number}.md", OWN.format(tools))
    save(vault / "Daily/journals/2026-02-23.md", "# Monday\n\nA walk.\n")
    save(vault / DAY, "# Tuesday\n\nA walk.\n")
    async with live(backend) as daemon_rig:
        await install_official(daemon_rig, "daily")
        watched, known = daemon_rig.daemon.watched, set[str]()
        await daemon_rig.until(lambda: watched.index.get(DAY) is not None)
        for number, (tools, given, reached) in enumerate(cases):
            await post(daemon_rig, f"{AGENTS}/walks-{number}/run", RUN)
            job = backend.jobs[-1]
            assert len(backend.jobs) == number + 1
            assert [one for one in ("Monday", "Tuesday") if one in job.prompt] == given
            assert {tool.name for tool in job.tools} & set(TOOLS) == set(tools.split())
            runs = [one for one in watched.history.runs() if one["agent"] == "daily/journal"]
            (run,) = [one for one in runs if one["id"] not in known]
            known.add(run["id"])
            (step,) = [one for one in run["steps"] if one.get("called") == "read_note"]
            assert step["error"] is (reached == "nothing")


async def test_the_daemons_agents_are_listed_with_their_files_and_work_offline(
    live: Live, vault: Path
):
    save(vault / DAY, "# Morning\n\nSowed the beans.\n")
    async with live() as daemon_rig:
        await install_official(daemon_rig, "daily")
        done = await post(daemon_rig, f"{AGENTS}/reflection/run", RUN)
        listed = await get(daemon_rig, f"{AGENTS}/status?date=2026-02-24")
        assert (done["status"], done["output_path"]) == ("completed", REFLECTION)
        written = (vault / REFLECTION).read_text()
        assert "Sowed the beans. [[Daily/journals/2026-02-24#Morning|Morning]]" in written
        assert listed["agents"][0]["hasOutput"]
        await daemon_rig.until(lambda: daemon_rig.reported("daily.reflection.completed"))

        path = "/api/notes/Daily/.agents/mine.md"
        text = "---\nschedule: {time: '21:30', day: sunday}\n---\nSum up.\n"
        key = key_of(daemon_rig, "vault:read,write", "daily:read,write")
        status, reported = await call(daemon_rig, "PUT", path, headers=key, data=text.encode())
        assert status in {200, 201}, reported

        async def agents() -> dict[str, dict]:
            found = (await get(daemon_rig, AGENTS))["agents"]
            return {one["name"]: one for one in found}

        found = await agents()
        mine, shipped = found["mine"], found["reflection"]
        assert mine["schedule"] == {"enabled": True, "time": "21:30", "day": "sunday"}
        assert not mine["approved"]
        assert (mine["shipped"], mine["text"]) == (False, text)
        assert shipped["schedule"] == {"enabled": True, "time": "03:00", "day": None}
        assert shipped["approved"]
        assert (shipped["shipped"], shipped["text"].startswith("---\n")) == (True, True)
        assert not (vault / shipped["file"]).exists()
        await post(daemon_rig, "/api/modules/daily/commands/approve", {"name": "mine"})
        assert (await agents())["mine"]["approved"]
