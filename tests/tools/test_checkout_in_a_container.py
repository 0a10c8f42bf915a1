"""A copy in a real container: what a hostile program does there reaches no file that is not its
own.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from parachuted.agents.sandbox import Sandboxes
from parachuted.agents.sandbox.archive import ArchiveWriter
from parachuted.runs.outside_folders import copy_outside
from tests.agents.sandbox.conftest import opening
from tests.tools.checkout_rig import CheckoutRig, at_desk

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
ln -s / up; ln -s /etc/passwd Library/link.md; mkfifo Library/pipe.md; ln Daily/turn.md Daily/hard.md; truncate -s 1T Daily/huge.md
echo last > Daily/last.md
chmod -R a-rwx Library Modules 2>/dev/null
echo done
"""  # noqa: E501


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[CheckoutRig]:
    with at_desk(tmp_path / "desk") as made:
        yield made


async def test_links_pipes_and_shut_folders_reach_nothing_but_its_own(
    sandboxes: Sandboxes, rig: CheckoutRig
):
    before = {path: text for path, text in rig.texts().items() if path.startswith("Library/")}
    async with asyncio.timeout(DEADLINE_S), sandboxes.prepare() as slot:
        await rig.fill(slot, sandboxes.user)
        async with opening(sandboxes, slot, "bash", "-c", HOSTILE) as container:
            said = await container.stdout.read()
            assert (said, container.problem, await container.wait()) == (b"done\n", None, 0)
        checked = await rig.take_over()
    after = rig.texts()
    assert checked.words() != ""
    assert {path: text for path, text in after.items() if path.startswith("Library/")} == before
    assert after["Daily/last.md"] == "last\n"
    assert "evil\n" not in after.values()
    assert "root:" not in "".join(after.values())
    assert {path.split("/")[0] for path in after} <= {"Daily", "Library", "Projects"}
    assert not [path for path in rig.vault.rglob("*") if path.is_symlink() or path.is_fifo()]


async def test_a_shell_sees_the_copy_and_outside_folders_and_works_as_no_one(
    sandboxes: Sandboxes, rig: CheckoutRig
):
    (rig.folder / "user/Work").mkdir(parents=True)
    (rig.folder / "user/Work/a.txt").write_text("from outside\n")
    async with asyncio.timeout(DEADLINE_S), sandboxes.prepare() as slot:
        await rig.fill(slot, sandboxes.user)
        with closing(ArchiveWriter(slot.outside, None)) as into:
            outside = copy_outside(("~/Work",), into, user_home=rig.folder / "user", never=())
        line = (
            "cat /outside/1/a.txt; echo x > /outside/1/b.txt; sed -i s/Garden/Yard/ "
            "/vault/Projects/garden.md; ls -A /vault"
        )
        async with opening(sandboxes, slot, "sh", "-c", line) as container:
            await container.end_input()
            reported = (await container.stdout.read()).decode()
        checked = await rig.take_over()

    assert outside.copied == [("~/Work", "1")]
    assert reported.splitlines() == ["from outside", "Daily", "Library", "Projects"]
    assert checked.refused == []
    assert rig.texts()["Projects/garden.md"] == "# Yard\n"
