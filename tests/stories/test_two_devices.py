"""Two devices and a person edit the same notes, and sync in any order: no line is lost."""

from __future__ import annotations

import asyncio
from random import Random

from tests.stories.daemon_rig import DaemonRig, Live, save
from tests.stories.devices import Device

PATHS = ("journals/2026-11-22.md", "plan.md")


def everything_kept(daemon_rig: DaemonRig, vault) -> str:
    """All texts of the notes: as they stand, and as history has them."""
    texts = [
        (vault / "Daily" / path).read_bytes() for path in PATHS if (vault / "Daily" / path).exists()
    ]
    for path in PATHS:
        for write in daemon_rig.daemon.watched.history.writes_of(f"Daily/{path}"):
            texts += [
                data
                for digest in (write.before, write.after)
                if digest and (data := daemon_rig.daemon.watched.objects.get(digest)) is not None
            ]
    return b"".join(texts).decode()


async def act(chance: Random, device: Device, seen: list[str]) -> None:
    path = chance.choice(PATHS)
    what = chance.choice(("type", "type", "pull", "push", "push"))
    if what == "type":
        device.type(path)
    elif what == "pull":
        await device.pull(path)
    else:
        conflict = await device.push(path)
        if conflict is not None:
            seen += [conflict["ours"], conflict["theirs"]]


async def live_through(daemon_rig: DaemonRig, vault, seed: int) -> None:
    chance, seen = Random(seed), list[str]()  # noqa: S311
    devices = [Device(f"{name} {seed}", daemon_rig, chance) for name in ("phone", "tablet")]
    person: set[str] = set()
    for step in range(80):
        if chance.random() < 0.1:
            path = vault / "Daily" / chance.choice(PATHS)
            line = f"person {seed} {step}\n"
            person.add(line)
            save(path, (path.read_text() if path.exists() else "") + line)
            await daemon_rig.daemon.watched.detector.notice([str(path.relative_to(vault))])
        elif chance.random() < 0.3:
            await asyncio.gather(*(act(chance, device, seen) for device in devices))
        else:
            await act(chance, chance.choice(devices), seen)
    for _ in range(4):  # in the end all is brought in, and clashes are settled
        for device in devices:
            for path in PATHS:
                await device.push(path)
    kept = everything_kept(daemon_rig, vault) + "".join(seen)
    for device in devices:
        typed = {line for line in device.typed_lines if line in "".join(device.texts.values())}
        assert {line for line in device.sent | typed if line not in kept} == set(), seed
    assert {line for line in person if line not in kept} == set(), seed


async def test_no_line_is_lost_in_whatever_order_they_sync(live: Live, vault, torture):
    async with live() as daemon_rig:
        for seed in range(240 if torture else 4):
            await live_through(daemon_rig, vault, seed)


async def test_both_have_the_same_text_once_both_have_synced_twice(live: Live, vault):
    async with live() as daemon_rig:
        phone, tablet = (Device(name, daemon_rig, Random(7)) for name in ("phone", "tablet"))  # noqa: S311
        for _ in range(5):
            for device in (phone, tablet):
                device.type("plan.md", only_add=True)
                device.type("plan.md", only_add=True)
                await device.push("plan.md")
        for device in (phone, tablet, phone, tablet, phone, tablet):
            await device.push("plan.md")
            await device.pull("plan.md")
        await phone.pull("plan.md")

        assert phone.typed_lines | tablet.typed_lines == set(
            phone.texts["plan.md"].splitlines(keepends=True)
        )
        assert phone.texts == tablet.texts == {"plan.md": (vault / "Daily/plan.md").read_text()}
