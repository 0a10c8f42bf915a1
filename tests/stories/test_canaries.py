"""Canaries: secrets are planted in every place where secrets live, agents of every kind look for
them, and none is seen in anything that comes out: what the model is asked, tools' answers,
documents, logs, the audit, events, answers of the API, commands, containers.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import shutil
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import aiohttp
import pytest

from parachuted.agents.sandbox import Sandboxes
from parachuted.testing import ApiRefusal, RecordedRequest, ScriptedMessages, Turn, say, use
from tests.api.test_app import ROUTES
from tests.cli.command_line import CommandLine
from tests.engine import WITHOUT, have_image
from tests.modules.small_modules import write_module
from tests.stories.boxed import native
from tests.stories.daemon_rig import note, save
from tests.stories.planted_secrets import PlantedVault, running

MANIFEST = """\
description: Keeps the work in order.
permissions:
  read: ["Work/**"]
  write: ["Work/**"]
agents:
  tidy:
    description: Tidies.
    paths: ["Work/**"]
    capabilities: [read, write]
    bash: true
  talker:
    description: Talks.
    paths: ["Work/**"]
    capabilities: [read, write]
"""
LOOK = r"""
env; set; cat /proc/*/environ /proc/*/cmdline 2>/dev/null | tr '\0' '\n'; mount; cat /proc/*/mountinfo /proc/*/maps 2>/dev/null | head -2000
for place in /*; do case $place in /usr|/lib*|/bin|/sbin|/proc|/sys|/dev) ;; *)
  find $place -xdev 2>/dev/null; grep -rahsE 'cnry[0-9]{3}' $place;; esac; done
ls -laR /vault /outside /home /root /run /tmp 2>&1 | head -500; python3 - <<'END'
import glob, socket
for path in glob.glob('/run/**/*.sock', recursive=True) + glob.glob('/**/gateway.sock'):
    for asked in (b'GET /v1/models', b'POST /v1/messages', b'GET /'):
        try:
            s = socket.socket(socket.AF_UNIX); s.settimeout(2); s.connect(path)
            s.sendall(asked + b' HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\nConnection: close\r\n\r\n[]')
            print(path, s.recv(65536))
        except OSError as error:
            print(path, error)
END
"""  # noqa: E501
SYSTEM = (
    "config.yaml",
    "modules.yaml",
    "hooks.yaml",
    "keys.yaml",
    "logs/daemon.log",
    "logs/start.log",
)
COMMANDS = (
    "status",
    "doctor",
    "usage",
    "sandbox doctor",
    "sandbox explain keeper/tidy",
    "sandbox explain maintenance",
    "auth status",
    "hooks list",
    "modules status keeper",
    "config",
)


def parrot(request: RecordedRequest) -> Turn:
    """A model's server that fails and repeats all that it was asked with."""
    return ApiRefusal(
        status=400,
        kind="invalid_request_error",
        message=f"bad request: {json.dumps(dict(request.headers))}",
    )


@dataclass
class Outputs:
    """All that came out, by where."""

    texts: dict[str, str] = field(default_factory=dict)

    def add(self, where: str, text: str) -> None:
        self.texts[where] = self.texts.get(where, "") + text


@dataclass
class DaemonWithSecrets:
    """A running daemon among secrets."""

    garden: PlantedVault
    command_line: CommandLine
    api: ScriptedMessages
    seen: Outputs
    engine: Mapping[str, str] | None
    url: str = ""
    key: str = ""

    async def command(self, *words: str) -> str:
        done = await asyncio.to_thread(self.command_line, *words)
        self.seen.add(f"parachute {' '.join(words)}", done.stdout + done.stderr)
        return done.stdout

    async def call(
        self, method: str, path: str, body: object = None, *, is_own: bool = False
    ) -> str:
        """As the machine's own user, or by a key that may read some notes."""
        headers = (
            {}
            if is_own
            else {"Authorization": f"Bearer {self.key}", "X-Forwarded-For": "192.0.2.7"}
        )
        async with (
            aiohttp.ClientSession() as session,
            session.request(method, self.url + path, json=body, headers=headers) as answer,
        ):
            text = await answer.text()
        self.seen.add(
            f"{method} {path} ({'own' if is_own else 'key'})", f"{dict(answer.headers)}\n{text}"
        )
        return text

    async def listen(self) -> None:
        """All events, as they are told."""
        async with (
            aiohttp.ClientSession() as session,
            session.get(
                self.url + "/api/events", timeout=aiohttp.ClientTimeout(total=None)
            ) as answer,
        ):
            async for piece in answer.content.iter_any():
                self.seen.add("events", piece.decode("utf-8", "replace"))

    def while_it_runs(self, *blocks: object) -> Turn:
        """A turn of the model, during which the machine is looked at."""

        def turn(_request: RecordedRequest) -> Turn:
            for where, text in running(self.engine or {}) if self.engine else ():
                self.seen.add(where, text)
            return list(blocks)

        return turn


@contextlib.asynccontextmanager
async def scene(
    tmp_path: Path, engine: Mapping[str, str] | None
) -> AsyncIterator[DaemonWithSecrets]:
    user, home, vault = tmp_path / "user", tmp_path / "home", tmp_path / "vault"
    for folder in (user, home, vault):
        folder.mkdir(mode=0o700)
    garden = PlantedVault(user=user, home=home, vault=vault)
    garden.plant_files()
    save(vault / "Work/AGENTS.md", note("Work", watch=["Work/*.md"]))
    save(vault / "Work/plan.md", "# Plan\n\n- one\n")
    async with ScriptedMessages() as api:
        password = garden.new("the password in base_url")
        garden.put(
            home / "config.yaml",
            f"# {garden.new('a remark in config.yaml')}\nagent:\n  base_url: "
            f"{api.url.replace('://', f'://someone:{password}@')}\n",
        )
        quick = {"PARACHUTE_BUBBLE_QUIET_S": "0.05", "PARACHUTE_AGENT_ASK_S": "0.3"}
        environ = {
            **garden.environment(),
            **{name: value for name, value in (engine or {}).items() if name != "HOME"},
            **quick,
        }
        # forked, its environment would not be where others might look for it
        command_line = CommandLine(
            home=home, vault=vault, folder=user, environ=environ, forks_daemon=False
        )
        made = DaemonWithSecrets(
            garden=garden, command_line=command_line, api=api, seen=Outputs(), engine=engine
        )
        try:
            await made.command("start", "--vault", str(vault), "--port", "0")
            record = json.loads((home / "run/daemon.json").read_text())
            made.url = f"http://127.0.0.1:{record['port']}"
            reader = await asyncio.to_thread(
                command_line,
                "keys",
                "create",
                "a reader",
                "--scope",
                "*:read",
                "--path",
                "Work/**",
                "--json",
            )
            master = await asyncio.to_thread(
                command_line, "keys", "create", "a master", "--scope", "*:admin", "--json"
            )
            made.key = garden.literals["a key's secret"] = json.loads(reader.stdout)["key"]
            garden.literals["a master's key"] = json.loads(master.stdout)["key"]
            yield made
        finally:
            with contextlib.suppress(Exception):
                await asyncio.to_thread(command_line, "stop")
            for pid in command_line.started():
                os.kill(pid, 9)


@pytest.mark.timeout(600)  # all ways out of a whole daemon, one after the other
async def test_no_secret_is_seen_in_anything_that_comes_out(
    request: pytest.FixtureRequest, tmp_path: Path
):
    engine: Mapping[str, str] | None
    try:
        engine = request.getfixturevalue("engine")
    except pytest.skip.Exception:
        engine = None
    await story(tmp_path, engine)
    if engine is None:
        pytest.skip(f"{WITHOUT}no secret was seen, but no container was looked at")


async def story(tmp_path: Path, engine: Mapping[str, str] | None) -> None:
    if engine is not None:
        await with_image(engine, tmp_path)
    async with scene(tmp_path, engine) as daemon_rig, asyncio.TaskGroup() as group:
        listening = group.create_task(daemon_rig.listen())
        await act(daemon_rig)
        await look(daemon_rig)
        listening.cancel()
        await daemon_rig.command("stop")
        for where, text in left_behind(daemon_rig):
            daemon_rig.seen.add(where, text)
        assert len(daemon_rig.garden.places) >= 50
        daemon_rig.seen.texts.pop(
            "GET /api/hooks (own)"
        )  # who administers sees the commands of hooks, as they are in hooks.yaml
        found = {
            where: daemon_rig.garden.found(text) for where, text in daemon_rig.seen.texts.items()
        }
        assert {where: places for where, places in found.items() if places} == {}
        assert len(daemon_rig.seen.texts) > 80


async def act(daemon_rig: DaemonWithSecrets) -> None:
    """Agents of every kind are at work, and look for secrets."""
    folder = daemon_rig.garden.user / "keeper"
    write_module(folder, "", name="keeper", manifest=MANIFEST)
    shown = json.loads(
        await daemon_rig.call("POST", "/api/modules/install", {"source": str(folder)}, is_own=True)
    )
    await daemon_rig.call(
        "POST",
        "/api/modules/keeper/approve",
        {"hash": shown["hash"], "trust": "trusted"},
        is_own=True,
    )
    api = daemon_rig.api
    paths = (
        "Private/diary.md",
        ".env",
        "../home/config.yaml",
        "Work/.env",
        str(daemon_rig.garden.user / ".netrc"),
    )
    private = [use("read_note", path=path) for path in paths]
    api.add(
        [use("list_notes"), use("search_notes", query="token"), *private],
        daemon_rig.while_it_runs(say("Looked.")),
    )
    await daemon_rig.call("POST", "/api/agents/keeper/talker/run", {"prompt": "Look."}, is_own=True)
    api.add(*[parrot] * 3)
    await daemon_rig.call("POST", "/api/agents/keeper/talker/run", {"prompt": "Fail."}, is_own=True)
    api._turns.clear()
    read = [use("read_system_file", path=f"home/{name}") for name in SYSTEM]
    shell = [native("Bash", command=LOOK, description="look")] if daemon_rig.engine else []
    api.add([use("list_system_files"), *read, *shell], daemon_rig.while_it_runs(say("Mended.")))
    await daemon_rig.call("POST", "/api/maintenance", {"prompt": "What is wrong?"}, is_own=True)
    if daemon_rig.engine:
        api.add(
            [native("Bash", command=LOOK, description="look")],
            [native("Bash", command="env > /vault/Work/env.md", description="keep")],
            daemon_rig.while_it_runs(say("Tidied.")),
        )
        ran = json.loads(
            await daemon_rig.call(
                "POST", "/api/agents/keeper/tidy/run", {"prompt": "Look."}, is_own=True
            )
        )
        assert [step["error"] for step in ran["steps"] if step["called"]] == [False, False]
        assert (daemon_rig.garden.vault / "Work/env.md").exists()
    asked = len(api.asked)
    api.add(
        [use("read_context_file", file_path="Private/diary.md")],
        daemon_rig.while_it_runs(say("Nothing.")),
        *[parrot] * 6,
    )
    for words, count in (("two", 2), ("three", 3)):
        save(daemon_rig.garden.vault / "Work/plan.md", f"# Plan\n\n- {words}\n")
        async with asyncio.timeout(120):
            while len(api.asked) < asked + count:
                await asyncio.sleep(0.02)


async def look(daemon_rig: DaemonWithSecrets) -> None:
    """Everything that can be asked of it."""
    runs = json.loads(await daemon_rig.call("GET", "/api/runs", is_own=True))["runs"]
    one = runs[0]["id"]
    fill = {"id": one, "name": "keeper", "path": "Private/diary.md"}
    for route in sorted(ROUTES):
        method, path = route.split()
        if method == "GET" and path not in {"/api/events", "/api/docs", "/api/openapi.json"}:
            asked = re.sub(r"\{(\w+)\}", lambda found: fill.get(found[1], "x"), path)
            for query in ("", "?path=Private/diary.md", "?q=token"):
                await daemon_rig.call("GET", asked + query)
    for path in (*OWN, *(f"/api/runs/{run['id']}" for run in runs)):
        await daemon_rig.call("GET", path, is_own=True)
    for start in range(0, len(COMMANDS), 4):
        await asyncio.gather(
            *(daemon_rig.command(*words.split()) for words in COMMANDS[start : start + 4])
        )


OWN = [
    "/api/health",
    "/api/doctor",
    "/api/usage",
    "/api/audit",
    "/api/agents",
    "/api/sandbox",
    "/api/hooks",
    "/api/hooks/runs",
    "/api/auth/settings",
    "/api/auth/keys",
    "/api/modules",
    "/api/models",
    "/supervisor/status",
    "/supervisor/models",
]


def left_behind(daemon_rig: DaemonWithSecrets) -> list[tuple[str, str]]:
    """What the model was asked, and what is on the disk: logs, the audit, and the notes that agents
    may read.
    """
    asked = [
        (f"asked of the model: {request.path}", json.dumps(request.body))
        for request in daemon_rig.api.requests
    ]
    carriers = {"x-api-key", "authorization"}
    for request in daemon_rig.api.requests:
        others = {
            name: value for name, value in request.headers.items() if name.lower() not in carriers
        }
        asked.append(("headers to the model", str(others)))
    home, vault = daemon_rig.garden.home, daemon_rig.garden.vault
    files = [
        *(home / "logs").rglob("*"),
        *(vault / ".parachute/audit").rglob("*"),
        *(vault / "Work").glob("*.md"),
    ]
    files += [home / "keys.yaml", home / "modules.yaml"]
    others_own = (
        "state.db",
        "objects",
        "history",
        "seen",
        "search",
    )  # what was in notes is there, and one that was planted
    files += [file for file in (home / "state").rglob("*") if not file.name.startswith(others_own)]
    below = daemon_rig.garden.user.parent
    return asked + [
        (str(file.relative_to(below)), file.read_bytes().decode("utf-8", "replace"))
        for file in files
        if file.is_file()
    ]


async def with_image(engine: Mapping[str, str], tmp_path: Path) -> None:
    made = Sandboxes(folder=tmp_path / "boxes", env=engine, label=tmp_path.name)
    try:
        await have_image(made)
    finally:
        await made.close()
        shutil.rmtree(tmp_path / "boxes", ignore_errors=True)
