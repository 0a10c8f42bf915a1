"""Hooks and modules in the daemon's life: put together, told of each other, and ended with it."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import psutil

from tests.api.calls import call, get, post, refused
from tests.api.routes.test_modules import EXAMPLES, install
from tests.hooks.serving import drop
from tests.stories.daemon_rig import Live, note, save

TELLING = """\
#!/bin/sh
cat > "$PARACHUTE_HOME/told.$$"
if grep -Eq '"path": ?"note.md"' "$PARACHUTE_HOME/told.$$"; then
  mv -n "$PARACHUTE_HOME/told.$$" "$PARACHUTE_HOME/told"
fi
"""
KEEPING = """\
import json, sys

if "keep" in json.load(sys.stdin)["data"]["path"]:
    print("kept", file=sys.stderr)
    sys.exit(2)
"""
READING = """\
import json, os, urllib.request

with open(os.environ["PARACHUTE_HOME"] + "/run/daemon.json") as file:
    daemon = json.load(file)
url = f"http://127.0.0.1:{daemon['port']}/api/notes/first.md?as=raw"
asked = urllib.request.Request(url, headers={"Authorization": "Bearer " + daemon["token"]})
assert urllib.request.urlopen(asked, timeout=20).read() == b"# First\\n"
"""
MARKDOWN = {"Content-Type": "text/markdown"}


async def test_a_dropped_script_hears_of_a_saved_note_with_cause_and_diff(
    live: Live, home: Path, vault: Path
):
    save(vault / "AGENTS.md", note("Everything", watch=["*.md"]))
    save(vault / "note.md", "# Note\n\n## Facts\none\n")
    drop(home, "on-file-modified.sh", TELLING)
    async with live() as daemon_rig:
        save(vault / "note.md", "# Note\n\n## Facts\ntwo\n")
        await daemon_rig.until((home / "told").exists)
        event = json.loads((home / "told").read_text())

    assert (event["event"], event["data"]["path"], event["vault_path"]) == (
        "file.modified",
        "note.md",
        str(vault),
    )
    assert (event["cause"]["actor"], "+two" in event["diff"]["text"], event["diff"]["changed"]) == (
        "person",
        True,
        ["Note > Facts"],
    )


async def test_a_hook_that_objects_stops_a_write_wherever_it_comes_from(
    live: Live, home: Path, vault: Path
):
    drop(home, "on-write-before.py", KEEPING)
    async with live() as daemon_rig:
        await install(daemon_rig, EXAMPLES / "daily")
        status, message = await refused(
            daemon_rig, "PUT", "/api/notes/keep-me.md", data=b"# x\n", headers=MARKDOWN
        )
        assert (status, "kept" in message, (vault / "keep-me.md").exists()) == (403, True, False)
        status, answer = await call(
            daemon_rig, "POST", "/api/daily/entries", json={"content": "x", "entry_id": "keep-2"}
        )
        assert (status, "kept" in str(answer), (vault / "Daily/entries/keep-2.md").exists()) == (
            403,
            True,
            False,
        )
        assert (
            await call(
                daemon_rig, "POST", "/api/daily/entries", json={"content": "x", "entry_id": "free"}
            )
        )[0] == 201
        save(vault / "keep-too.md", "# by hand\n")  # what a person's editor writes is a fact
        await daemon_rig.until(
            lambda: daemon_rig.daemon.watched.index.get("keep-too.md") is not None
        )


async def test_many_writes_at_once_wait_for_a_hook_that_reads_by_the_api(
    live: Live, home: Path, vault: Path
):
    save(vault / "first.md", "# First\n")
    drop(home, "on-write-before.py", READING)
    async with live() as daemon_rig:
        puts = [
            call(daemon_rig, "PUT", f"/api/notes/{number}.md", data=b"# x\n", headers=MARKDOWN)
            for number in range(16)
        ]
        assert {status for status, _ in await asyncio.gather(*puts)} <= {200, 201}
        assert await get(daemon_rig, "/api/hooks/errors") == {"errors": []}


async def test_a_hook_may_stop_the_load_of_a_module_and_a_watchers_run(
    live: Live, home: Path, vault: Path
):
    drop(home, "on-module-load-before.sh", "#!/bin/sh\necho 'not this one' >&2\nexit 2\n")
    drop(home, "on-prompt-before.sh", "#!/bin/sh\necho 'let it sleep' >&2\nexit 2\n")
    save(vault / "AGENTS.md", note("Everything", watch=["Projects/*"]))
    save(vault / "Projects/garden/AGENTS.md", note("Garden"))
    before = (vault / "AGENTS.md").read_text()
    async with live() as daemon_rig:
        reported = await install(daemon_rig, EXAMPLES / "daily")
        assert (reported["status"], "not this one" in reported["problem"]) == ("failed", True)
        save(vault / "Projects/garden/AGENTS.md", note("Garden", focus="- sow"))
        await post(daemon_rig, "/api/bubble/run", {"path": "Projects/garden/AGENTS.md"})
        await daemon_rig.until(lambda: daemon_rig.reported("run.finished"))
        run = next(event for event in daemon_rig.events if event.event == "run.finished")
        assert (run.data["outcome"], "let it sleep" in run.data["reason"]) == ("failed", True)
    assert (vault / "AGENTS.md").read_text() == before


async def test_nothing_of_hooks_and_modules_outlives_the_daemon(
    live: Live, home: Path, vault: Path
):
    drop(home, "on-file-created.sh", "#!/bin/sh\nsleep 300 &\nsleep 300\n")
    async with live() as daemon_rig:
        assert (await install(daemon_rig, EXAMPLES / "daily", "untrusted"))["where"] == "container"
        save(vault / "new.md", "# New\n")
        await daemon_rig.until(
            lambda: any(
                "sleep" in " ".join(child.cmdline())
                for child in psutil.Process().children(recursive=True)
            )
        )
    left = [
        child.cmdline()
        for child in psutil.Process().children(recursive=True)
        if child.status() != psutil.STATUS_ZOMBIE
    ]
    assert [words for words in left if "sleep" in words or "host_main" in " ".join(words)] == []
