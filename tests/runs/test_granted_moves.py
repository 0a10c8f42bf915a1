"""Granted moves: files move, with the links to them, and come in pieces, where they may."""

from __future__ import annotations

import pytest

from parachuted.access.caller import Caller, WorkRequest, acting
from parachuted.errors import (
    ActRefusedError,
    ConflictError,
    EditRefusedError,
    NotFoundError,
    PathRefusedError,
)
from parachuted.vault import digest_of
from tests.modules.module_rig import ModuleRig
from tests.runs.conftest import limited


@pytest.fixture
def module_rig(module_rig: ModuleRig) -> ModuleRig:
    module_rig.save("Daily/a.md", "# A\n\n[[b]] [c](sub/c.md)\n")
    module_rig.save("Daily/b.md", "# B\n\n[[Daily/a|the a]]\n")
    module_rig.save("Daily/sub/c.md", "# C\n\n![](../photo.png)\n")
    module_rig.save("Daily/photo.png", b"\x89PNG [[a]] \xff")
    module_rig.save("Private/secret.md", "# Secret\n\n[[Daily/a]]\n")
    module_rig.save("Private/diary.md", "mine\n")
    module_rig.library.settled()
    return module_rig


async def pieces(*data: bytes):
    for piece in data:
        yield piece


async def test_links_follow_a_move_where_the_module_may_write(module_rig, daily):
    digest = await daily.move("Daily/a.md", "Daily/old/first.md")

    assert not (module_rig.vault / "Daily/a.md").exists()
    moved = module_rig.text("Daily/old/first.md")
    assert moved == "# A\n\n[[b]] [c](../sub/c.md)\n"
    assert digest == digest_of(moved.encode())
    assert module_rig.text("Daily/b.md") == "# B\n\n[[Daily/old/first|the a]]\n"
    assert module_rig.text("Private/secret.md") == "# Secret\n\n[[Daily/a]]\n"
    changed = ["Daily/a.md", "Daily/old/first.md", "Daily/b.md"]
    writes = [write for path in changed for write in module_rig.history.writes_of(path)]
    assert {write.author.by for write in writes} == {"module:daily"}
    assert len({write.author.causes for write in writes}) == 1
    assert set(module_rig.noticed) == set(changed)

    picture = b"\x89PNG [[a]] \xff"  # no note: it moves byte for byte, and embeds follow
    assert await daily.move("Daily/photo.png", "Daily/assets/photo.png") == digest_of(picture)
    assert (module_rig.vault / "Daily/assets/photo.png").read_bytes() == picture
    assert module_rig.text("Daily/sub/c.md") == "# C\n\n![](../assets/photo.png)\n"


@pytest.mark.parametrize(
    ("source", "target", "error"),
    [
        ("Private/diary.md", "Daily/mine.md", ActRefusedError),
        ("Daily/a.md", "Private/a.md", ActRefusedError),
        ("Daily/a.md", "../a.md", PathRefusedError),
        ("Daily/a.md", "Modules/daily/module.py", PathRefusedError),
        ("Daily/a.md", ".parachute/x.md", PathRefusedError),
        ("Daily/a.md", "Suggestions/x.md", PathRefusedError),
        ("Daily/none.md", "Daily/x.md", NotFoundError),
        ("Daily/a.md", "Daily/b.md", ConflictError),
        ("Daily/link.md", "Daily/x.md", PathRefusedError),
        ("Daily/folder/diary.md", "Daily/x.md", ActRefusedError),
        ("Daily/a.md", "Daily/folder/a.md", ActRefusedError),
    ],
)
async def test_nothing_is_moved_that_may_not_be(module_rig, daily, source, target, error):
    module_rig.link("Daily/link.md", "../Private/diary.md")
    module_rig.link("Daily/folder", "../Private")

    with pytest.raises(error):
        await daily.move(source, target)
    assert module_rig.text("Private/diary.md") == "mine\n"
    assert module_rig.text("Daily/a.md") == "# A\n\n[[b]] [c](sub/c.md)\n"
    assert module_rig.text("Daily/b.md") == "# B\n\n[[Daily/a|the a]]\n"


async def test_to_write_a_file_is_not_to_move_it_to_where_it_may_be_read(module_rig):
    vault = module_rig.bounded(read=["Daily/**"], write=["**"])

    with pytest.raises(ActRefusedError, match=r"may not read Private/diary\.md"):
        await vault.move("Private/diary.md", "Daily/mine.md")
    assert module_rig.text("Private/diary.md") == "mine\n"


async def test_a_limited_caller_moves_and_rewrites_what_it_may_itself(module_rig, daily):
    with acting(limited("Daily/a.md")), pytest.raises(ActRefusedError):
        await daily.move("Daily/a.md", "Daily/x.md")
    with acting(limited("Daily/?.md")):
        await daily.move("Daily/a.md", "Daily/x.md")
        with pytest.raises(ActRefusedError):
            await daily.move("Daily/sub/c.md", "Daily/c.md")
    assert module_rig.text("Daily/b.md") == "# B\n\n[[Daily/x|the a]]\n"


async def test_no_move_makes_a_note_watch_more_than_the_module_may_read(module_rig):
    """A pattern that begins with ./ means another folder elsewhere, and a text that is no note
    watches nothing.
    """
    vault = module_rig.bounded(read=["Daily/**"], write=["Daily/**", "Private/**"])
    module_rig.save("Daily/near.md", "---\nwatch: [./*.md]\n---\n")
    module_rig.save("Daily/plain.txt", "---\nwatch: [Private/diary.md]\n---\n")

    for source, target in (
        ("Daily/near.md", "Private/near.md"),
        ("Daily/plain.txt", "Daily/plain.md"),
    ):
        with pytest.raises(ActRefusedError, match="may not watch"):
            await vault.move(source, target)
        assert (module_rig.vault / source).exists()


async def test_strangers_texts_are_marked_moved_uploaded_and_in_conflicts(module_rig):
    module_rig.save("Inbox/letter.md", "# Letter\n\nPlease pay at once, to the account below.\n")
    module_rig.library.settled()
    vault = module_rig.bounded(read=["**"], write=["**"])

    caller = Caller()
    with acting(caller), pytest.raises(ConflictError) as conflict:
        await vault.create("Inbox/letter.md", "mine\n")
    assert b"Letter" in conflict.value.theirs
    assert caller.taint

    digest = await vault.move("Inbox/letter.md", "Daily/letter.md")
    text = module_rig.text("Daily/letter.md")
    assert text.startswith("---\norigin: stranger\n---\n# Letter")
    assert digest == digest_of(text.encode())
    with acting(caller):
        await vault.move("Daily/b.md", "Daily/moved.md")
        with pytest.raises(ActRefusedError, match="write it as a text"):
            await vault.upload("Daily/made.md", pieces(b"# Pay\n"))
        await vault.upload("Daily/made.bin", pieces(b"# Pay\n"))
    assert "origin: stranger" in module_rig.text("Daily/moved.md")
    assert not (module_rig.vault / "Daily/made.md").exists()


async def test_an_upload_is_on_the_disk_when_it_is_reported_or_leaves_nothing(module_rig, daily):
    data, path = [b"a" * 300_000, b"", b"b" * 900_000], "Daily/assets/sound.wav"
    made = await daily.upload(path, pieces(*data))

    whole = b"".join(data)
    assert (module_rig.vault / path).read_bytes() == whole
    assert (made.path, made.digest, made.size) == (path, digest_of(whole), 1_200_000)
    (write,) = module_rig.history.writes_of(path)
    assert (write.operation, write.author.by) == ("Create", "module:daily")
    assert module_rig.noticed == [path]

    async def broken():
        yield b"x" * 100_000
        assert not (module_rig.vault / "Daily/cut.bin").exists()
        raise ConnectionError

    with pytest.raises(ConnectionError):
        await daily.upload("Daily/cut.bin", broken())
    assert not (module_rig.vault / "Daily/cut.bin").exists()
    assert list((module_rig.folder / "objects/unfinished").iterdir()) == []


async def test_nothing_is_taken_for_a_place_that_may_not_be_written(module_rig, daily):
    module_rig.link("Daily/folder", "../Private")

    async def chunks():
        raise AssertionError
        yield b"x"

    for path, error in (
        ("Private/x.bin", ActRefusedError),
        ("../x.bin", PathRefusedError),
        ("Modules/daily/module.py", PathRefusedError),
        ("Daily/folder/x.bin", ActRefusedError),
    ):
        with pytest.raises(error):
            await daily.upload(path, chunks())


async def test_an_upload_replaces_nothing_watches_nothing_and_fills_no_disk(
    module_rig, daily, monkeypatch
):
    with pytest.raises(ConflictError):
        await daily.upload("Daily/a.md", pieces(b"new"))
    spy = pieces(b"---\nwatch: [Private/di", b"ary.md]\n---\n# Spy\n")
    with pytest.raises(ActRefusedError, match="may not watch"):
        await daily.upload("Daily/spy.md", spy)
    monkeypatch.setattr("parachuted.runs.granted_vault._LARGEST_UPLOAD", 10)
    with pytest.raises(EditRefusedError, match="larger than"):
        await daily.upload("Daily/large.bin", pieces(b"x" * 6, b"x" * 6))
    assert module_rig.text("Daily/a.md") == "# A\n\n[[b]] [c](sub/c.md)\n"
    assert not (module_rig.vault / "Daily/spy.md").exists()
    assert not (module_rig.vault / "Daily/large.bin").exists()


async def test_rights_that_end_while_an_upload_comes_end_it(module_rig, daily):
    holds = True

    async def chunks():
        nonlocal holds
        yield b"x"
        holds = False

    with (
        acting(Caller(request=WorkRequest(is_valid=lambda: holds))),
        pytest.raises(ActRefusedError, match="ended"),
    ):
        await daily.upload("Daily/late.bin", chunks())
    assert not (module_rig.vault / "Daily/late.bin").exists()
