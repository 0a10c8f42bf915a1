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

from parachuted.events import Bus, Change, EventKind
from parachuted.events.fields import FieldKind
from parachuted.hooks import HookEvent
from parachuted.hooks.listeners import HookEventListener
from parachuted.vault import Author, IndexEntry, ObjectStore, VaultPath, digest_of

NOON = datetime(2026, 1, 6, 12, tzinfo=UTC)
VAULT = Path("/v")
A = VaultPath("a.md")
OLD, NEW = (
    b"---\nstatus: draft\n---\n# A\n\n## Facts\n\n- one\n",
    b"---\nstatus: draft\n---\n# A\n\n## Facts\n\n- two\n",
)


@dataclass
class EventHooks:
    """Hooks for some events."""

    wanted: set[str]
    heard: list[HookEvent] = field(default_factory=list)

    def tell(self, hook_event: HookEvent) -> None:
        self.heard.append(hook_event)


@dataclass
class EventListenerRig:
    """A bus, hooks, and what is between them, at work."""

    bus: Bus
    reported: EventHooks
    objects: ObjectStore
    listening: HookEventListener
    problems: list[tuple[str, str | None]]

    async def hears(self, count: int) -> list[HookEvent]:
        async with asyncio.timeout(20):
            while len(self.reported.heard) < count:
                await asyncio.sleep(0.002)
        return self.reported.heard

    def run_finished(self, run: str) -> None:
        self.bus.publish(
            "run.finished",
            run=run,
            watcher="w.md",
            outcome="changed",
            reason="",
            paths=["w.md"],
            cost_usd=0.0,
        )

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
async def listener_rig(tmp_path: Path) -> AsyncIterator[EventListenerRig]:
    bus, objects = Bus(lambda: NOON), ObjectStore(tmp_path / "objects")
    kinds = {f"file.{kind}" for kind in ("created", "modified", "moved", "deleted")}
    reported, problems = EventHooks({*kinds, "run.finished", "weather.changed"}), []
    listening = HookEventListener(
        bus,
        reported,
        vault=VAULT,
        objects=objects,
        root_of=lambda cause: f"{cause}.md",
        report=lambda *said: problems.append(said),
    )
    async with asyncio.TaskGroup() as group:
        running = group.create_task(listening.run())
        yield EventListenerRig(bus, reported, objects, listening, problems)
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


async def test_a_change_is_reported_with_its_cause_its_place_and_its_difference(
    listener_rig: EventListenerRig,
):
    listener_rig.objects.put(OLD)
    listener_rig.changed(change(OLD, NEW, data=NEW))
    (heard,) = await listener_rig.hears(1)

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


async def test_a_text_that_is_kept_need_not_be_at_hand(listener_rig: EventListenerRig):
    listener_rig.objects.put(OLD)
    listener_rig.objects.see([(digest_of(NEW), NEW)])
    listener_rig.changed(change(OLD, NEW))
    (heard,) = await listener_rig.hears(1)

    assert heard.diff["changed"] == ["A > Facts"]


@pytest.mark.parametrize(
    ("what", "said"),
    [
        (change(OLD, NEW, data=NEW), "not kept"),
        (change(None, b"\0\1", data=b"\0\1"), "not text"),
        (change(None, b"x" * (5 << 20), data=b"x" * (5 << 20)), "too large"),
    ],
)
async def test_what_cannot_be_compared_is_reported_as_that(
    listener_rig: EventListenerRig, what: Change, said: str
):
    listener_rig.changed(what)
    (heard,) = await listener_rig.hears(1)

    assert said in heard.diff["text"]


async def test_a_new_a_moved_and_a_deleted_file_have_their_differences_too(
    listener_rig: EventListenerRig,
):
    listener_rig.objects.put(OLD)
    listener_rig.changed(change(None, OLD, data=OLD))
    listener_rig.changed(change(OLD, OLD, data=OLD, source=VaultPath("b.md")))
    listener_rig.changed(change(OLD, None))
    created, moved, deleted = await listener_rig.hears(3)

    assert "+- one\n" in created.diff["text"]
    assert (moved.data["from"], moved.diff["text"], moved.diff["changed"]) == (
        "/v/b.md",
        "rename from b.md\nrename to a.md\n",
        [],
    )
    assert "-- one\n" in deleted.diff["text"]
    assert "frontmatter" not in deleted.data


async def test_events_are_reported_in_their_order_and_only_those_that_are_wanted(
    listener_rig: EventListenerRig,
):
    for number in range(100):
        listener_rig.changed(change(None, b"%d" % number, data=b"%d" % number))
        listener_rig.run_finished(f"r{number}")
        listener_rig.bus.publish("watch.removed", watcher="w.md")
    heard = await listener_rig.hears(200)

    assert [one.event for one in heard] == ["file.created", "run.finished"] * 100
    assert [one.data["run"] for one in heard[1::2]] == [f"r{number}" for number in range(100)]
    assert heard[1].data["paths"] == ["/v/w.md"]
    assert (heard[1].diff, heard[1].cause) == (None, None)


async def test_an_event_that_another_led_to_is_not_reported_with_its_difference(
    listener_rig: EventListenerRig,
):
    listener_rig.bus.subscribe(
        lambda event: (
            listener_rig.bus.publish(
                "file.deleted", path="z.md", by="person", run=None, causes=[], digest=None
            )
            if event.event == "file.created"
            else None
        )
    )
    listener_rig.changed(change(None, OLD, data=OLD))
    _created, deleted = await listener_rig.hears(2)

    assert (deleted.data["path"], deleted.diff) == ("z.md", None)


async def test_a_module_s_event_is_reported_as_the_module_s(listener_rig: EventListenerRig):
    listener_rig.bus.declare(
        EventKind(
            name="weather.changed",
            tells="It rains.",
            fields={"mm": FieldKind.NUMBER},
            publisher="weather",
        )
    )
    listener_rig.bus.publish("weather.changed", mm=3)
    (heard,) = await listener_rig.hears(1)

    assert (heard.module, dict(heard.data)) == ("weather", {"mm": 3})


async def test_when_too_much_waits_the_oldest_goes_and_that_is_said(
    listener_rig: EventListenerRig,
):
    for number in range(1500):  # the loop is not given a turn in between
        listener_rig.run_finished(f"r{number}")
    heard = await listener_rig.hears(1000)
    async with asyncio.timeout(20):
        while len(listener_rig.problems) < 2:
            await asyncio.sleep(0.002)

    assert (len(heard), heard[0].data["run"], heard[-1].data["run"]) == (1000, "r500", "r1499")
    assert [(subject, problem is None) for subject, problem in listener_rig.problems] == [
        ("hooks:listening", False),
        ("hooks:listening", True),
    ]


async def test_after_the_end_nothing_is_reported(listener_rig: EventListenerRig):
    listener_rig.listening.close()
    listener_rig.run_finished("r")
    await asyncio.sleep(0)

    assert listener_rig.reported.heard == []


async def test_an_event_that_no_hook_wants_costs_next_to_nothing(listener_rig: EventListenerRig):
    event = listener_rig.bus.publish("watch.removed", watcher="w.md")
    took = []
    for _ in range(20):
        began = time.perf_counter()
        for _ in range(100):
            listener_rig.listening._on_events([event])
        took.append((time.perf_counter() - began) / 100)

    assert min(took) < 50e-6
