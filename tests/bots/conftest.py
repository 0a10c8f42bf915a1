"""A daemon with bots, for each platform that there is."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from parachuted.agents.calling import call_tool
from parachuted.agents.job import Job, RunResult, Step, TextDelta, TextStep
from tests.api.calls import call
from tests.bots.discord_rig import DiscordRig
from tests.bots.matrix_rig import MatrixRig
from tests.bots.rigs import PlatformRig, Shown
from tests.bots.synapse import running_synapse
from tests.bots.telegram_rig import TelegramRig
from tests.module_files import install_official
from tests.stories.daemon_rig import DaemonRig, running_daemon

PATIENCE_S = 120.0
PLATFORMS = ("matrix", "telegram", "discord")
Answering = Callable[[Job], AsyncIterator[Step]]


def question_of(job: Job) -> str:
    return (job.prompt.strip().splitlines() or ["nothing"])[-1]


async def says_so(job: Job) -> AsyncIterator[Step]:
    yield TextDelta(text=f"You said: {question_of(job)}")


class Model:
    """Answers each turn as `script` says; `prompts` are what it was asked in turns."""

    name = "scripted"

    def __init__(self) -> None:
        self.script: Answering = says_so
        self.jobs: list[Job] = []

    @property
    def prompts(self) -> list[str]:
        return [job.prompt for job in self.jobs]

    async def run(self, job: Job) -> AsyncIterator[Step]:
        if job.conversation is None:
            yield TextStep(text="Noted.")
        else:
            self.jobs.append(job)
            async for step in self.script(job):
                yield step
        yield RunResult(
            cost_usd=0.0, input_tokens=0, output_tokens=0, turns=1, session_id=f"s-{job.watcher}"
        )

    async def close(self) -> None:
        """Nothing runs on."""


class Bots:
    def __init__(self, daemon_rig: DaemonRig, platform: PlatformRig, model: Model) -> None:
        self.daemon, self.platform, self.model = daemon_rig, platform, model
        self.vault = daemon_rig.vault

    async def api(self, method: str, path: str, **options: Any) -> Any:
        """Call the API; the answer has to be a success."""
        status, answer = await call(self.daemon, method, f"/api/{path}", **options)
        assert status < 300, (method, path, status, answer)
        return answer

    async def status(self) -> dict[str, Any]:
        found = await self.api("GET", "bots/status")
        return dict(found["connectors"][self.platform.platform])

    async def is_well(self) -> bool:
        status = await self.status()
        return (status["running"], status["problem"]) == (True, "")

    async def connected(self) -> None:
        async def running() -> bool | None:
            is_running = (await self.status())["running"]
            return True if is_running and self.platform.has_listener() else None

        await eventually(running, self.status)

    async def pair(self, person: str, chat: str) -> None:
        """Let a person in, by the code that the bot gives them in that chat."""
        await self.platform.say(person, chat, "Hello")
        await self.until(chat, lambda shown: "code is" in shown[-1].text)
        pending = (await self.api("GET", "bots/pairing"))["pending"]
        (one,) = [one for one in pending if one["sender_id"] == person]
        await self.api("POST", f"bots/pairing/{one['code']}/approve", json={})

    async def paired(self, name: str = "Ana") -> tuple[str, str]:
        person = await self.platform.person(name)
        chat = await self.platform.dm(person)
        await self.pair(person, chat)
        return person, chat

    async def let_in(self, count: int) -> dict[str, str]:
        """So many new people, without a code; by their direct chats."""
        rig = self.platform
        people = [await rig.person(f"P{number}") for number in range(count)]
        settings = {rig.platform: {"allowed_users": people}}
        await self.api("PUT", "bots/config", json=settings)
        return {await rig.dm(person): person for person in people}

    async def until(self, chat: str, condition: Callable[[list[Shown]], object]) -> list[Shown]:
        """What the bot has said there, once that holds."""

        async def shown() -> list[Shown] | None:
            found = await self.platform.shown(chat)
            return found if found and condition(found) else None

        return await eventually(shown, lambda: self.platform.shown(chat))

    async def quiet(self) -> None:
        """Wait until no turn goes on: the answer of one may be shown before its end is kept."""

        async def ended() -> bool | None:
            return None if (await self.api("GET", "chat/active-streams"))["streams"] else True

        await eventually(ended, lambda: self.api("GET", "chat/active-streams"))

    async def kept(self, asked: Shown) -> None:
        """Wait until the bot knows which message its question is, which is shown before."""
        hosts = self.daemon.daemon.modules.manager.hosts()
        (store,) = [host.instance.store for host in hosts if host.name == "bots"]

        async def known() -> bool | None:
            questions = await store.questions_of((await self.sessions())[0]["id"])
            return any(question.message_id == asked.id for question in questions) or None

        await eventually(known, self.sessions)

    async def answer(self, chat: str, words: str) -> list[Shown]:
        """What the bot has said there, once its last message has these words."""
        return await self.until(chat, lambda shown: words in shown[-1].text)

    async def exchange(
        self, person: str, chat: str, text: str, words: str = "", *, to_bot: bool = False
    ) -> list[Shown]:
        """The same once somebody has said something, which is repeated if no words are named."""
        await self.platform.say(person, chat, text, to_bot=to_bot)
        return await self.answer(chat, words or f"You said: {text}")

    async def asked(self) -> None:
        await holds(lambda: self.model.jobs)

    def is_strangers(self, path: str) -> bool:
        return self.daemon.daemon.vault.strangers.is_text(path, (self.vault / path).read_bytes())

    async def refused(self) -> list[str]:
        found = (await self.api("GET", "audit?limit=1000"))["events"]
        lines = [one for one in found if one["target_endpoint"] == "bots: event bots.refused"]
        return [line["details"]["person"] for line in reversed(lines)]

    async def written(self) -> str:
        notes = await asyncio.to_thread(lambda: [*self.vault.rglob("*.md")])
        return "\n".join([note.read_text() for note in notes])

    async def sessions(self) -> list[dict[str, Any]]:
        return list((await self.api("GET", "chat"))["sessions"])

    async def said(self, number: int = 0) -> list[str]:
        """What the messages of a session say, by roles."""
        sessions = await self.sessions()
        found = await self.api("GET", f"chat/{sessions[number]['id']}")
        return [f"{one['role']}: {one['content']}" for one in found["messages"]]


async def on_page(bots: Bots, session_id: str, words: str) -> None:
    """Say something on the page, and wait until its turn has ended."""
    body = {"message": words, "sessionId": session_id}
    async with aiohttp.ClientSession() as client:
        status = 409
        while status == 409:
            async with client.post(f"{bots.daemon.url}/api/chat", json=body) as answer:
                status, _ = answer.status, await answer.text()


async def eventually(
    ask: Callable[[], Awaitable[Any]], look: Callable[[], Awaitable[object]]
) -> Any:
    """What is there once it is not None."""
    deadline = time.monotonic() + PATIENCE_S
    while True:
        found = await ask()
        if found is not None:
            return found
        if time.monotonic() > deadline:
            raise AssertionError(f"it did not come; there is {await look()}")
        await asyncio.sleep(0.02)


async def holds(condition: Callable[[], object]) -> None:
    async def look() -> bool | None:
        return True if condition() else None

    await eventually(look, look)


def in_parts(first: str, going: asyncio.Event, last: str) -> Answering:
    """Says the last part once that is set."""

    async def script(_job: Job) -> AsyncIterator[Step]:
        if first:
            yield TextDelta(text=first)
        await going.wait()
        yield TextDelta(text=last)

    return script


OPTIONS = [{"label": one, "description": ""} for one in ("South", "North")]
QUESTION = {"question": "Which bed?", "header": "Bed", "multiSelect": False, "options": OPTIONS}


async def asks(job: Job) -> AsyncIterator[Step]:
    result = await call_tool(job.tools, "AskUserQuestion", {"questions": [QUESTION]})
    yield TextDelta(text=f"So {'South' if 'South' in result.text else 'North'}.")


@pytest.fixture(scope="session")
def synapse(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with running_synapse(tmp_path_factory.mktemp("synapse")) as url:
        yield url


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """A story runs on each platform; one of what all share on one, in `make torture` on each."""
    marks = list(metafunc.definition.iter_markers("parametrize"))
    if "platform" in metafunc.fixturenames and not any("platform" in one.args[0] for one in marks):
        is_shared = metafunc.definition.get_closest_marker("shared") is not None
        is_torture = metafunc.config.getoption("--torture")
        platforms = ["telegram"] if is_shared and not is_torture else PLATFORMS
        metafunc.parametrize("platform", platforms, indirect=True)


@pytest.fixture
async def platform(request: pytest.FixtureRequest) -> AsyncIterator[PlatformRig]:
    rig: PlatformRig
    if request.param == "telegram":
        rig = await TelegramRig().open()
    elif request.param == "discord":
        rig = await DiscordRig().open()
    else:
        rig = await MatrixRig(request.getfixturevalue("synapse")).open()
    try:
        yield rig
    finally:
        await rig.close()


Starting = Callable[..., AbstractAsyncContextManager[Bots]]


@pytest.fixture
def starting(vault: Path, home: Path, platform: PlatformRig) -> Starting:
    """Start a daemon with that bot; again on the same vault and home, if need be."""

    @asynccontextmanager
    async def start(model: Model | None = None, *more: str) -> AsyncIterator[Bots]:
        model = model or Model()
        async with running_daemon(vault, home, model) as daemon_rig:
            bots = Bots(daemon_rig, platform, model)
            if not (vault / "Modules/bots").exists():
                await install_official(daemon_rig, *more, "chat", "bots")
                await bots.api("PUT", "bots/config", json={platform.platform: platform.settings()})
            await bots.connected()
            yield bots

    return start


@pytest.fixture
async def bots(starting: Starting) -> AsyncIterator[Bots]:
    async with starting() as running:
        yield running
