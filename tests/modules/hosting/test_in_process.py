"""In process: what a module's code does, well or badly, ends at the wall."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest

from parachuted.errors import ModuleFailedError
from parachuted.modules.hosting.host import HandlerCall
from parachuted.modules.hosting.in_process import InProcessHost
from parachuted.modules.registry.arguments import RequestParts
from tests.modules.small_modules import StubServices, approve, until, write_module

Begin = Callable[..., InProcessHost]


@pytest.fixture
async def make(tmp_path: Path) -> AsyncIterator[Begin]:
    """Make a module that is ended after the test."""
    made: list[InProcessHost] = []

    def one(
        body: str, *, services: StubServices | None = None, limit_s: float = 30, **more: Any
    ) -> InProcessHost:
        approved = approve(write_module(tmp_path / f"module-{len(made)}", body))
        host = InProcessHost(approved, services or StubServices(), begin_limit_s=limit_s, **more)
        made.append(host)
        return host

    yield one
    for running in made:
        await running.stop()


async def failure_of(work: Awaitable[object]) -> str:
    with pytest.raises(ModuleFailedError) as failed:
        await work
    return str(failed.value)


def tasks_named(part: str) -> list[str]:
    return [task.get_name() for task in asyncio.all_tasks() if part in task.get_name()]


@pytest.mark.parametrize(
    "line",
    [
        "raise KeyError('secret')",
        "import sys; sys.exit(3)",
        "raise KeyboardInterrupt",
        "raise BaseException('odd')",
        "raise asyncio.CancelledError",
        "asyncio.current_task().cancel(); await asyncio.sleep(1)",
        "raise TimeoutError('its own')",
        "return object()",
    ],
)
async def test_whatever_a_handler_raises_is_its_failure_until_it_goes_well(make, line, caplog):
    running = make(
        f"""
        @route("GET", "/")
        async def odd(self, well: bool = False):
            if well:
                return "well"
            {line}
        @route("GET", "/other")
        async def other(self):
            return "fine"
        """
    )
    await running.start()

    with pytest.raises(ModuleFailedError, match="odd") as failed:
        await running.call(HandlerCall("odd"))

    assert "secret" not in str(failed.value)  # which may reach anyone who calls
    assert [(record.getMessage(), record.of) for record in caplog.records] == [
        ("a module failed", "daily")
    ]
    assert running.problem
    assert await running.call(HandlerCall("other")) == "fine"
    assert running.problem
    assert (
        await running.call(HandlerCall("odd", request=RequestParts(query={"well": "true"})))
        == "well"
    )
    assert running.problem is None


async def test_a_module_that_cannot_begin_leaves_nothing_behind(make):
    running = make(
        "async def on_enable(self):\n    while True: await asyncio.sleep(0)\n", limit_s=0.1
    )

    assert "on_enable" in await failure_of(running.start())

    assert running.problem
    assert tasks_named("of daily") == []
    assert "not running" in await failure_of(running.call(HandlerCall("anything")))


async def test_what_a_module_has_spawned_or_left_open_ends_with_it(make):
    services, ended = StubServices(), []
    running = make(
        """
        async def on_enable(self):
            self.spawn(self.wait, name="spawned wait")
            self.spawn(self.leave)
        async def wait(self):
            await asyncio.sleep(600)
        async def leave(self):
            raise SystemExit(0)
        @route("GET", "/")
        async def long(self):
            self.state.kept["begun"] = True
            try:
                await asyncio.sleep(600)
            finally:
                self.state.kept["ended"] = True
        @route("GET", "/ticks")
        async def ticks(self):
            yield 1
            await asyncio.sleep(600)
        """,
        services=services,
        on_stop=lambda: ended.append(True),
    )
    await running.start()
    await until(lambda: running.problem)
    assert "SystemExit" in running.problem, "which ends no daemon"
    assert tasks_named("spawned") == ["spawned wait"]
    async with asyncio.TaskGroup() as group:
        caller = group.create_task(running.call(HandlerCall("long")))
        await until(lambda: services.state.kept)
        caller.cancel()  # who goes away takes its call along
    await until(lambda: services.state.kept.get("ended"))

    stream = running.stream(HandlerCall("ticks"))
    await anext(stream)
    async with asyncio.TaskGroup() as group:
        calling = group.create_task(failure_of(running.call(HandlerCall("long"))))
        following = group.create_task(failure_of(anext(stream)))
        await asyncio.sleep(0.01)
        await running.stop()
    assert "long" in calling.result()
    assert "ticks" in following.result()
    assert tasks_named("spawned") == []
    assert ended == [True], "and so do the runs of its agents"


ENDING = """
@route("GET", "/ending")
async def ending(self):
    try:
        while True:
            yield 1
    finally:
        await self.state.put("ending", True)
        while not await self.state.get("go"):
            await asyncio.sleep(0)
        await self.state.put("ended", True)
"""


async def test_a_reader_that_leaves_twice_cuts_no_end_of_a_stream_short(make):
    services = StubServices()
    running = make(ENDING, services=services)
    await running.start()
    read = list[object]()

    async def reading() -> None:
        async with aclosing(running.stream(HandlerCall("ending"))) as items:
            read.append(await anext(items))
            await asyncio.Event().wait()

    async with asyncio.TaskGroup() as group:
        reader = group.create_task(reading())
        await until(lambda: read)
        reader.cancel()
        await until(lambda: "ending" in services.state.kept)
        reader.cancel()
        await until(reader.done)
        services.state.kept["go"] = True
    await until(lambda: "ended" in services.state.kept)
