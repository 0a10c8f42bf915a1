import asyncio

from parachuted.agents.sandbox.slots import DiskWatch, make_slot, name_slot
from tests.agents.sandbox.conftest import boxed


async def test_a_run_that_fills_the_disk_is_reported_once(tmp_path):
    slot = name_slot(tmp_path)
    make_slot(slot)
    said: asyncio.Queue[str] = asyncio.Queue()
    watch = DiskWatch(slot, said.put_nowait, most_bytes=1 << 20, every_s=0.01)
    watch.start()
    (slot.work / "big").write_bytes(bytes(2 << 20))

    assert await asyncio.wait_for(said.get(), 30) == "it put more than 1 MB on the disk"
    watch.stop()
    assert said.empty()


async def test_one_that_was_stopped_says_nothing(tmp_path):
    slot = name_slot(tmp_path)
    make_slot(slot)
    said: list[str] = []
    watch = DiskWatch(slot, said.append, most_bytes=0, every_s=0.0)
    watch.start()
    watch.stop()
    (slot.work / "big").write_bytes(bytes(1 << 20))
    await asyncio.to_thread(lambda: None)

    assert said == []


async def test_a_container_that_fills_the_disk_is_ended_with_words(sandboxes):
    """At its real limit: files of 200 MB, one after the other, until it is ended."""
    line = (
        "n=0; while :; do fallocate -l 200M /vault/$n || head -c 200M /dev/zero > /vault/$n; "
        "n=$((n+1)); sleep 0.1; done"
    )
    async with boxed(sandboxes, "sh", "-c", line) as at_work:
        async with asyncio.timeout(30):
            assert await at_work.container.stdout.read() == b""
            assert await at_work.container.wait() == 137

        assert at_work.container.problem == "it put more than 512 MB on the disk"
