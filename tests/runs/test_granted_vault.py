"""Access: what a module reads, finds and writes is what its permissions name, whatever stands in
the way.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from itertools import pairwise

import pytest

from parachuted.access.authority import Authority, acting
from parachuted.access.notes import NoteChange, SetKey
from parachuted.errors import (
    ActRefusedError,
    ConflictError,
    EditRefusedError,
    NotFoundError,
    ParachuteError,
    PathRefusedError,
    StorageFailedError,
)
from parachuted.keys import AccessGrant, PathGlob
from parachuted.vault import Author, Caller, VaultPath, digest_of
from tests.modules.module_rig import ModuleRig

HIDDEN = "# Secret\n\nthe word is heliotrope\n"


@pytest.fixture
def module_rig(tmp_path) -> Iterator[ModuleRig]:
    module_rig = ModuleRig(tmp_path)
    module_rig.save("Daily/monday.md", "# Monday\n\nbeans\n\n## Log\n\n- sown\n")
    module_rig.save("Private/secret.md", HIDDEN)
    yield module_rig
    module_rig.close()


@pytest.fixture
def daily(module_rig):
    """A module that may read and write below Daily, as the manifest of the specification's example
    says.
    """
    return module_rig.bounded(read=["Daily/**"], write=["Daily/**"])


@pytest.mark.parametrize(
    "path",
    [
        "",
        "/etc/passwd",
        "../x",
        "Daily/../Private/secret.md",
        "Daily//x.md",
        "~/x",
        "Daily/a\0b",
        "./Daily/x",
    ],
)
async def test_what_is_not_a_path_in_the_vault_is_refused_everywhere(daily, path):
    for act in (
        daily.read(path),
        daily.read_bytes(path),
        daily.digest(path),
        daily.write(path, "x"),
        daily.delete(path),
    ):
        with pytest.raises(PathRefusedError):
            await act


async def test_a_link_leads_only_where_the_permissions_reach_too(module_rig, daily):
    module_rig.link("Daily/in.md", "monday.md")
    module_rig.link("Daily/out.md", "../Private/secret.md")
    module_rig.link("Daily/folder", "../Private")
    module_rig.link("Daily/beyond.md", "/etc/passwd")
    module_rig.link("Private/back.md", "../Daily/monday.md")

    assert (await daily.read("Daily/in.md")).startswith("# Monday")
    for path in ("Daily/out.md", "Daily/folder/secret.md"):
        with pytest.raises(ActRefusedError) as refused:
            await daily.read(path)
        assert "Private" not in str(refused.value)
        with pytest.raises(ActRefusedError):
            await daily.write(path, "mine")
    with pytest.raises(PathRefusedError):
        await daily.read("Daily/beyond.md")
    with pytest.raises(ActRefusedError):
        await daily.read("Private/back.md")
    assert module_rig.text("Private/secret.md") == HIDDEN


async def test_a_link_that_is_swapped_in_between_look_and_act_leads_nowhere(module_rig, torture):
    """The window is made as wide as it gets: one thread does nothing but swap a folder for a link
    to what is not theirs.
    """
    vault = module_rig.bounded(read=["Daily/**"], write=["Daily/**"])
    module_rig.save("Daily/a/secret.md", "open\n")
    folder, aside, link = (
        module_rig.vault / name for name in ("Daily/a", "Daily/aside", "Daily/link")
    )
    over, swaps = threading.Event(), 0

    def swap() -> None:
        nonlocal swaps
        while not over.is_set():
            link.symlink_to("../Private")
            folder.rename(aside)
            link.rename(folder)
            folder.unlink()
            aside.rename(folder)
            swaps += 1

    thread = threading.Thread(target=swap)
    thread.start()
    seen = set()
    try:
        for number in range(100_000 if torture else 400):
            try:
                seen.add(await vault.read("Daily/a/secret.md"))
                await vault.set_key("Daily/a/secret.md", "number", number)
            except ParachuteError as error:
                seen.add(str(error) + str(getattr(error, "theirs", "")))
    finally:
        over.set()
        thread.join()
    assert not any("heliotrope" in text for text in seen)
    assert module_rig.text("Private/secret.md") == HIDDEN
    assert (swaps > 10, seen != set()) == (True, True)


ACTS = {
    "read": (),
    "digest": (),
    "exists": (),
    "write": ("mine",),
    "append": ("Log", "mine"),
    "set_key": ("a", "b"),
    "delete": (),
}


@pytest.mark.parametrize("act", ACTS)
async def test_a_link_that_is_there_by_the_time_of_the_act_is_not_followed(
    module_rig, daily, monkeypatch, act
):
    module_rig.save("Daily/a/secret.md", "open\n")
    resolve, swapped = module_rig.root.resolve, []

    def resolve_and_swap(path):
        real = resolve(path)
        if not swapped:
            (module_rig.vault / "Daily/a").rename(module_rig.vault / "Daily/aside")
            module_rig.link("Daily/a", "../Private")
            swapped.append(path)
        return real

    monkeypatch.setattr(module_rig.root, "resolve", resolve_and_swap)
    if act == "exists":
        assert not await daily.exists("Daily/a/secret.md")
    else:
        with pytest.raises((PathRefusedError, NotFoundError)):
            await getattr(daily, act)("Daily/a/secret.md", *ACTS[act])
    assert swapped
    assert module_rig.text("Private/secret.md") == HIDDEN


CONTROL = [
    ".parachute/audit/x.jsonl",
    ".claude/skills/x.md",
    ".git/config",
    "Modules/daily/module.py",
    "modules/x/manifest.yaml",
    ".parachuteignore",
    "Daily/.agents/x.md",
    "a/.env",
    "\N{FULLWIDTH LATIN SMALL LETTER M}odules/x.py",
    "Mod\u00adules/x",
]


@pytest.mark.parametrize("path", CONTROL)
async def test_what_is_a_programs_is_not_written_whatever_the_permissions_say(module_rig, path):
    vault = module_rig.bounded(read=["**"], write=["**"])
    for act in (vault.create(path, "x"), vault.write(path, "x"), vault.delete(path)):
        with pytest.raises(PathRefusedError, match="belongs to a program"):
            await act
    assert not (module_rig.vault / path).exists()


async def test_a_link_into_a_control_folder_is_no_way_round_that(module_rig):
    vault = module_rig.bounded(read=["**"], write=["**"])
    (module_rig.vault / "Modules/daily").mkdir(parents=True)
    (module_rig.vault / ".claude").mkdir()
    module_rig.link("Daily/code", "../Modules/daily")
    module_rig.link("Daily/settings", "../.claude")
    for path in ("Daily/code/module.py", "Daily/settings/settings.json"):
        with pytest.raises(ActRefusedError, match="what the link"):
            await vault.create(path, "x")


async def test_a_module_with_no_permissions_sees_nothing(module_rig):
    vault = module_rig.bounded()

    assert (
        await vault.list(),
        await vault.search("heliotrope"),
        await vault.exists("Daily/monday.md"),
    ) == ([], [], False)
    for act in (
        vault.read("Daily/monday.md"),
        vault.write("Daily/monday.md", "x"),
        vault.create("x.md", "x"),
    ):
        with pytest.raises(ActRefusedError):
            await act


async def test_to_read_is_not_to_write_and_to_write_is_not_to_read(module_rig):
    reader, writer = module_rig.bounded(read=["Daily/**"]), module_rig.bounded(write=["Inbox/**"])

    with pytest.raises(
        ActRefusedError, match=r"may not write Daily/monday\.md: permissions\.write"
    ):
        await reader.append("Daily/monday.md", "Log", "- mine")
    digest = await writer.create("Inbox/a.md", "mine\n")
    assert digest == digest_of(b"mine\n")
    with pytest.raises(ActRefusedError):
        await writer.read("Inbox/a.md")
    with pytest.raises(ConflictError) as conflict:
        await writer.create("Inbox/a.md", "again\n")
    assert (conflict.value.ours, conflict.value.theirs, conflict.value.base) == (
        b"again\n",
        b"",
        b"",
    )


async def test_every_way_to_write_goes_through_the_one_store_by_the_module_and_is_noticed(
    module_rig, daily
):
    await daily.create("Daily/new/note.md", "---\ntags: [a]\n---\n# New\n")
    await daily.append("Daily/new/note.md", "Log", "- begun")
    await daily.set_key("Daily/new/note.md", "status", "draft")
    await daily.set_key("Daily/new/note.md", "tags", None)
    digest = await daily.write("Daily/new/note.md", "whole\n")
    await daily.delete("Daily/new/note.md")

    writes = module_rig.history.writes_of("Daily/new/note.md")
    assert [write.operation for write in writes] == [
        "Create",
        "AppendToSection",
        "SetKey",
        "DeleteKey",
        "ReplaceAll",
        "Delete",
    ]
    assert {(write.author.by, write.author.run) for write in writes} == {("module:daily", None)}
    assert module_rig.noticed == ["Daily/new/note.md"] * 6
    assert all(earlier.after == later.before for earlier, later in pairwise(writes))
    assert writes[4].after == digest
    assert b"\nstatus: draft\n" in module_rig.objects.get(writes[4].before)
    assert not (module_rig.vault / "Daily/new/note.md").exists()


async def test_a_write_carries_on_the_cause_that_led_to_it_or_begins_one(module_rig, daily):
    with acting(Authority(causes=("c-first",))):
        await daily.append("Daily/monday.md", "Log", "- one")
    await daily.append("Daily/monday.md", "Log", "- two")

    first, second = module_rig.history.writes_of("Daily/monday.md")
    assert first.author.causes == ("c-first",)
    assert len(second.author.causes) == 1
    assert second.author.causes != first.author.causes


async def test_what_changed_nothing_is_neither_written_nor_noticed(module_rig, daily):
    text = module_rig.text("Daily/monday.md")

    assert await daily.write("Daily/monday.md", text) == digest_of(text.encode())
    assert (module_rig.history.writes_of("Daily/monday.md"), module_rig.noticed) == ([], [])


async def test_what_a_person_wrote_since_the_base_is_kept_or_it_is_a_conflict(module_rig, daily):
    base = await daily.digest("Daily/monday.md")
    text = await daily.read("Daily/monday.md")
    module_rig.save("Daily/monday.md", text.replace("beans", "beans and peas"))

    await daily.write("Daily/monday.md", text.replace("- sown", "- sown\n- watered"), base=base)
    merged = module_rig.text("Daily/monday.md")
    assert "beans and peas" in merged
    assert "- watered" in merged
    with pytest.raises(ConflictError) as conflict:
        await daily.write("Daily/monday.md", text.replace("beans", "corn"), base=base)
    assert (b"corn" in conflict.value.ours, conflict.value.theirs, conflict.value.base) == (
        True,
        merged.encode(),
        b"",
    )


async def test_the_digest_of_another_text_is_not_a_key_to_it(module_rig, daily):
    """Digests are told in events, and every text that was replaced is kept under its own."""
    secret = module_rig.objects.put(HIDDEN.encode())
    before = module_rig.text("Daily/monday.md")

    with pytest.raises(NotFoundError, match="not one that was read here"):
        await daily.write("Daily/monday.md", "# Mine\n", base=secret)
    assert module_rig.text("Daily/monday.md") == before


@pytest.mark.parametrize("pattern", ["Private", "**", "../Private/*.md", "Private/secret.md#Facts"])
async def test_no_note_of_a_module_watches_what_the_module_may_not_read(module_rig, daily, pattern):
    """A curator would read it for the module, and write it down in the module's own note."""
    text = f'---\nwatch:\n  - "{pattern}"\n---\n# Spy\n'
    for act in (
        daily.create("Daily/spy.md", text),
        daily.write("Daily/monday.md", text),
        daily.set_key("Daily/monday.md", "watch", [pattern]),
    ):
        with pytest.raises(ActRefusedError, match="may not watch"):
            await act
    await daily.set_key("Daily/monday.md", "watch", ["./*.md"])


async def test_a_link_is_not_removed_and_neither_is_what_it_leads_to(module_rig, daily):
    module_rig.link("Daily/in.md", "monday.md")

    with pytest.raises(PathRefusedError):
        await daily.delete("Daily/in.md")
    assert (module_rig.vault / "Daily/in.md").is_symlink()
    assert (module_rig.vault / "Daily/monday.md").exists()


async def test_a_file_that_is_not_text_is_bytes_and_one_that_is_too_large_is_refused(
    module_rig, daily
):
    module_rig.save("Daily/photo.md", b"\xff\xfe\x00")
    with (module_rig.vault / "Daily/huge.md").open("wb") as file:
        file.truncate(1 << 40)

    assert await daily.read_bytes("Daily/photo.md") == b"\xff\xfe\x00"
    with pytest.raises(EditRefusedError, match="not UTF-8 text"):
        await daily.read("Daily/photo.md")
    for act in (
        daily.read("Daily/huge.md"),
        daily.write("Daily/huge.md", "x"),
        daily.append("Daily/huge.md", "Log", "x"),
    ):
        with pytest.raises(EditRefusedError, match="larger than"):
            await act
    with pytest.raises(EditRefusedError, match="larger than"):
        await daily.write("Daily/monday.md", "x" * (17 << 20))
    with pytest.raises(EditRefusedError, match="not valid Unicode"):
        await daily.write("Daily/monday.md", "\ud800")
    with pytest.raises(EditRefusedError, match="a key takes"):
        await daily.set_key("Daily/monday.md", "a", {"deep": []})


async def test_a_call_for_a_key_with_paths_reaches_what_both_reach(module_rig):
    module_rig.save("Daily/work/a.md", "# Work heliotrope\n")
    module_rig.library.settled()
    vault = module_rig.bounded(read=["Daily/**"], write=["Daily/**"])
    with acting(
        limited(AccessGrant(alternatives=(((PathGlob("Daily/work/**"), PathGlob("Private/**")),),)))
    ):
        assert await vault.list() == ["Daily/work/a.md"]
        assert [hit.path for hit in await vault.search("heliotrope")] == ["Daily/work/a.md"]
        await vault.append("Daily/work/a.md", "Log", "- x")
        for path in ("Daily/monday.md", "Private/secret.md"):
            with pytest.raises(ActRefusedError, match="key that called"):
                await vault.read(path)
            with pytest.raises(ActRefusedError):
                await vault.write(path, "x")
        with pytest.raises(ActRefusedError, match="may not watch"):
            await vault.set_key("Daily/work/a.md", "watch", ["Daily"])
    assert await vault.list() == ["Daily/monday.md", "Daily/work/a.md"]


async def test_nothing_is_written_that_could_not_be_recorded_and_the_audit_learns_who_it_was(
    module_rig, daily, monkeypatch
):
    callers = []
    monkeypatch.setattr(
        module_rig.store._runner, "wrote", lambda write: callers.append(write.author.caller)
    )
    await daily.create("Daily/a.md", "x\n")
    with acting(Authority(request_id="request-9")):
        await daily.create("Daily/b.md", "x\n")
    module_rig.audit.refusal = "the audit cannot be written"

    assert callers == [
        Caller("module", "daily"),
        Caller("module", "daily", "request-9"),
    ]
    with pytest.raises(StorageFailedError, match="the audit cannot be written"):
        await daily.create("Daily/c.md", "x\n")
    assert not (module_rig.vault / "Daily/c.md").exists()


def limited(paths: AccessGrant) -> Authority:
    return Authority(reads=paths, writes=paths)


async def test_bytes_are_written_as_they_are_and_never_merged_where_they_are_no_text(module_rig):
    daily = module_rig.bounded(read=["Daily/**"], write=["Daily/**"])
    image = b"\xff\x00head\none\ntwo\nthree\nfour\nfive\n"
    base = await daily.write_bytes("Daily/photo.jpg", image)
    await daily.write_bytes("Daily/photo.jpg", image.replace(b"one", b"ONE"), base=base)

    with pytest.raises(ConflictError):
        await daily.write_bytes("Daily/photo.jpg", image.replace(b"five", b"FIVE"), base=base)
    assert await daily.read_bytes("Daily/photo.jpg") == image.replace(b"one", b"ONE")


async def test_bytes_given_as_a_text_are_refused_with_what_to_call(module_rig):
    daily = module_rig.bounded(read=["Daily/**"], write=["Daily/**"])
    for act in (daily.write, daily.create):
        with pytest.raises(TypeError, match="write_bytes writes bytes"):
            await act("Daily/photo.jpg", b"\xff")


async def test_several_notes_are_changed_as_one_run(module_rig, daily):
    module_rig.save("Daily/old.md", "# Old\n")
    note = await daily.note("Daily/monday.md")
    run = await daily.edit_all(
        [
            NoteChange("Daily/monday.md", [SetKey("n", 1)], note.digest),
            NoteChange("Daily/old.md", None),
        ],
        reason="tidied up",
    )

    assert not (module_rig.vault / "Daily/old.md").exists()
    assert {write.path for write in module_rig.store.history.writes_by(run)} == {
        "Daily/monday.md",
        "Daily/old.md",
    }
    document = module_rig.store.history.run(run)
    assert (document["outcome"], document["reason"]) == ("changed", "tidied up")
    assert len(document["wrote"]) == 2


async def test_of_several_notes_one_that_may_not_be_changed_keeps_all_as_they_are(
    module_rig, daily
):
    before = (module_rig.vault / "Daily/monday.md").read_bytes()
    changes = [
        NoteChange("Daily/monday.md", [SetKey("n", 1)]),
        NoteChange("Private/secret.md", [SetKey("n", 1)]),
    ]
    with pytest.raises(ActRefusedError, match="may not write"):
        await daily.edit_all(changes, reason="x")
    with pytest.raises(NotFoundError):
        await daily.edit_all([changes[0], NoteChange("Daily/none.md", None)], reason="x")
    with pytest.raises(EditRefusedError, match="named twice"):
        await daily.edit_all([changes[0], changes[0]], reason="x")

    assert (module_rig.vault / "Daily/monday.md").read_bytes() == before
    assert (module_rig.vault / "Private/secret.md").read_text() == HIDDEN
    assert module_rig.store.history.acts() == module_rig.store.history.runs() == []


async def test_of_several_notes_the_first_that_cannot_be_written_ends_it(module_rig, daily):
    module_rig.save("Daily/old.md", "# Old\n")
    changes = [
        NoteChange("Daily/monday.md", [SetKey("n", 1)]),
        NoteChange("Daily/new.md", None, text="# New\n"),
        NoteChange("Daily/old.md", None),
    ]
    module_rig.save("Daily/new.md", "# Mine\n")
    with pytest.raises(EditRefusedError, match=r"1 of 3 files .* undo r"):
        await daily.edit_all(changes, reason="x")

    assert (module_rig.vault / "Daily/old.md").exists()
    assert (module_rig.vault / "Daily/new.md").read_text() == "# Mine\n"
    assert module_rig.store.history.acts() == []


@pytest.mark.parametrize(
    ("author", "writer"),
    [
        (Author(by="person"), "person"),
        (Author(by="undo", run="r-1"), "person"),
        (Author(by="person", key="k_1"), "key"),
        (Author(by="undo", run="r-1", key="k_1"), "key"),
        (Author(by="module:daily", run="r-1", key="k_1"), "key"),
        (Author(by="module:daily", run="r-1"), "module"),
        (Author(by="module:daily/journal", run="r-1"), "agent"),
        (Author(by="curator", run="r-1"), "agent"),
        (Author(by="suggestion:s1", run="r-1"), "agent"),
    ],
)
async def test_who_wrote_the_present_text_is_known(module_rig, daily, author, writer):
    path = VaultPath("Daily/new.md")
    module_rig.store.create(path, b"# New\n", author)
    await module_rig.notice([path])
    assert await daily.written_by(path) == writer

    module_rig.save(path, "# Edited\n")
    assert await daily.written_by(path) == "person"


async def test_who_wrote_what_may_not_be_read_is_not_said(daily):
    with pytest.raises(ActRefusedError):
        await daily.written_by("Private/secret.md")
