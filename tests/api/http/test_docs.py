from __future__ import annotations

import base64
import hashlib
import re
from pathlib import Path
from urllib.parse import urlencode

import aiohttp

from tests.api.calls import expect, get
from tests.api.places import INSIDE
from tests.api.routes.test_modules import run_module
from tests.stories.daemon_rig import DaemonRig, save


async def test_the_description_is_made_once_and_known_again_by_its_tag(daemon_rig: DaemonRig):
    url = daemon_rig.url + "/api/openapi.json"
    async with aiohttp.ClientSession() as session:
        async with session.get(url) as first:
            tag, document = first.headers["ETag"], await first.json()
        async with session.get(url, headers={"If-None-Match": tag}) as second:
            assert (second.status, second.headers["ETag"], await second.read()) == (304, tag, b"")

    assert document["openapi"] == "3.1.0"
    assert await get(daemon_rig, "/api/openapi.json") == document


async def test_the_page_runs_its_own_script_alone_and_makes_no_markup_of_texts(
    daemon_rig: DaemonRig,
):
    async with (
        aiohttp.ClientSession() as session,
        session.get(daemon_rig.url + "/api/docs") as answer,
    ):
        page, policy = await answer.text(), answer.headers["Content-Security-Policy"]

    assert answer.content_type == "text/html"
    markup = r"innerHTML|outerHTML|insertAdjacent|document\.write|eval\(|\son\w+=|\sstyle="
    assert not re.search(rf"https?:|//\w|{markup}", page)
    assert policy.startswith("default-src 'none'; ")
    assert "unsafe" not in policy
    for name in ("script", "style"):
        (text,) = re.findall(f"<{name}>(.*?)</{name}>", page, re.DOTALL)
        assert (
            f"{name}-src "
            f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}';"
            in policy
        )


async def test_its_examples_run(vault: Path, daemon_rig: DaemonRig):
    """The page fills in what the description gives as an example, and the first of what is listed
    for ids and names. There are no hooks here, and no TLS.
    """
    save(vault / INSIDE, "# Garden\n\n## Facts\nPeas.\n")
    document, wrong = await get(daemon_rig, "/api/openapi.json"), []
    await daemon_rig.until(lambda: not daemon_rig.daemon.vault.search.is_behind)
    for path, calls in document["paths"].items():
        needed = [call for call in calls.get("get", {}).get("parameters", []) if call["required"]]
        if (
            "get" not in calls
            or path in {"/api/events", "/mcp", "/tls/authority.crt", "/api/hooks/scripts"}
            or any(one["in"] == "path" and one["name"] != "path" for one in needed)
        ):
            continue
        values = {
            one["name"]: one.get("example", one["schema"].get("examples", [None])[0])
            for one in needed
        }
        query = urlencode(
            {one["name"]: values[one["name"]] for one in needed if one["in"] == "query"}
        )
        async with (
            aiohttp.ClientSession() as session,
            session.get(f"{daemon_rig.url}{path.format(**values)}?{query}") as answer,
        ):
            wrong += [f"{path} {values} {answer.status}"] if answer.status != 200 else []
    assert not wrong, "\n".join(wrong)

    (patch,) = document["components"]["schemas"]["PatchNoteRequest"]["examples"]
    await expect(daemon_rig, 200, "PATCH", f"/api/notes/{INSIDE}", json=patch)
    assert (vault / INSIDE).read_text() == "# Garden\n\n## Facts\nBeans.\n"


async def test_events_are_described_those_of_running_modules_too(
    tmp_path: Path, daemon_rig: DaemonRig
):
    code = "from parachuted.modules import Module\nclass GardenModule(Module): pass\n"
    publishes = "publishes: {garden.bed.dug: {path: path, words: text, depth: number}}\n"
    before = (await get(daemon_rig, "/api/openapi.json"))["x-events"]
    await run_module(daemon_rig, tmp_path, "garden", code, manifest=publishes)
    after = (await get(daemon_rig, "/api/openapi.json"))["x-events"]

    assert after.keys() - before.keys() == {"garden.bed.dug"}
    for name, module, scope, field, kind in (
        ("file.created", "core", "vault:read", "path", "string"),
        ("garden.bed.dug", "garden", "garden:read", "depth", "number"),
    ):
        event = after[name]
        assert (event["x-module"], event["x-scope"]) == (module, scope)
        assert event["data"]["properties"][field]["type"] == [kind, "null"]
