"""The existing app's calls to Daily (rows 37 to 43 of its contract), in a running daemon."""

from __future__ import annotations

import re
from datetime import datetime, timedelta
from pathlib import Path

from tests.api.calls import call
from tests.brain.test_contract import TEXT, TEXT_OR_NONE, app, fits
from tests.daily.journal_of import DAY, daily
from tests.module_files import install_official
from tests.stories.daemon_rig import Live, save

AGENTS = "/api/modules/daily/agents"
INTEGER, FLAG = {int}, {bool}
AGENT = {
    "name": TEXT,
    "displayName": TEXT,
    "description": TEXT,
    "schedule": {"enabled": FLAG, "time": TEXT},
    "outputPath": TEXT,
    "state": {
        "lastRunAt": TEXT_OR_NONE,
        "lastProcessedDate": TEXT_OR_NONE,
        "runCount": INTEGER,
    },
}
ON_DAY = {
    "name": TEXT,
    "displayName": TEXT,
    "hasOutput": FLAG,
    "outputPath": TEXT_OR_NONE,
    "lastRunAt": TEXT_OR_NONE,
    "lastProcessedDate": TEXT_OR_NONE,
}
OUTCOME = {
    "status": TEXT,
    "output_path": TEXT_OR_NONE,
    "error": TEXT_OR_NONE,
    "journal_date": TEXT_OR_NONE,
    "output_date": TEXT_OR_NONE,
}
TRANSCRIPT = {
    "hasTranscript": FLAG,
    "sessionId": TEXT_OR_NONE,
    "totalMessages": INTEGER,
    "message": TEXT_OR_NONE,
    "messages": [
        {
            "type": TEXT,
            "timestamp": TEXT_OR_NONE,
            "content": TEXT_OR_NONE,
            "model?": TEXT_OR_NONE,
            "blocks?": [
                {
                    "type": TEXT,
                    "text?": TEXT_OR_NONE,
                    "name?": TEXT_OR_NONE,
                    "input?": TEXT_OR_NONE,
                    "tool_use_id?": TEXT_OR_NONE,
                }
            ],
        }
    ],
}
ROW = {"id": TEXT, "created_at": TEXT, "snippet": TEXT, "brain_links": [TEXT]}
WHOLE = {"id": TEXT, "created_at": TEXT, "content": TEXT, "metadata": {}, "brain_links": [TEXT]}
ODD = (
    "---\nschedule: nightly\ndescription: [a, b]\ndisplayName: 7\noutput: 3\ntools: {a: b}\n"
    "---\nList all.\n"
)
PARSABLE = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d(:\d\d(\.\d+)?)?(Z|[+-]\d\d:\d\d)")


async def test_entries_and_the_agents_screens_are_answered_field_by_field(live: Live, vault: Path):
    save(vault / DAY, "# Noon\n\nDug the beds with [[Kim]].\n")
    save(vault / "Daily/entries/odd.md", "---\ntitle: [a]\nduration: long\n---\n\nOdd.\n")
    save(vault / "Daily/.agents/odd.md", ODD)
    async with live() as daemon_rig:
        await install_official(daemon_rig, "daily")
        body = {"content": "Sown.", "metadata": None}
        made = await app(daemon_rig, "POST", "/api/daily/entries", body)
        assert fits(made, {"id": TEXT, "path": TEXT, "created_at": TEXT, "brain_suggestions": [{}]})
        page = await app(daemon_rig, "GET", "/api/daily/entries?limit=100&offset=0")
        assert fits(page, {"entries": [ROW], "count": INTEGER, "offset": INTEGER})
        assert len(page["entries"]) == page["count"] == 3
        for one in page["entries"]:
            assert PARSABLE.fullmatch(one["created_at"])
            whole = await app(daemon_rig, "GET", f"/api/daily/entries/{one['id']}")
            assert fits(whole, WHOLE)
            assert None not in whole["metadata"].values()
        status, answer = await call(daemon_rig, "GET", "/api/daily/entries/none")
        assert status == 404
        assert fits(answer, {"error": TEXT, "id": TEXT, "detail": TEXT, "request_id": TEXT})

        page = await app(daemon_rig, "GET", AGENTS)
        assert fits(page, {"agents": [AGENT]})
        assert {one["name"] for one in page["agents"]} >= {"odd", "reflection", "weekly-review"}
        assert all(re.fullmatch(r"\d\d:\d\d", one["schedule"]["time"]) for one in page["agents"])
        for name in ("odd", "reflection"):
            one = await app(daemon_rig, "GET", f"{AGENTS}/{name}")
            assert fits(one, {**AGENT, "hasTodayOutput": FLAG, "todayOutputPath": TEXT_OR_NONE})
            said = await app(daemon_rig, "GET", f"{AGENTS}/{name}/transcript?limit=200")
            assert fits(said, TRANSCRIPT)

        body = {"date": "2026-02-24", "force": True}
        for name in ("reflection", "odd"):
            done = await app(daemon_rig, "POST", f"{AGENTS}/{name}/run", body)
            assert fits(done, OUTCOME)
            assert done["status"] == "completed", done
        day = await app(daemon_rig, "GET", f"{AGENTS}/status?date=2026-02-24")
        assert fits(day, {"date": TEXT, "agents": [ON_DAY]})
        (wrote,) = [one for one in day["agents"] if one["name"] == "reflection"]
        assert wrote["hasOutput"] is True
        assert PARSABLE.fullmatch(wrote["lastRunAt"])
        today = datetime.now().astimezone().date()
        assert (await app(daemon_rig, "GET", f"{AGENTS}/status"))["date"] in {
            today.isoformat(),
            (today + timedelta(days=1)).isoformat(),  # where midnight comes between
        }
        late = await app(daemon_rig, "POST", f"{AGENTS}/reflection/run", {})
        assert fits(late, OUTCOME)
        assert late["status"] == "skipped", "yesterday has no entries"
        reset = await app(daemon_rig, "POST", f"{AGENTS}/reflection/reset")
        shape = {"agent": TEXT, "reset": FLAG, "previousSessionId": TEXT_OR_NONE, "message": TEXT}
        assert fits(reset, shape)
        status, answer = await call(daemon_rig, "GET", f"{AGENTS}/none")
        assert status == 404
        assert isinstance(answer["detail"], str)


async def test_the_words_of_an_agents_run_are_answered_as_the_app_reads_them(tmp_path: Path):
    save(tmp_path / DAY, "# Noon\n\nDug the beds.\n")

    async with daily(tmp_path, answers=lambda _agent, _prompt: "- Dug [e1]") as module:
        await module.request("POST", f"{AGENTS}/reflection/run", body={"date": "2026-02-24"})
        transcript = await module.request("GET", f"{AGENTS}/reflection/transcript")

    assert fits(transcript, TRANSCRIPT)
    assert [one["type"] for one in transcript["messages"]] == ["user", "assistant"]
