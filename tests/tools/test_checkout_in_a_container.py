"""A copy in a real container: what a hostile program does there while it is checked in reaches no
file that is not its own.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from parachuted.agents.sandbox import Sandboxes
from parachuted.tools.checkout import Checkout
from parachuted.vault import Author
from tests.agents.sandbox.conftest import spec_of
from tests.tools.desk import Desk, at_desk

DEADLINE_S = 60
HOSTILE = r"""
cd /vault
( while :; do
    mv Projects real 2>/dev/null; ln -s / Projects 2>/dev/null; rm -f Projects; mv real Projects 2>/dev/null
    ln -sf /etc/passwd Library/book.md 2>/dev/null; rm -f Library/book.md; mkfifo Library/book.md 2>/dev/null; rm -rf Library/book.md
    ln -s .. Library/up 2>/dev/null; rm -f Library/up
  done ) &
swapper=$!
for turn in $(seq 1 30); do
  echo "turn $turn" > Daily/turn.md 2>/dev/null
  mkdir -p Library Modules/m .claude .git/hooks Suggestions 2>/dev/null
  echo evil | tee Modules/m/module.py .claude/settings.json .mcp.json .git/hooks/pre-commit Suggestions/x.md Library/new.md > /dev/null
  ln Daily/turn.md Daily/hard.md 2>/dev/null; rm -f Daily/hard.md
  truncate -s 1T Daily/huge.md 2>/dev/null; rm -f Daily/huge.md
done
kill $swapper 2>/dev/null
wait
echo last > Daily/turn.md
chmod -R a-rwx Library Modules 2>/dev/null
echo done
"""  # noqa: E501


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    with at_desk(tmp_path / "desk") as made:
        yield made


async def test_a_program_that_swaps_links_and_folders_during_check_ins_reaches_nothing_but_its_own(
    sandboxes: Sandboxes, desk: Desk
):
    before = {path: text for path, text in desk.texts().items() if path.startswith("Library/")}
    async with asyncio.timeout(DEADLINE_S), sandboxes.prepare() as slot:
        desk.work = slot.work
        desk.checkout = copy_of(desk, slot.work, uid=sandboxes.user[0])
        await desk.checkout.fill()
        async with sandboxes.open(spec_of(slot, "bash", "-c", HOSTILE)) as container:
            async with asyncio.TaskGroup() as group:
                said = group.create_task(container.stdout.read(), name="hostile")
                while not said.done():
                    await desk.check_in()
                    await asyncio.sleep(0)
            assert (said.result(), container.problem, await container.wait()) == (
                b"done\n",
                None,
                0,
            )
        await desk.check_in()
        after = desk.texts()
        again = await desk.check_in()
        await desk.checkout.drop()

        assert again.written == ()
        assert list(slot.work.iterdir()) == []
    assert {path: text for path, text in after.items() if path.startswith("Library/")} == before
    assert after["Daily/turn.md"] == "last\n"
    assert "evil\n" not in after.values()
    assert "root:" not in "".join(after.values())
    assert {path.split("/")[0] for path in after} <= {"Daily", "Library", "Projects"}
    assert not [path for path in desk.vault.rglob("*") if path.is_symlink() or path.is_fifo()]


async def test_a_shell_sees_the_copy_and_outside_folders_and_works_as_nobody_in_particular(
    sandboxes: Sandboxes, desk: Desk
):
    (desk.folder / "user/Work").mkdir(parents=True)
    (desk.folder / "user/Work/a.txt").write_text("from outside\n")
    async with asyncio.timeout(DEADLINE_S), sandboxes.prepare() as slot:
        desk.work, desk.outside = slot.work, slot.outside
        desk.checkout = copy_of(desk, slot.work, uid=sandboxes.user[0], outside=("~/Work",))
        filled = await desk.checkout.fill()
        line = (
            "cat /outside/1/a.txt; echo x > /outside/1/b.txt; sed -i s/Garden/Yard/ "
            "/vault/Projects/garden.md; ls -A /vault"
        )
        async with sandboxes.open(spec_of(slot, "sh", "-c", line)) as container:
            await container.end_input()
            told = (await container.stdout.read()).decode()
        checked = await desk.check_in()
        await desk.checkout.drop()

    assert filled.outside == (("~/Work", "1"),)
    assert told.splitlines() == ["from outside", "Daily", "Library", "Projects"]
    assert checked.refused == ()
    assert desk.texts()["Projects/garden.md"] == "# Yard\n"


def copy_of(desk: Desk, work: Path, *, uid: int, outside: tuple[str, ...] = ()) -> Checkout:
    return Checkout(
        root=desk.root,
        store=desk.store,
        index=desk.index,
        objects=desk.objects,
        grant=replace(desk.grant, outside=outside),
        author=Author(by="gardener", run="r1"),
        origins=desk.origins,
        taint=desk.taint,
        folder=work,
        suggest=desk.suggest,
        notice=desk.notice,
        uid=uid,
        outside=desk.outside,
        user_home=desk.folder / "user",
    )
