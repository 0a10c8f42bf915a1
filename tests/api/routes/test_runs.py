from __future__ import annotations

from tests.api.calls import expect, get, post, refused
from tests.stories.daemon_rig import DaemonRig, Live, note, save

GARDEN = "Projects/garden/AGENTS.md"


async def run_once(daemon_rig: DaemonRig, focus: str = "- sow the beans") -> dict:
    count = len(daemon_rig.reported("run.finished"))
    save(daemon_rig.vault / GARDEN, note("Garden", focus=focus))
    await daemon_rig.until(lambda: len(daemon_rig.reported("run.finished")) > count)
    await daemon_rig.settled()
    return (await get(daemon_rig, "/api/runs"))["runs"][0]


async def test_a_run_is_listed_and_shown_whole(pair, daemon_rig: DaemonRig):
    listed = await run_once(daemon_rig)
    whole = await get(daemon_rig, f"/api/runs/{listed['id']}")

    assert (listed["watcher"], listed["outcome"], listed["wrote"], listed["undone"]) == (
        "AGENTS.md",
        "changed",
        ["AGENTS.md"],
        None,
    )
    assert {key: whole[key] for key in listed if key != "wrote"} == {
        key: listed[key] for key in listed if key != "wrote"
    }
    assert [wrote["path"] for wrote in whole["wrote"]] == ["AGENTS.md"]
    assert "sow the beans" in whole["wrote"][0]["diff"]
    assert [(note["path"], note["kind"]) for note in whole["reviewed"]] == [(GARDEN, "modified")]
    assert whole["causes"][0]["path"] == GARDEN


async def test_runs_are_listed_newest_first_and_by_pages(pair, daemon_rig: DaemonRig):
    ids = [(await run_once(daemon_rig, f"- step {number}"))["id"] for number in range(3)]
    page = await get(daemon_rig, "/api/runs?limit=2")
    rest = await get(daemon_rig, f"/api/runs?limit=2&before={page['runs'][-1]['id']}")

    assert [run["id"] for run in page["runs"] + rest["runs"]] == ids[::-1]
    assert (page["count"], rest["count"]) == (2, 1)
    for before in ("%00", "%FF", "x", "'; drop table runs --", "%F0%9F%92%A9"):
        await get(daemon_rig, f"/api/runs?before={before}")


async def test_a_run_that_does_not_exist_is_not_found(daemon_rig: DaemonRig):
    for run in ["x", "%FF", "r-%27", "x" * 2000, "%E2%80%A8", "-1"]:
        await expect(daemon_rig, 404, "GET", f"/api/runs/{run}")
        status, message = await refused(daemon_rig, "POST", f"/api/runs/{run}/undo")
        assert status == 404
        assert len(message) < 300


async def test_an_undone_run_is_taken_back_and_says_so(live: Live, pair):
    before = (pair / "AGENTS.md").read_bytes()
    async with live() as daemon_rig:
        run = await run_once(daemon_rig)
        assert (pair / "AGENTS.md").read_bytes() != before
        undone = await post(daemon_rig, f"/api/runs/{run['id']}/undo")
        assert undone == {
            "runs": [run["id"]],
            "paths": ["AGENTS.md"],
            "kept": {},
            "undo": undone["undo"],
        }
        assert (pair / "AGENTS.md").read_bytes() == before
        undo, taken_back = (await get(daemon_rig, "/api/runs"))["runs"]
        assert (undo["id"], undo["agent"], undo["undone"]) == (undone["undo"], "undo", None)
        assert taken_back["undone"]["run"] == undo["id"]


async def test_why_tells_each_line_s_origin(pair, daemon_rig: DaemonRig):
    run = await run_once(daemon_rig)
    answer = await get(daemon_rig, "/api/why?path=AGENTS.md")
    text = (pair / "AGENTS.md").read_text("utf-8").splitlines()
    number = next(number for number, line in enumerate(text, 1) if "sow the beans" in line)
    one = await get(daemon_rig, f"/api/why?path=AGENTS.md&line={number}")
    odd = await get(daemon_rig, f"/api/why?path={GARDEN}&line=1")

    assert answer["chains"] == {run["id"]: []}
    assert [line["text"] for line in answer["lines"]] == text
    assert [(line["number"], line["by"], line["run"]) for line in one["lines"]] == [
        (number, "curator", run["id"])
    ]
    assert list(one["runs"]) == [run["id"]]
    assert [(line["by"], line["run"]) for line in odd["lines"]] == [("person", None)]
    await expect(daemon_rig, 404, "GET", f"/api/why?path=AGENTS.md&line={len(text) + 1}")
    await expect(daemon_rig, 404, "GET", "/api/why?path=none.md")
    await expect(daemon_rig, 400, "GET", "/api/why")


async def test_a_path_that_is_not_utf8_can_be_asked_about(live: Live, vault):
    save(vault / "b\udcff.md", note("Odd"))
    async with live() as daemon_rig:
        assert (await get(daemon_rig, "/api/why?path=b%FF.md"))["path"] == "b\\xff.md"
        assert (await post(daemon_rig, "/api/bubble/plan", {"path": "b\udcff.md"}))[
            "path"
        ] == "b\\xff.md"


async def test_why_names_the_runs_in_the_order_of_their_lines(live: Live, pair):
    async with live() as daemon_rig:
        for crop in ("beans", "peas", "leeks", "kale", "chard"):
            await run_once(daemon_rig, f"- sow the {crop}")
        answer = await get(daemon_rig, "/api/why?path=AGENTS.md")

    runs = [line["run"] for line in answer["lines"] if line["run"] is not None]
    assert len(set(runs)) > 3
    assert list(answer["runs"]) == list(answer["chains"]) == list(dict.fromkeys(runs))
