"""Granted notes: a note as one read, lists of notes, and edits that keep what others wrote."""

from __future__ import annotations

import pytest

from parachuted.access.caller import Caller, acting
from parachuted.access.notes import AppendSection, RemoveKey, ReplaceSpan, SetKey, SetSection
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

PATH = "Daily/monday.md"
MONDAY = (
    "---\nmood: fine\nwords: 3\n---\n# Monday\n\nbeans, [[secret]], [[tuesday]]\n\n## Log\n\n"
    "- sown\n"
)


@pytest.fixture
def module_rig(module_rig: ModuleRig) -> ModuleRig:
    module_rig.save(PATH, MONDAY)
    module_rig.save("Daily/tuesday.md", "# Tuesday\n")
    module_rig.save("Private/secret.md", "# Secret\n")
    module_rig.library.settled()
    return module_rig


async def test_a_note_is_one_read_and_its_links_lead_where_the_caller_may_read(module_rig, daily):
    note = await daily.note(PATH)

    assert (note.title, note.digest) == ("Monday", digest_of(MONDAY.encode()))
    assert note.frontmatter == {"mood": "fine", "words": 3}
    links = [("secret", None), ("tuesday", "Daily/tuesday.md")]
    assert [(link.target, link.path) for link in note.links] == links
    assert note.section("Log").content(note) == "- sown"
    with acting(limited(PATH)):
        assert [link.path for link in (await daily.note(PATH)).links] == [None, None]
    module_rig.save("Daily/photo.md", b"\xff")
    for path, error in (
        ("Private/secret.md", ActRefusedError),
        ("Daily/none.md", NotFoundError),
        ("Daily/photo.md", EditRefusedError),
    ):
        with pytest.raises(error):
            await daily.note(path)
    with acting(limited("Daily/tuesday.md")), pytest.raises(ActRefusedError):
        await daily.note(PATH)


async def test_several_edits_are_one_write_and_all_else_stays(module_rig, daily):
    note = await daily.note(PATH)
    at = note.text.index("beans")
    for edits in (
        [SetKey("mood", "great"), RemoveKey("nothing")],
        [SetKey("mood", "great"), SetSection("Log", "# not deeper")],
        [SetKey("mood", "great"), SetKey("mood", object())],
    ):  # what cannot be made undoes all
        with pytest.raises((NotFoundError, EditRefusedError)):
            await daily.edit(PATH, edits)
    assert (module_rig.text(PATH), module_rig.history.writes_of(PATH)) == (MONDAY, [])
    edits = [
        SetKey("mood", "great"),
        RemoveKey("words"),
        AppendSection("Log", "- watered"),
        SetSection("Plan", "rest"),
        ReplaceSpan(at, at + len("beans"), "bééns"),
    ]
    digest = await daily.edit(PATH, edits, base=note.digest)

    text = module_rig.text(PATH)
    assert text == MONDAY.replace("mood: fine\nwords: 3", "mood: great").replace(
        "beans", "bééns"
    ).replace("- sown\n", "- sown\n- watered\n\n## Plan\n\nrest\n")
    assert digest == digest_of(text.encode())
    (write,) = module_rig.history.writes_of(PATH)
    assert (write.operation, module_rig.noticed) == ("Several", [PATH])


async def test_no_span_of_an_older_text_makes_a_note_watch_more_than_may_be_read(module_rig, daily):
    """What counts is the text that the merge would leave."""
    note = await daily.note(PATH)
    module_rig.save(PATH, f"{MONDAY}{'x' * 500}\n")
    at = note.text.index("mood")

    edit = ReplaceSpan(at, at, "watch: [Private/secret.md]\n")
    with pytest.raises(ActRefusedError, match="may not watch Private"):
        await daily.edit(PATH, [edit], base=note.digest)
    assert "watch" not in module_rig.text(PATH)


async def test_a_span_needs_the_text_that_it_is_one_of(module_rig, daily):
    note = await daily.note(PATH)
    secret = module_rig.objects.put(b"# Secret\n")

    for edits, base, why in (
        ([ReplaceSpan(0, 1, "x")], None, "base=note.digest"),
        ([ReplaceSpan(0, 10_000, "x")], note.digest, "are not in the text"),
        ([ReplaceSpan(5, 1, "x")], note.digest, "are not in the text"),
        ([ReplaceSpan(0, 5, "x"), ReplaceSpan(3, 8, "y")], note.digest, "overlap"),
        ([ReplaceSpan(0, 1, "\ud800")], note.digest, "not Unicode"),
        ([ReplaceSpan(0, 1, "x")], secret, "not one that was read here"),
    ):
        with pytest.raises((EditRefusedError, NotFoundError), match=why):
            await daily.edit(PATH, edits, base=base)
    assert module_rig.text(PATH) == MONDAY


@pytest.fixture
def garden(module_rig):
    for number, crop in enumerate(("beans", "corn", "beans")):
        module_rig.save(
            f"Garden/bed{number}.md",
            f"---\ncrop: {crop}\nrow: {number}\ndry: {'true' if number else 'false'}\n---\n"
            f"# Bed {number}\n\n[[monday]] #bed/warm\n",
        )
    module_rig.save("Garden/closed/bed9.md", "---\ncrop: beans\n---\n# Bed 9\n\n[[bed0]]\n")
    module_rig.library.settled()
    return module_rig.bounded(read=["Garden/*.md", "Daily/**"], write=["Garden/*.md"])


@pytest.mark.parametrize(
    ("asked", "titles"),
    [
        ({"folder": "Garden"}, ["Bed 0", "Bed 1", "Bed 2"]),
        ({"tag": "bed", "order": "-row"}, ["Bed 2", "Bed 1", "Bed 0"]),
        ({"where": {"crop": "beans", "dry": True}}, ["Bed 2"]),
        ({"where": {"crop": ["corn", "peas"]}}, ["Bed 1"]),
        ({"folder": "Garden/", "where": {"row": 1}}, ["Bed 1"]),
        ({"where": {"crop": None}}, ["Monday", "Tuesday"]),
        ({"folder": "Garden/closed"}, []),
        ({"folder": "Private"}, []),
    ],
)
async def test_notes_are_listed_as_far_as_they_may_be_read(garden, asked, titles):
    assert [row.title for row in (await garden.notes(**asked)).notes] == titles


async def test_a_row_is_the_note_as_it_was_just_written(garden):
    await garden.set_key("Garden/bed1.md", "crop", "peas")

    (row,) = (await garden.notes(where={"crop": "peas"})).notes
    assert (row.path, row.frontmatter, row.tags) == (
        "Garden/bed1.md",
        {"crop": "peas", "row": 1, "dry": True},
        ("bed/warm",),
    )
    assert row.digest == (await garden.note("Garden/bed1.md")).digest
    with acting(limited("Garden/bed1.md")):
        page = await garden.notes()
        read = [note.path async for note in garden.read_notes()]
    assert [row.path for row in page.notes] == read == ["Garden/bed1.md"]


async def test_a_page_has_the_cursor_of_the_next(garden):
    first = await garden.notes(order="-title", limit=3)
    rest = await garden.notes(order="-title", limit=3, cursor=first.next)

    titles = [row.title for row in (*first.notes, *rest.notes)]
    assert titles == ["Tuesday", "Monday", "Bed 2", "Bed 1", "Bed 0"]
    assert (rest.next, rest.is_indexing) == (None, False)
    for asked, error in (
        ({"cursor": "none"}, ActRefusedError),
        ({"where": {"crop": {}}}, EditRefusedError),
        ({"folder": "../Private"}, PathRefusedError),
    ):
        with pytest.raises(error):
            await garden.notes(**asked)


async def test_links_and_backlinks_are_those_of_readable_notes(module_rig, garden):
    module_rig.save("Garden/bed0.md", "# Bed\n\n[[bed9]]\n[[nowhere]]\n\n[[monday|x]]\n")

    links = (await garden.note("Garden/bed0.md")).links
    targets = [(None, "bed9"), (None, "nowhere"), (PATH, "monday")]
    assert [(link.path, link.target) for link in links] == targets
    module_rig.library.settled()
    backlinks = await garden.backlinks(PATH)
    assert [(link.path, link.title, link.line) for link in backlinks] == [
        ("Garden/bed0.md", "Bed", 6),
        ("Garden/bed1.md", "Bed 1", 8),
        ("Garden/bed2.md", "Bed 2", 8),
    ]
    assert await garden.backlinks("Garden/bed0.md") == []  # the one that leads there is not theirs
    for path in ("Garden/closed/bed9.md", "Private/secret.md"):
        with pytest.raises(ActRefusedError):
            await garden.backlinks(path)
    with pytest.raises(NotFoundError):
        await garden.backlinks("Garden/none.md")


async def test_many_notes_are_read_as_one_by_one(module_rig, garden):
    module_rig.save("Garden/photo.png", b"\x89PNG")
    module_rig.save("Garden/broken.md", b"---\nx: [\n---\n\xe9\n")
    module_rig.save("Garden/strange.md", "---\nx: [\n---\n# Strange\n")
    stream = garden.read_notes("Garden/")

    found = [note async for note in stream]
    names = ("bed0", "bed1", "bed2", "strange")
    assert [note.path for note in found] == [f"Garden/{name}.md" for name in names]
    for note in found:
        alone = await garden.note(note.path)
        assert note == alone
        assert (note.sections, note.links) == (alone.sections, alone.links)
    assert found[0].links[0].path == PATH
    assert list(stream.left_out) == ["Garden/broken.md"]
    assert "not UTF-8 text" in stream.left_out["Garden/broken.md"]


async def test_named_notes_are_read_and_one_that_is_not_theirs_refuses_all(garden):
    stream = garden.read_notes([PATH, "Garden/none.md", "Garden/bed0.md"])

    assert [note.path async for note in stream] == [PATH, "Garden/bed0.md"]
    assert list(stream.left_out) == ["Garden/none.md"]
    for path in ("Private/secret.md", "Garden/closed/bed9.md", "../x.md"):
        with pytest.raises((ActRefusedError, PathRefusedError)):
            _ = [note async for note in garden.read_notes([PATH, path])]


async def test_a_digest_of_bulk_reading_is_a_base_until_the_note_changes(module_rig, garden):
    (module_rig.vault / "Garden/bed2.md").write_text("---\ncrop: 5\n---\n# Newer\n")
    (newer,) = [note async for note in garden.read_notes("Garden/bed2.md")]  # than the index
    assert (newer.title, newer.frontmatter, newer.tags) == ("Newer", {"crop": 5}, ())
    (note,) = [note async for note in garden.read_notes("Garden/bed1.md")]
    digest = await garden.edit(note.path, [ReplaceSpan(0, 0, "")], base=note.digest)
    assert digest == note.digest
    module_rig.save("Garden/bed1.md", f"{note.text}by hand\n")

    with pytest.raises(ConflictError, match="read it again"):
        await garden.edit(note.path, [SetKey("row", 7)], base=note.digest)
    assert module_rig.text("Garden/bed1.md") == f"{note.text}by hand\n"


async def test_every_way_to_read_a_strangers_note_marks_the_work(module_rig):
    module_rig.save("Inbox/letter.md", "# Letter\n\n[[bill]]\n")
    module_rig.save("Inbox/bill.md", "# Bill\n")
    module_rig.save("Daily/mine.md", "---\norigin: web\n---\n# Mine\n\n[[tuesday]]\n")
    module_rig.library.settled()
    vault = module_rig.bounded(read=["**"])

    async def read(pattern):
        return [note async for note in vault.read_notes(pattern)]

    for act, is_tainting in (
        (lambda: vault.note(PATH), False),
        (lambda: vault.note("Daily/mine.md"), True),
        (lambda: vault.notes("Daily", where={"mood": "fine"}), False),
        (lambda: vault.notes("Daily"), True),
        (lambda: vault.notes("Inbox"), True),
        (lambda: vault.backlinks("Daily/tuesday.md"), True),
        (lambda: vault.backlinks("Private/secret.md"), False),
        (lambda: read(PATH), False),
        (lambda: read([PATH]), False),
        (lambda: read("Daily/*.md"), True),
        (lambda: read("Inbox/**"), True),
        (lambda: read(["Inbox/bill.md"]), True),
    ):
        caller = Caller()
        with acting(caller):
            await act()
        assert bool(caller.taint) is is_tainting, caller.taint.why()


async def test_who_may_write_a_private_note_gets_all_of_it_and_others_none(module_rig):
    text = "---\nprivate: true\nmood: low\n---\n# Mine\n"
    module_rig.save("Daily/private.md", text)
    module_rig.library.settled()
    owner = module_rig.bounded(read=["Daily/**"], write=["Daily/**"])
    reader = module_rig.bounded(read=["Daily/**"])

    for vault, title, mood, shown in (
        (owner, "Mine", "low", text),
        (reader, "private", None, "(private part 1: left out)\n"),
    ):
        (many,) = [note async for note in vault.read_notes("Daily/private.md")]
        for note in (await vault.note("Daily/private.md"), many):
            assert (note.title, note.frontmatter.get("mood"), note.text) == (title, mood, shown)
            assert note.digest == digest_of(text.encode())
    (row,) = (await owner.notes(where={"mood": None}, order="-modified", limit=1)).notes
    assert row.path != "Daily/private.md" or row.frontmatter == {}
