"""Granted vault: what a module reads, finds and writes is what its permissions name."""

from __future__ import annotations

import os
from itertools import pairwise

import pytest

from parachuted.access.caller import Caller, CurrentRun, WorkChain, WorkRequest, acting
from parachuted.access.grant import Grant
from parachuted.access.notes import NoteChange, SetKey, SetSection
from parachuted.errors import (
    ActRefusedError,
    ConflictError,
    EditRefusedError,
    NotFoundError,
    PathRefusedError,
    StorageFailedError,
)
from parachuted.keys import EVERYWHERE, NOWHERE
from parachuted.vault import Author, Requester, VaultPath, digest_of
from tests.runs.conftest import limited

MONDAY, SECRET, OLD = "Daily/monday.md", "Private/secret.md", "Daily/old.md"
HIDDEN = "# Secret\n\nthe word is heliotrope\n"


@pytest.fixture
def module_rig(module_rig):
    module_rig.save(MONDAY, "# Monday\n\nbeans\n\n## Log\n\n- sown\n")
    module_rig.save(SECRET, HIDDEN)
    return module_rig


@pytest.mark.parametrize(
    ("path", "error", "words"),
    [
        *[
            (path, PathRefusedError, None)
            for path in ("", "/etc/passwd", "../x", "Daily/../Private/secret.md", "Daily//x.md")
        ],
        *[(path, PathRefusedError, None) for path in ("~/x", "Daily/a\0b", "./Daily/x")],
        (SECRET, ActRefusedError, r"daily may not read Private/secret\.md: its permissions\.read"),
        *[
            (path, ActRefusedError, "do not name it")  # whether it is there does not show
            for path in ("private/secret.md", "Private/none.md", "DAILY/monday.md", "Dailyx/a.md")
        ],
        ("Daily", ActRefusedError, "do not name it"),
        (".parachute/audit/today.jsonl", PathRefusedError, "is hidden"),
        ("Modules/daily/module.py", PathRefusedError, "is hidden"),
        ("Daily/no.md", NotFoundError, None),
    ],
)
async def test_nothing_is_read_but_what_the_permissions_name(daily, path, error, words):
    for act in (daily.read, daily.read_bytes, daily.digest, daily.written_by):
        with pytest.raises(error, match=words):
            await act(path)


async def test_what_the_permissions_name_is_read_listed_and_found(module_rig, daily):
    module_rig.save("Daily/sub/tuesday.md", "# Tuesday\n\nheliotrope in bloom\n")
    module_rig.save("Daily/.agents/reflect.md", "# Reflect\n")
    module_rig.library.settled()

    assert (await daily.read(MONDAY)).startswith("# Monday")
    assert [await daily.exists(path) for path in (MONDAY, SECRET, "Daily/no.md")] == [
        True,
        False,
        False,
    ]
    for pattern, found in {
        "**": ["Daily/.agents/reflect.md", MONDAY, "Daily/sub/tuesday.md"],
        "Daily/*.md": [MONDAY],
        "Daily/sub/": ["Daily/sub/tuesday.md"],
        "Private/**": [],
    }.items():
        assert await daily.list(pattern) == found
    hits = await daily.search("heliotrope")
    assert [(hit.path, hit.title, "<mark>" in hit.snippet) for hit in hits] == [
        ("Daily/sub/tuesday.md", "Tuesday", True)
    ]
    assert len(await module_rig.bounded(read=["**"]).search("heliotrope", 1)) == 1
    with pytest.raises(PathRefusedError):
        await daily.list("../**")
    with pytest.raises(ActRefusedError, match="write what to look for"):
        await daily.search(" ")


async def test_a_link_leads_only_where_the_permissions_reach_too(module_rig, daily):
    for path, to in {
        "Daily/in.md": "monday.md",
        "Daily/out.md": "../Private/secret.md",
        "Daily/folder": "../Private",
        "Daily/beyond.md": "/etc/passwd",
        "Private/back.md": "../Daily/monday.md",
    }.items():
        module_rig.link(path, to)

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
    with pytest.raises(PathRefusedError):  # neither the link is removed nor what it leads to
        await daily.delete("Daily/in.md")
    assert (module_rig.vault / "Daily/in.md").is_symlink()
    assert module_rig.text(SECRET) == HIDDEN


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
    assert module_rig.text(SECRET) == HIDDEN


@pytest.mark.parametrize(
    "path",
    [
        ".git/config",
        "Modules/daily/module.py",
        "Daily/.agents/x.md",
        "\N{FULLWIDTH LATIN SMALL LETTER M}odules/x.py",
    ],
)
async def test_what_is_a_programs_is_not_written_whatever_the_permissions_say(module_rig, path):
    vault = module_rig.bounded(read=["**"], write=["**"])
    for act in (vault.create(path, "x"), vault.write(path, "x"), vault.delete(path)):
        with pytest.raises(PathRefusedError, match="belongs to a program"):
            await act
    assert not (module_rig.vault / path).exists()

    folder = path.rpartition("/")[0]  # nor by a link to where it lies
    (module_rig.vault / folder).mkdir(parents=True)
    module_rig.link("Daily/code", f"../{folder}")
    with pytest.raises(ActRefusedError, match="what the link"):
        await vault.create("Daily/code/x.py", "x")


async def test_to_read_is_not_to_write_and_to_write_is_not_to_read(module_rig):
    reader, writer = module_rig.bounded(read=["Daily/**"]), module_rig.bounded(write=["Inbox/**"])

    with pytest.raises(
        ActRefusedError, match=r"not write Daily/monday\.md: its permissions\.write"
    ):
        await reader.append(MONDAY, "Log", "- mine")
    assert await writer.create("Inbox/a.md", "mine\n") == digest_of(b"mine\n")
    with pytest.raises(ActRefusedError):
        await writer.read("Inbox/a.md")
    with pytest.raises(ConflictError) as conflict:
        await writer.create("Inbox/a.md", "again\n")
    assert (conflict.value.ours, conflict.value.theirs) == (b"again\n", b"")

    neither = module_rig.bounded()
    assert (await neither.list(), await neither.search("heliotrope")) == ([], [])
    assert not await neither.exists(MONDAY)
    for act in (neither.read(MONDAY), neither.write(MONDAY, "x"), neither.create("x.md", "x")):
        with pytest.raises(ActRefusedError):
            await act


async def test_every_way_to_write_goes_through_the_one_writer_and_is_noticed(module_rig, daily):
    path = "Daily/new/note.md"
    await daily.create(path, "---\ntags: [a]\n---\n# New\n")
    await daily.append(path, "Log", "- begun")
    await daily.set_key(path, "status", "draft")
    await daily.set_key(path, "tags", None)
    digest = await daily.write(path, "whole\n")
    assert await daily.write(path, "whole\n") == digest  # which changes nothing, so it is no write
    await daily.delete(path)

    writes = module_rig.history.writes_of(path)
    acts = "Create AppendToSection SetKey DeleteKey ReplaceAll Delete"
    assert [write.operation for write in writes] == acts.split()
    assert {(write.author.by, write.author.run) for write in writes} == {("module:daily", None)}
    assert module_rig.noticed == [path] * 6
    assert all(earlier.after == later.before for earlier, later in pairwise(writes))
    assert writes[4].after == digest
    assert b"\nstatus: draft\n" in module_rig.objects.get(writes[4].before)
    assert not (module_rig.vault / path).exists()


async def test_a_write_carries_on_the_cause_that_led_to_it_or_begins_one(module_rig, daily):
    with acting(Caller(causes=("c-first",))):
        await daily.append(MONDAY, "Log", "- one")
    await daily.append(MONDAY, "Log", "- two")

    first, second = module_rig.history.writes_of(MONDAY)
    assert first.author.causes == ("c-first",)
    assert len(second.author.causes) == 1
    assert second.author.causes != first.author.causes


async def test_what_a_person_wrote_since_the_base_is_kept_or_it_is_a_conflict(module_rig, daily):
    data, base = await daily.read_with_digest(MONDAY)
    text = data.decode()
    module_rig.save(MONDAY, text.replace("beans", "beans and peas"))

    await daily.write(MONDAY, text.replace("- sown", "- sown\n- watered"), base=base)
    merged = module_rig.text(MONDAY)
    assert "beans and peas" in merged
    assert "- watered" in merged
    with pytest.raises(ConflictError) as conflict:
        await daily.write(MONDAY, text.replace("beans", "corn"), base=base)
    assert b"corn" in conflict.value.ours
    assert (conflict.value.theirs, conflict.value.base) == (merged.encode(), b"")
    secret = module_rig.objects.put(HIDDEN.encode())  # digests are told in events
    with pytest.raises(NotFoundError, match="not one that was read here"):
        await daily.write(MONDAY, "# Mine\n", base=secret)
    assert module_rig.text(MONDAY) == merged


async def test_a_conflict_shows_no_private_part_to_code_that_works_for_an_agent(module_rig, daily):
    text = "# Day\n\nopen\n\n## Log\n\nsown\n\n## Mine #private\n\nsecret\n"
    module_rig.save("Daily/day.md", text)
    grant = Grant(agent="a", reads=EVERYWHERE, writes=EVERYWHERE, tainted_writes=NOWHERE)
    for caller, is_shown in (
        (Caller(), True),
        (Caller(chain=WorkChain(within=CurrentRun(grant=grant))), False),
    ):
        with acting(caller), pytest.raises(ConflictError) as conflict:
            await daily.create("Daily/day.md", "mine\n")
        assert (b"secret" in conflict.value.theirs) is is_shown
        assert b"open" in conflict.value.theirs
        with acting(caller):
            base = await daily.digest("Daily/day.md")
            module_rig.save("Daily/day.md", text.replace("sown", f"by hand: {is_shown}"))
            with pytest.raises(ConflictError) as conflict:
                await daily.edit("Daily/day.md", [SetSection("Log", "mine")], base=base)
        assert (b"secret" in conflict.value.ours) is is_shown
        assert b"mine" in conflict.value.ours


@pytest.mark.parametrize("pattern", ["Private", "**", "../Private/*.md", "Private/secret.md#Facts"])
async def test_no_note_of_a_module_watches_what_the_module_may_not_read(daily, pattern):
    """A curator would read it for the module, and write it down in the module's own note."""
    text = f'---\nwatch:\n  - "{pattern}"\n---\n# Spy\n'
    for act in (
        daily.create("Daily/spy.md", text),
        daily.write(MONDAY, text),
        daily.set_key(MONDAY, "watch", [pattern]),
    ):
        with pytest.raises(ActRefusedError, match="may not watch"):
            await act
    await daily.set_key(MONDAY, "watch", ["./*.md"])


async def test_what_is_too_large_or_no_text_is_refused_in_words(module_rig, daily):
    module_rig.save("Daily/photo.md", b"\xff\xfe\x00")
    with (module_rig.vault / "Daily/huge.md").open("wb") as file:
        file.truncate(1 << 40)
    os.mkfifo(module_rig.vault / "Daily/pipe.md")
    with pytest.raises((PathRefusedError, StorageFailedError)):  # it is not waited for
        await daily.read("Daily/pipe.md")

    assert await daily.read_bytes("Daily/photo.md") == b"\xff\xfe\x00"
    for act, words in (
        (daily.read("Daily/photo.md"), "not UTF-8 text"),
        (daily.read("Daily/huge.md"), "larger than"),
        (daily.write("Daily/huge.md", "x"), "larger than"),
        (daily.append("Daily/huge.md", "Log", "x"), "larger than"),
        (daily.set_key(MONDAY, "a", {"deep": []}), "a key takes"),
    ):
        with pytest.raises(EditRefusedError, match=words):
            await act
    for text, words in (("x" * (17 << 20), "larger than"), ("\ud800", "not valid Unicode")):
        with pytest.raises(EditRefusedError, match=words):
            await daily.write(MONDAY, text)
    for act in (daily.write, daily.create):
        with pytest.raises(TypeError, match="write_bytes writes bytes"):
            await act("Daily/photo.jpg", b"\xff")


async def test_a_call_for_a_key_with_paths_reaches_what_both_reach(module_rig, daily):
    module_rig.save("Daily/work/a.md", "# Work heliotrope\n")
    module_rig.library.settled()
    with acting(limited("Daily/work/**", "Private/**")):
        assert await daily.list() == ["Daily/work/a.md"]
        assert [hit.path for hit in await daily.search("heliotrope")] == ["Daily/work/a.md"]
        await daily.append("Daily/work/a.md", "Log", "- x")
        for path in (MONDAY, SECRET):
            with pytest.raises(ActRefusedError, match="of who asks"):
                await daily.read(path)
            with pytest.raises(ActRefusedError):
                await daily.write(path, "x")
        with pytest.raises(ActRefusedError, match="may not watch"):
            await daily.set_key("Daily/work/a.md", "watch", ["Daily"])
    assert await daily.list() == [MONDAY, "Daily/work/a.md"]


async def test_nothing_is_written_that_cannot_be_recorded_with_who_it_was(
    module_rig, daily, monkeypatch
):
    callers = []
    monkeypatch.setattr(
        module_rig.store._runner, "wrote", lambda write: callers.append(write.author.requester)
    )
    await daily.create("Daily/a.md", "x\n")
    with acting(Caller(request=WorkRequest(id="request-9"))):
        await daily.create("Daily/b.md", "x\n")
    module_rig.audit.refusal = "the audit cannot be written"

    assert callers == [Requester("module", "daily"), Requester("module", "daily", "request-9")]
    with pytest.raises(StorageFailedError, match="the audit cannot be written"):
        await daily.create("Daily/c.md", "x\n")
    assert not (module_rig.vault / "Daily/c.md").exists()


async def test_several_notes_are_changed_as_one_run(module_rig, daily):
    module_rig.save(OLD, "# Old\n")
    note = await daily.note(MONDAY)
    changes = [NoteChange(MONDAY, [SetKey("n", 1)], note.digest), NoteChange(OLD, None)]
    run = await daily.edit_all(changes, reason="tidied up")

    assert not (module_rig.vault / OLD).exists()
    assert {write.path for write in module_rig.history.writes_by(run)} == {MONDAY, OLD}
    document = module_rig.history.run(run)
    assert (document["outcome"], document["reason"]) == ("changed", "tidied up")
    assert len(document["wrote"]) == 2


async def test_of_several_notes_one_that_cannot_be_changed_ends_it(module_rig, daily):
    before, first = module_rig.text(MONDAY), NoteChange(MONDAY, [SetKey("n", 1)])
    for changes, error, words in (
        ([first, NoteChange(SECRET, [SetKey("n", 1)])], ActRefusedError, "may not write"),
        ([first, NoteChange("Daily/none.md", None)], NotFoundError, None),
        ([first, NoteChange(MONDAY, None, text="# New\n")], EditRefusedError, "named twice"),
        ([], EditRefusedError, "nothing to change"),
    ):
        with pytest.raises(error, match=words):
            await daily.edit_all(changes, reason="x")
    assert (module_rig.text(MONDAY), module_rig.text(SECRET)) == (before, HIDDEN)
    assert module_rig.history.acts() == module_rig.history.runs() == []

    module_rig.save(OLD, "# Old\n")
    module_rig.save("Daily/new.md", "# Mine\n")
    changes = [first, NoteChange("Daily/new.md", None, text="# New\n"), NoteChange(OLD, None)]
    with pytest.raises(EditRefusedError, match=r"1 of 3 files .* undo r"):
        await daily.edit_all(changes, reason="x")
    assert (module_rig.vault / OLD).exists()
    assert module_rig.text("Daily/new.md") == "# Mine\n"
    assert module_rig.history.acts() == []


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
