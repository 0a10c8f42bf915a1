"""Listening: what the bus tells, as hooks are told it: what it followed from, what it changed, in
its order, and never in anybody's way.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

import pytest

from parachuted.access.events import FieldKind
from parachuted.events import Bus, Change, EventKind
from parachuted.hooks import HookEvent
from parachuted.hooks.event_listener import HookEventListener
from parachuted.vault import Author, IndexEntry, ObjectStore, VaultPath, digest_of

NOON = datetime(2026, 1, 6, 12, tzinfo=UTC)
VAULT = Path("/v")
A = VaultPath("a.md")
OLD, NEW = (
    b"---\nstatus: draft\n---\n# A\n\n## Facts\n\n- one\n",
    b"---\nstatus: draft\n---\n# A\n\n## Facts\n\n- two\n",
)


@dataclass
class Told:
    """Hooks for some events."""

    wanted: set[str]
    heard: list[HookEvent] = field(default_factory=list)

    def tell(self, hook_event: HookEvent) -> None:
        self.heard.append(hook_event)


@dataclass
class Ear:
    """A bus, hooks, and what is between them, at work."""

    bus: Bus
    told: Told
    objects: ObjectStore
    listening: HookEventListener
    problems: list[tuple[str, str | None]]

    async def hears(self, count: int) -> list[HookEvent]:
        async with asyncio.timeout(20):
            while len(self.told.heard) < count:
                await asyncio.sleep(0.002)
        return self.told.heard

    def changed(self, change: Change) -> None:
        """As the daemon tells of one."""
        with self.listening.about([change]):
            self.bus.publish(
                f"file.{change.kind}",
                path=str(change.path),
                by=change.author.by,
                run=change.author.run,
                causes=list(change.author.causes),
                digest=change.new.digest if change.new else None,
                **({"from": str(change.source)} if change.source else {}),
            )


@pytest.fixture
async def ear(tmp_path: Path) -> AsyncIterator[Ear]:
    bus, objects = Bus(lambda: NOON), ObjectStore(tmp_path / "objects")
    told, problems = (
        Told(
            {
                "file.created",
                "file.modified",
                "file.moved",
                "file.deleted",
                "run.finished",
                "weather.changed",
            }
        ),
        [],
    )
    listening = HookEventListener(
        bus,
        told,
        vault=VAULT,
        objects=objects,
        root_of=lambda cause: f"{cause}.md",
        report=lambda *said: problems.append(said),
    )
    async with asyncio.TaskGroup() as group:
        running = group.create_task(listening.run())
        yield Ear(bus, told, objects, listening, problems)
        running.cancel()
    listening.close()
    objects.close()


def entry(data: bytes | None) -> IndexEntry | None:
    return None if data is None else IndexEntry(1, 1, len(data), 1, digest_of(data))


def change(
    old: bytes | None,
    new: bytes | None,
    *,
    data: bytes | None = None,
    source: VaultPath | None = None,
) -> Change:
    kind = (
        "moved"
        if source
        else "created"
        if old is None
        else "deleted"
        if new is None
        else "modified"
    )
    author = Author(by="curator", run="r1", causes=("c1",))
    return Change(
        kind=kind, path=A, old=entry(old), new=entry(new), author=author, source=source, data=data
    )


async def test_a_change_is_reported_with_its_cause_its_place_and_its_difference(ear: Ear):
    ear.objects.put(OLD)
    ear.changed(change(OLD, NEW, data=NEW))
    (heard,) = await ear.hears(1)

    assert (heard.event, heard.at, heard.vault, heard.module) == (
        "file.modified",
        NOON,
        VAULT,
        None,
    )
    assert (heard.data["path"], heard.data["frontmatter"]) == ("a.md", {"status": "draft"})
    assert heard.cause == {
        "id": "c1",
        "root": "c1.md",
        "depth": 1,
        "actor": "curator",
        "run": "r1",
        "chain": ["c1"],
    }
    assert heard.diff["changed"] == ["A > Facts"]
    assert "-- one\n+- two\n" in heard.diff["text"]


async def test_a_text_that_is_kept_need_not_be_at_hand(ear: Ear):
    ear.objects.put(OLD)
    ear.objects.see([(digest_of(NEW), NEW)])
    ear.changed(change(OLD, NEW))
    (heard,) = await ear.hears(1)

    assert heard.diff["changed"] == ["A > Facts"]


@pytest.mark.parametrize(
    ("what", "said"),
    [
        (change(OLD, NEW, data=NEW), "not kept"),
        (change(None, b"\0\1", data=b"\0\1"), "not text"),
        (change(None, b"x" * (5 << 20), data=b"x" * (5 << 20)), "too large"),
    ],
)
async def test_what_cannot_be_compared_is_reported_as_that(ear: Ear, what: Change, said: str):
    ear.changed(what)
    (heard,) = await ear.hears(1)

    assert said in heard.diff["text"]


async def test_a_new_a_moved_and_a_deleted_file_have_their_differences_too(ear: Ear):
    ear.objects.put(OLD)
    ear.changed(change(None, OLD, data=OLD))
    ear.changed(change(OLD, OLD, data=OLD, source=VaultPath("b.md")))
    ear.changed(change(OLD, None))
    created, moved, deleted = await ear.hears(3)

    assert "+- one\n" in created.diff["text"]
    assert (moved.data["from"], moved.diff["text"], moved.diff["changed"]) == (
        "/v/b.md",
        "rename from b.md\nrename to a.md\n",
        [],
    )
    assert "-- one\n" in deleted.diff["text"]
    assert "frontmatter" not in deleted.data


async def test_events_are_reported_in_their_order_and_only_those_that_are_wanted(ear: Ear):
    for number in range(100):
        ear.changed(change(None, b"%d" % number, data=b"%d" % number))
        ear.bus.publish(
            "run.finished",
            run=f"r{number}",
            watcher="w.md",
            outcome="changed",
            reason="",
            paths=["w.md"],
            cost_usd=0.0,
        )
        ear.bus.publish("watch.removed", watcher="w.md")
    heard = await ear.hears(200)

    assert [one.event for one in heard] == ["file.created", "run.finished"] * 100
    assert [one.data["run"] for one in heard[1::2]] == [f"r{number}" for number in range(100)]
    assert heard[1].data["paths"] == ["/v/w.md"]
    assert (heard[1].diff, heard[1].cause) == (None, None)


async def test_an_event_that_another_led_to_is_not_told_with_its_difference(ear: Ear):
    ear.bus.subscribe(
        lambda event: (
            ear.bus.publish(
                "file.deleted", path="z.md", by="person", run=None, causes=[], digest=None
            )
            if event.event == "file.created"
            else None
        )
    )
    ear.changed(change(None, OLD, data=OLD))
    _created, deleted = await ear.hears(2)

    assert (deleted.data["path"], deleted.diff) == ("z.md", None)


async def test_a_module_s_event_is_reported_as_the_module_s(ear: Ear):
    ear.bus.declare(
        EventKind(
            name="weather.changed",
            tells="It rains.",
            fields={"mm": FieldKind.NUMBER},
            publisher="weather",
        )
    )
    ear.bus.publish("weather.changed", mm=3)
    (heard,) = await ear.hears(1)

    assert (heard.module, dict(heard.data)) == ("weather", {"mm": 3})


async def test_when_too_much_waits_the_oldest_goes_and_that_is_said_until_it_is_over(ear: Ear):
    for number in range(1500):  # the loop is not given a turn in between
        ear.bus.publish(
            "run.finished",
            run=f"r{number}",
            watcher="w.md",
            outcome="changed",
            reason="",
            paths=[],
            cost_usd=0.0,
        )
    heard = await ear.hears(1000)
    async with asyncio.timeout(20):
        while len(ear.problems) < 2:
            await asyncio.sleep(0.002)

    assert (len(heard), heard[0].data["run"], heard[-1].data["run"]) == (1000, "r500", "r1499")
    assert [(subject, problem is None) for subject, problem in ear.problems] == [
        ("hooks:listening", False),
        ("hooks:listening", True),
    ]


async def test_after_the_end_nothing_is_reported(ear: Ear):
    ear.listening.close()
    ear.bus.publish(
        "run.finished",
        run="r",
        watcher="w.md",
        outcome="changed",
        reason="",
        paths=[],
        cost_usd=0.0,
    )
    await asyncio.sleep(0)

    assert ear.told.heard == []


async def test_an_event_that_no_hook_wants_costs_next_to_nothing(ear: Ear):
    event = ear.bus.publish("watch.removed", watcher="w.md")
    took = []
    for _ in range(20):
        began = time.perf_counter()
        for _ in range(100):
            ear.listening._on_events([event])
        took.append((time.perf_counter() - began) / 100)

    assert min(took) < 50e-6
