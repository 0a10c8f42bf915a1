"""What an owner does on the page: keys, settings, hooks, modules, agents, health, first steps."""

from __future__ import annotations

import json
import re
import shutil
import urllib.request
from collections.abc import Callable, Iterator

import pytest
from playwright.sync_api import expect

from tests.cli.command_line import CommandLine
from tests.modules.small_modules import write_module
from tests.web.opened import Opens

GARDEN = """
from dataclasses import dataclass
@dataclass
class Settings:
    days: int = 3
@route("GET", "/")
async def show(self):
    self.log.warning("the garden was looked at")
    return {}
"""


@pytest.fixture
def hook(daemon: CommandLine) -> Iterator[Callable[[str], None]]:
    """Writes the script of a hook."""
    place = daemon.home / "hooks/on-session-start.sh"

    def write(text: str) -> None:
        place.parent.mkdir(mode=0o700, exist_ok=True)
        place.write_text(f"#!/bin/sh\n# Greets\ncat >/dev/null\n{text}\n")
        place.chmod(0o755)

    yield write
    place.unlink(missing_ok=True)


def test_a_key_is_made_by_keyboard_shown_once_with_its_code_and_revoked(
    opens: Opens, daemon: CommandLine
):
    it = opens("#/keys", width=390)
    it.page.get_by_role("button", name="New key").focus()
    it.page.keyboard.press("Enter")
    it.page.get_by_label("What it is for").fill("tablet")
    it.page.get_by_label("What it may do").select_option("chosen")
    it.page.get_by_label("Only these paths").fill("Garden/**")
    it.page.get_by_role("button", name="Make the key").focus()
    it.page.keyboard.press("Enter")
    expect(it.page.get_by_role("img", name="QR code")).to_be_visible()
    key = it.page.get_by_label("Key", exact=True).input_value()
    assert it.faults() == []
    made = next(one for one in daemon.json("keys", "list")["keys"] if one["name"] == "tablet")
    assert made["scopes"] == [{"module": "vault", "capabilities": ["read"], "paths": ["Garden/**"]}]

    narrow = opens(f"{it.url}/#key={key}", quiet=False)
    narrow.click("Use the other key")
    narrow.go("#/settings")
    narrow.sees("Your key may not do this")
    it.click("I have it")
    it.misses("This is shown once")
    card = it.page.locator(".card").filter(has_text="tablet")
    card.get_by_role("button", name="Revoke").click()
    card.get_by_role("button", name="Revoke it").click()
    it.sees("Revoked. It opens nothing any more.")
    expect(card).to_have_count(0)
    assert "tablet" not in {one["name"] for one in daemon.json("keys", "list")["keys"]}


def test_a_setting_is_changed_for_the_next_start_a_wrong_value_refused(
    opens: Opens, daemon: CommandLine
):
    it = opens("#/settings", quiet=False)
    it.page.get_by_label("Search settings").fill("runs_per_hour")
    box = it.page.get_by_label(re.compile("^budget.runs_per_hour"))
    box.fill("many")
    it.click("Save")
    it.sees("config.yaml was not changed")
    box.fill("77")
    it.click("Save")
    it.sees("77 from the next start on")
    assert daemon.does("config", "get", "budget.runs_per_hour") == "77\n"
    it.click("Back to the default")
    it.misses("77 from the next start on")
    assert daemon.does("config", "get", "budget.runs_per_hour") == "60\n"


def test_a_changed_hook_is_shown_approved_tried_and_run_again(
    opens: Opens, daemon: CommandLine, hook: Callable[[str], None]
):
    hook("echo good morning")
    daemon.until(lambda: daemon.json("hooks", "list")["hooks"])
    daemon.does("hooks", "approve")
    hook("echo good evening")
    daemon.until(lambda: daemon.json("hooks", "list")["hooks"][0]["problem"])
    it = opens("#/health")
    it.sees("has changed since it was approved")
    it.click("Open Hooks", "link")
    it.page.get_by_role("link", name=re.compile("on-session-start.sh")).first.click()
    it.page.locator("pre").get_by_text("echo good evening").wait_for()
    assert it.faults() == []
    it.click("Approve it as shown")
    it.sees("approved as it is")
    it.click("Try it on a sample")
    it.sees("It would go on.")
    it.page.get_by_role("link", name=re.compile(r"\d ms")).first.click()
    it.click("Run it again on the same input")
    it.sees("It ran again.")
    assert {one["decision"] for one in daemon.json("hooks", "history")["runs"]} == {"done"}


def test_a_module_is_approved_set_up_looked_into_and_removed(opens: Opens, daemon: CommandLine):
    source = write_module(daemon.folder / "from/garden", GARDEN, name="garden")
    it = opens("#/modules", quiet=False)
    it.page.get_by_label("Install from").fill(str(source))
    it.page.get_by_label("How far you trust it").select_option("trusted")
    it.click("Show what it may do")
    it.sees("at /api/garden")
    assert it.faults() == []
    it.click("Approve, and let it run")
    it.sees("garden runs.")
    record = json.loads((daemon.home / "run/daemon.json").read_bytes())
    with urllib.request.urlopen(
        f"http://127.0.0.1:{record['port']}/api/garden", timeout=60
    ) as answer:
        assert answer.status == 200

    it.go("#/modules/garden/settings")
    it.page.get_by_label(re.compile("^days")).fill("many")
    it.click("Save")
    it.sees("days is as it was")
    it.page.get_by_label(re.compile("^days")).fill("7")
    it.click("Save")
    it.sees("default: 3")
    assert daemon.does("config", "get", "modules.garden.days") == "7\n"
    it.go("#/modules/garden/log")
    it.sees("the garden was looked at")
    code = daemon.vault / "Modules/garden/module.py"
    code.write_text(code.read_text() + "# more\n")
    it.page.reload()  # a folder is compared when modules are listed
    it.sees("changed, runs as approved")
    it.click("Turn off")
    it.page.get_by_role("button", name="Turn on").wait_for()
    it.click("Remove…")
    it.click("Remove it")
    it.sees("garden is removed.")


def test_what_an_agent_may_do_is_shown_exactly(opens: Opens):
    it = opens("#/agents")
    it.page.get_by_role("link").filter(has_text="daily/journal").click()
    expect(it.page.locator(".facts")).to_contain_text(["Daily/**"])
    it.sees("write Modules/ or Suggestions/")


def test_an_empty_home_begins_with_first_steps_shown_once(opens: Opens, daemon: CommandLine):
    it = opens("#/keys", quiet=False)

    def without_modules(route) -> None:
        reported = route.fetch()
        route.fulfill(response=reported, json={**reported.json(), "modules": []})

    it.page.route("**/api/health*", without_modules)
    it.page.goto(f"{it.url}/")
    it.page.reload()
    it.page.wait_for_url(re.compile("#/first$"))
    it.sees(str(daemon.vault))
    it.sees("Docker:")
    before = daemon.does("config", "get", "vault").strip()
    it.page.get_by_text("Use another folder").click()
    it.page.get_by_label("Folder of notes on this machine").fill("Notes")
    it.click("Use this folder")
    it.sees("begin it with / or ~/")
    it.page.get_by_label("Folder of notes on this machine").fill(str(daemon.folder / "second"))
    it.click("Use this folder")
    it.sees("is your vault from the next start on.")
    assert (daemon.folder / "second/Welcome.md").exists()
    assert daemon.does("config", "get", "vault").strip() == str(daemon.folder / "second")
    restarts: list[str] = []
    it.page.route(
        "**/supervisor/server/restart",
        lambda route: (restarts.append(route.request.method), route.fulfill(json={})),
    )
    it.click("Restart the daemon")
    it.sees("The daemon restarts.")
    assert restarts == ["POST"]
    daemon.does("config", "set", "vault", before)
    it.click("Make them, and save the plan")
    it.sees("The overview followed.")
    it.page.locator(".diff .added").first.wait_for()
    assert it.faults() == []
    assert "Plan" in (daemon.vault / "First steps/Overview.md").read_text()
    it.click("Skip all of this")
    it.page.wait_for_url(re.compile("#/journal$"))
    it.page.goto(f"{it.url}/")
    it.page.reload()
    it.sees("The module daily is not running")
    shutil.rmtree(daemon.vault / "First steps")
