from __future__ import annotations

import pytest

from tests.api.calls import expect, get, post, refused
from tests.stories.daemon_rig import DaemonRig, note, save

GARDEN = "Projects/garden/AGENTS.md"


@pytest.fixture
def daemon_rig(own_daemon: DaemonRig) -> DaemonRig:
    """Runs of other tests would be among those that are listed."""
    return own_daemon


async def run_once(daemon_rig: DaemonRig, focus: str = "- sow the beans") -> dict:
    count = len(daemon_rig.reported("run.finished"))
    save(daemon_rig.vault / GARDEN, note("Garden", focus=focus))
    await daemon_rig.until(lambda: len(daemon_rig.reported("run.finished")) > count)
    await daemon_rig.settled()
    return (await get(daemon_rig, "/api/runs"))["runs"][0]


async def test_a_run_is_listed_and_shown_whole_and_why_tells_each_line_s_origin(
    pair, daemon_rig: DaemonRig
):
    listed = await run_once(daemon_rig)
    run = listed["id"]
    whole = await get(daemon_rig, f"/api/runs/{run}")

    fields = {"watcher": "AGENTS.md", "outcome": "changed", "wrote": ["AGENTS.md"], "undone": None}
    assert listed == listed | fields
    (wrote,) = whole["wrote"]
    assert whole == whole | listed | {"wrote": [wrote]}
    assert wrote["path"] == "AGENTS.md"
    assert "sow the beans" in wrote["diff"]
    assert [(note["path"], note["kind"]) for note in whole["reviewed"]] == [(GARDEN, "modified")]
    assert whole["causes"][0]["path"] == GARDEN

    answer = await get(daemon_rig, "/api/why?path=AGENTS.md")
    text = (pair / "AGENTS.md").read_text("utf-8").splitlines()
    number = next(number for number, line in enumerate(text, 1) if "sow the beans" in line)
    one = await get(daemon_rig, f"/api/why?path=AGENTS.md&line={number}")
    odd = await get(daemon_rig, f"/api/why?path={GARDEN}&line=1")
    assert answer["chains"] == {run: []}
    assert [line["text"] for line in answer["lines"]] == text
    lines = [(line["number"], line["by"], line["run"]) for line in one["lines"]]
    assert lines == [(number, "curator", run)]
    assert list(one["runs"]) == [run]
    assert [(line["by"], line["run"]) for line in odd["lines"]] == [("person", None)]
    beyond = f"path=AGENTS.md&line={len(text) + 1}"
    for query, status in ((beyond, 404), ("path=none.md", 404), ("", 400)):
        await expect(daemon_rig, status, "GET", f"/api/why?{query}")


async def test_runs_are_listed_newest_first_by_pages_and_by_why_as_their_lines(
    pair, daemon_rig: DaemonRig
):
    crops = ("beans", "peas", "leeks", "kale", "chard")
    ids = [(await run_once(daemon_rig, f"- sow the {crop}"))["id"] for crop in crops]
    page = await get(daemon_rig, "/api/runs?limit=3")
    rest = await get(daemon_rig, f"/api/runs?limit=3&before={page['runs'][-1]['id']}")

    assert [run["id"] for run in page["runs"] + rest["runs"]] == ids[::-1]
    assert (page["count"], rest["count"]) == (3, 2)
    for before in ("%00", "%FF", "x", "'; drop table runs --", "%F0%9F%92%A9"):
        await get(daemon_rig, f"/api/runs?before={before}")

    answer = await get(daemon_rig, "/api/why?path=AGENTS.md")
    runs = [line["run"] for line in answer["lines"] if line["run"] is not None]
    assert len(set(runs)) > 3
    assert list(answer["runs"]) == list(answer["chains"]) == list(dict.fromkeys(runs))


async def test_a_run_that_does_not_exist_is_not_found(daemon_rig: DaemonRig):
    for run in ["x", "%FF", "r-%27", "x" * 2000, "%E2%80%A8", "-1"]:
        await expect(daemon_rig, 404, "GET", f"/api/runs/{run}")
        status, message = await refused(daemon_rig, "POST", f"/api/runs/{run}/undo")
        assert status == 404
        assert len(message) < 300


async def test_an_undone_run_is_taken_back_and_says_so(pair, daemon_rig: DaemonRig):
    before = (pair / "AGENTS.md").read_bytes()
    run = (await run_once(daemon_rig))["id"]
    assert (pair / "AGENTS.md").read_bytes() != before
    undone = await post(daemon_rig, f"/api/runs/{run}/undo")
    assert undone == undone | {"runs": [run], "paths": ["AGENTS.md"], "kept": {}}
    assert len(undone) == 4
    assert (pair / "AGENTS.md").read_bytes() == before
    undo, taken_back = (await get(daemon_rig, "/api/runs"))["runs"]
    assert (undo["id"], undo["agent"], undo["undone"]) == (undone["undo"], "undo", None)
    assert taken_back["undone"]["run"] == undo["id"]


async def test_a_path_that_is_not_utf8_can_be_asked_about(vault, daemon_rig: DaemonRig):
    save(vault / "b\udcff.md", note("Odd"))
    await daemon_rig.settled()
    assert (await get(daemon_rig, "/api/why?path=b%FF.md"))["path"] == "b\\xff.md"
    plan = await post(daemon_rig, "/api/bubble/plan", {"path": "b\udcff.md"})
    assert plan["path"] == "b\\xff.md"
