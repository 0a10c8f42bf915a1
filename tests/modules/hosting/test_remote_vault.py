"""Remote vault: a module in a process of its own finds the vault that one in the daemon does."""

from __future__ import annotations

import pytest

from parachuted.access.authority import Authority
from parachuted.access.notes import AppendSection, NoteChange, ReplaceSpan, SetKey
from parachuted.errors import ActRefusedError, ConflictError, ModuleFailedError
from parachuted.modules.hosting.outside_folders import OutsideFolders
from parachuted.modules.hosting.remote_services import RemoteVault
from parachuted.vault import digest_of
from tests.modules.hosting.test_remote_services import remote_of
from tests.modules.module_rig import ModuleRig
from tests.modules.small_modules import StubServices

NOTE = "---\nn: 1\n---\n# Ä\n\n[[b]]\n\n## Log\n\n- one\n"


@pytest.fixture
def module_rig(tmp_path):
    module_rig = ModuleRig(tmp_path)
    module_rig.save("Daily/a.md", NOTE)
    module_rig.save("Daily/b.md", "# B\n")
    module_rig.save("Private/diary.md", "secret\n")
    module_rig.library.settled()
    yield module_rig
    module_rig.close()


@pytest.fixture
def near(module_rig):
    return module_rig.bounded(read=["Daily/**"], write=["Daily/**"])


@pytest.fixture
def far(near):
    return remote_of(StubServices(vault=near)).vault


async def test_a_note_is_the_same_on_both_sides(near, far):
    here, there = await near.note("Daily/a.md"), await far.note("Daily/a.md")

    assert here == there
    assert (here.sections, here.links) == (there.sections, there.links)
    assert there.links[0].path == "Daily/b.md"
    with pytest.raises(ActRefusedError):
        await far.note("Private/diary.md")


async def test_an_edit_is_made_as_in_the_daemon(far, module_rig):
    note = await far.note("Daily/a.md")
    at = note.text.index("one")
    edits = [SetKey("n", 2), AppendSection("Log", "- two"), ReplaceSpan(at, at + 3, "eins")]

    digest = await far.edit("Daily/a.md", edits, base=note.digest)
    assert module_rig.text("Daily/a.md") == NOTE.replace("n: 1", "n: 2").replace(
        "- one", "- eins\n- two"
    )
    assert digest == (await far.note("Daily/a.md")).digest
    with pytest.raises(ConflictError):
        await far.edit("Daily/a.md", [ReplaceSpan(at, at + 3, "uno")], base=note.digest)


async def test_lists_and_links_are_the_same_on_both_sides(near, far):
    here = await near.notes("Daily", order="-title", limit=1)
    there = await far.notes("Daily", order="-title", limit=1)

    assert here == there
    assert (await far.notes("Daily", order="-title", cursor=there.next)).notes[0].path == (
        "Daily/b.md"
    )
    assert await near.notes(where={"n": 1}) == await far.notes(where={"n": 1})
    assert await near.links("Daily/a.md") == await far.links("Daily/a.md") != []
    assert await near.backlinks("Daily/b.md") == await far.backlinks("Daily/b.md") != []


async def test_many_notes_cross_in_parts_each_once(near, far, module_rig):
    for number in range(250):
        module_rig.save(f"Daily/n{number:03d}.md", f"# {number}\n\n[[b]]\n")
    for number in range(3):
        module_rig.save(f"Daily/n{100 + number}.md", "x" * 1_000_000)
    module_rig.save("Daily/n150.md", b"\xff")
    module_rig.save("Daily/n151.md", "x" * 7_000_000)
    module_rig.save("Daily/n152.md", "[[b]]\n" * 9_000)

    here, there = near.read_notes(), far.read_notes("**")
    near_notes = {note.path: note async for note in here}
    far_notes = [note async for note in there]
    assert len(far_notes) == 249
    assert [note.path for note in far_notes] == sorted(note.path for note in far_notes)
    assert all(near_notes[note.path] == note for note in far_notes)
    assert all(near_notes[note.path].links == note.links for note in far_notes)
    assert set(there.left_out) == {"Daily/n150.md", "Daily/n151.md", "Daily/n152.md"}
    assert set(here.left_out) == {"Daily/n150.md"}
    named = [note.path async for note in far.read_notes(["Daily/b.md", "Daily/b.md"])]
    assert named == ["Daily/b.md"] * 2


async def test_files_are_moved_and_come_in_pieces(far, module_rig):
    async def chunks():
        yield b"x" * 2_500_000
        yield b""
        yield b"y"

    made = await far.upload("Daily/sound.wav", chunks())
    data = b"x" * 2_500_000 + b"y"
    assert (module_rig.vault / "Daily/sound.wav").read_bytes() == data
    assert (made.path, made.digest, made.size) == ("Daily/sound.wav", digest_of(data), len(data))
    digest = await far.move("Daily/b.md", "Daily/c.md")
    assert digest == digest_of(b"# B\n")
    assert "[[c]]" in module_rig.text("Daily/a.md") or "[[Daily/c]]" in module_rig.text(
        "Daily/a.md"
    )


async def test_an_upload_ends_as_in_the_daemon(far, module_rig):
    async def endless():
        while True:
            yield b"x" * 1000

    async def broken():
        yield b"x"
        raise ConnectionError

    with pytest.raises(ActRefusedError):
        await far.upload("Private/x.bin", endless())
    with pytest.raises(ConnectionError):
        await far.upload("Daily/x.bin", broken())
    with pytest.raises(ConflictError):
        await far.upload("Daily/a.md", near_pieces(b"x"))
    assert not (module_rig.vault / "Daily/x.bin").exists()


async def near_pieces(*pieces):
    for piece in pieces:
        yield piece


async def test_folders_outside_are_read_as_in_the_daemon(near, tmp_path):
    (tmp_path / "work").mkdir()
    (tmp_path / "work/AGENTS.md").write_text("# Work\n")
    (tmp_path / "other.md").write_text("x")
    folder = f"{tmp_path}/work"
    outside = OutsideFolders("daily", [folder], tmp_path, (), Authority)
    far = remote_of(StubServices(vault=near, folders=outside)).folders

    assert await far.read(f"{folder}/AGENTS.md") == "# Work\n"
    assert await far.list(folder) == [f"{folder}/AGENTS.md"]
    with pytest.raises(ActRefusedError):
        await far.read(f"{tmp_path}/other.md")


@pytest.mark.parametrize("answer", [None, 1, ["a"], {"notes": "a"}])
async def test_a_daemon_that_answers_with_something_else_is_an_error(answer):
    class Pipe:
        async def ask(self, _verb, _body):
            return answer

    vault = RemoteVault(Pipe())
    with pytest.raises(ModuleFailedError):
        await vault.read("a.md")
    with pytest.raises(ModuleFailedError):
        await vault.notes()
    with pytest.raises(ModuleFailedError):
        await vault.readable(["a.md"] if answer != ["a"] else []) or await vault.digest("a.md")


async def test_several_notes_are_changed_as_one_run(far, module_rig):
    changes = [NoteChange("Daily/a.md", [SetKey("n", 2)]), NoteChange("Daily/b.md", None)]
    run = await far.edit_all(changes, reason="tidied up")

    assert module_rig.text("Daily/a.md") == NOTE.replace("n: 1", "n: 2")
    assert not (module_rig.vault / "Daily/b.md").exists()
    assert len(module_rig.store.history.writes_by(run)) == 2


async def test_what_may_be_read_is_the_same_on_both_sides(near, far):
    paths = [f"Daily/{number}.md" for number in range(10_001)] + ["Private/diary.md"]

    assert await far.readable(paths) == await near.readable(paths) == paths[:-1]
    assert await far.scope() == await near.scope() == ""
