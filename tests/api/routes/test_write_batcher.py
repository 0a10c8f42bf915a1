from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from datetime import UTC, datetime
from pathlib import Path

import pytest

from parachuted.api.routes.write_batcher import WriteBatcher
from parachuted.errors import ActRefusedError, NotFoundError, PathRefusedError
from parachuted.vault import (
    AppendToSection,
    Caller,
    EditRequest,
    History,
    ObjectStore,
    Store,
    VaultPath,
    VaultRoot,
    WriteIntent,
    WriteResult,
)

NOW = datetime(2026, 11, 22, 3, 30, tzinfo=UTC)
PHONE = Caller("api_key", "phone", "request-1")


class WriteBatcherRig:
    """A vault with one note, its store, and a desk whose notices are written down."""

    def __init__(self, vault: Path, home: Path) -> None:
        self.file = vault / "a.md"
        self.file.write_text("# A\n\n## Facts\n")
        self.objects, self.history = ObjectStore(home / "objects"), History(home / "history.db")
        self.ask: Callable[[WriteIntent], None] | None = None
        self.store = Store(
            VaultRoot(vault),
            self.objects,
            self.history,
            lambda: NOW,
            ask=self.asked,
            is_asked=lambda: self.ask is not None,
            notice=self.notice,
        )
        self.noticed: list[set[str]] = []
        self.gate = asyncio.Event()
        self.gate.set()
        self.desk = WriteBatcher(self.store)

    def asked(self, intent: WriteIntent) -> None:
        if self.ask is not None:
            self.ask(intent)

    async def notice(self, paths: set[str]) -> None:
        self.noticed.append(set(paths))
        await self.gate.wait()

    async def add(self, line: str, path: str = "a.md", caller: Caller = PHONE) -> WriteResult:
        return await self.desk.edit(
            lambda: VaultPath(path),
            EditRequest(edit=AppendToSection(section="Facts", content=line)),
            caller,
        )

    def close(self) -> None:
        for part in (self.store, self.history, self.objects):
            part.close()


def started(coroutine: Coroutine[object, object, object]) -> asyncio.Task[object]:
    return asyncio.get_running_loop().create_task(coroutine)


@pytest.fixture
async def batcher_rig(vault, home):
    made = WriteBatcherRig(vault, home)
    yield made
    await made.desk.close()
    made.close()


async def test_no_line_of_many_is_lost_and_they_are_few_writes(batcher_rig: WriteBatcherRig):
    answers = await asyncio.gather(*(batcher_rig.add(f"- {number}") for number in range(50)))

    lines = batcher_rig.file.read_text().splitlines()[4:]
    assert sorted(lines) == sorted(f"- {number}" for number in range(50))
    writes = batcher_rig.history.writes_of("a.md")
    assert len(writes) < 10
    assert len({cause for write in writes for cause in write.author.causes}) == 50
    assert {write.author.by for write in writes} == {"person"}
    assert answers[-1].after == writes[-1].after


@pytest.mark.parametrize(
    ("second", "expected"),
    [
        (PHONE._replace(request_id="request-2"), Caller("api_key", "phone")),
        (Caller("api_key", "tablet"), None),
    ],
)
def test_the_audit_names_the_caller_where_all_of_a_write_is_one_callers(
    batcher_rig: WriteBatcherRig, second: Caller, expected: Caller | None
):
    assert batcher_rig.desk.author(PHONE).caller == PHONE
    author = batcher_rig.desk.author(PHONE, second)
    assert author.caller == expected
    assert len(set(author.causes)) == 2


async def test_an_edit_is_recorded_as_its_callers(batcher_rig: WriteBatcherRig):
    written = []
    batcher_rig.store._runner.wrote = written.append
    await batcher_rig.add("- one")

    assert [write.author.caller for write in written] == [PHONE]


async def test_one_that_fails_is_reported_alone(batcher_rig: WriteBatcherRig):
    def refused() -> VaultPath:
        raise PathRefusedError("no")

    request = EditRequest(edit=AppendToSection(section="Facts", content="x"))
    found = await asyncio.gather(
        batcher_rig.add("- one"),
        batcher_rig.desk.edit(refused, request, PHONE),
        batcher_rig.add("- x", "none.md"),
        batcher_rig.add("- two"),
        return_exceptions=True,
    )

    assert [type(one) for one in found] == [
        WriteResult,
        PathRefusedError,
        NotFoundError,
        WriteResult,
    ]
    assert batcher_rig.file.read_text() == "# A\n\n## Facts\n\n- one\n- two\n"


async def test_who_goes_away_meanwhile_takes_no_one_along(batcher_rig: WriteBatcherRig):
    let_go = threading.Event()

    def slow() -> VaultPath:
        let_go.wait(60)
        return VaultPath("a.md")

    async with asyncio.timeout(30):
        first = started(
            batcher_rig.desk.edit(
                slow, EditRequest(edit=AppendToSection(section="Facts", content="- gone")), PHONE
            )
        )
        second = started(batcher_rig.add("- stays"))
        await asyncio.sleep(0)
        first.cancel()
        let_go.set()
        await second

    assert batcher_rig.file.read_text() == "# A\n\n## Facts\n\n- gone\n- stays\n"


async def test_closing_waits_for_what_was_handed_in(batcher_rig: WriteBatcherRig):
    waiting = [started(batcher_rig.add(f"- {number}")) for number in range(5)]
    await asyncio.sleep(0)

    await batcher_rig.desk.close()

    assert len(batcher_rig.file.read_text().splitlines()) == 9
    await asyncio.gather(*waiting)


async def test_what_is_to_be_noticed_is_gathered_while_one_look_is_under_way(
    batcher_rig: WriteBatcherRig,
):
    batcher_rig.gate.clear()
    first = started(batcher_rig.desk.tell(["a.md"]))
    await asyncio.sleep(0)
    others = [started(batcher_rig.desk.tell([f"{number}.md"])) for number in range(3)]
    await asyncio.sleep(0)
    batcher_rig.gate.set()
    await asyncio.gather(first, *others)

    assert batcher_rig.noticed == [{"a.md"}, {"0.md", "1.md", "2.md"}]


async def test_who_is_asked_about_a_write_may_write_by_the_same_desk(
    batcher_rig: WriteBatcherRig, vault
):
    (vault / "log.md").write_text("## Facts\n")
    loop = asyncio.get_running_loop()

    def ask(intent: WriteIntent) -> None:
        if intent.path == "a.md":
            asyncio.run_coroutine_threadsafe(
                batcher_rig.add("- somebody writes", "log.md"), loop
            ).result(10)

    batcher_rig.ask = ask
    async with asyncio.timeout(20):
        await batcher_rig.add("- one")

    assert (vault / "log.md").read_text() == "## Facts\n\n- somebody writes\n"
    assert batcher_rig.file.read_text() == "# A\n\n## Facts\n\n- one\n"


async def test_of_writes_that_are_asked_about_one_that_is_refused_holds_no_one_up_and_closing_waits(
    batcher_rig: WriteBatcherRig, vault
):
    (vault / "b.md").write_text("## Facts\n")
    let_go = threading.Event()

    def ask(intent: WriteIntent) -> None:
        if intent.path == "a.md":
            let_go.wait(60)
            raise ActRefusedError("no")

    batcher_rig.ask = ask
    async with asyncio.timeout(20):
        refused = started(batcher_rig.add("- one"))
        await asyncio.sleep(0)
        assert (await batcher_rig.add("- two", "b.md")).changed
        closing = started(batcher_rig.desk.close())
        await asyncio.sleep(0)
        assert not closing.done()
        let_go.set()
        await closing
        with pytest.raises(ActRefusedError):
            await refused
