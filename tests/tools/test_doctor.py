"""Doctor: reads every note and says what is odd about it."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from parachuted.tools.doctor import VaultDoctor
from parachuted.vault import History, IndexEntry, ObjectStore, Store, VaultIndex, VaultRoot


@pytest.fixture
def doctor(vault: Path, home: Path):
    objects, history, index = (
        ObjectStore(home / "objects"),
        History(home / "history.db"),
        VaultIndex(),
    )
    store = Store(VaultRoot(vault), objects, history, lambda: datetime(2026, 1, 1, tzinfo=UTC))
    yield VaultDoctor(store, index), index
    store.close()
    history.close()
    objects.close()


def put(vault: Path, index: VaultIndex, name: str, data: bytes) -> None:
    (vault / name).write_bytes(data)
    index.set(name, IndexEntry.of((vault / name).stat(), None))


async def test_a_malformed_note_is_listed_with_its_reason_and_a_good_one_is_not(
    doctor, vault: Path
):
    check, index = doctor
    put(vault, index, "good.md", b"# Good\n")
    put(vault, index, "bad.md", b"---\na: [1\n---\n# Bad\n")

    odd = await check.check_notes()

    assert [(oddity.path, oddity.code) for oddity in odd] == [("bad.md", "frontmatter-malformed")]
    assert odd[0].message


async def test_a_note_that_cannot_be_read_is_listed_too(doctor, vault: Path):
    check, index = doctor
    put(vault, index, "gone.md", b"# Here\n")
    (vault / "gone.md").unlink()

    assert [oddity.code for oddity in await check.check_notes()] == ["unreadable"]


async def test_what_is_not_a_note_is_not_looked_at(doctor, vault: Path):
    check, index = doctor
    put(vault, index, "picture.png", b"\xff\xfe\x00")

    assert await check.check_notes() == []
