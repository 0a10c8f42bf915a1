"""Checkout: an agent's private copy of the notes, and what of it comes back into the vault."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from parachuted.errors import ActRefusedError, StorageFailedError
from parachuted.vault import IgnoreRules, Store, WriteIntent
from tests.tools.checkout_rig import NOON, CheckoutRig, at_desk, paths


@pytest.fixture
def checkout_rig(tmp_path: Path) -> Iterator[CheckoutRig]:
    with at_desk(tmp_path) as made:
        yield made


# what comes back


async def test_what_a_shell_did_is_in_the_vault_as_that_run_by_the_one_writer(
    checkout_rig: CheckoutRig,
):
    await checkout_rig.open()
    checkout_rig.shell("Projects/roof.md", "# Roof\n\nnew\n")
    checkout_rig.shell("Projects/new/leak.md", "# Leak\n")
    (checkout_rig.work / "Projects/garden.md").unlink()
    checked = await checkout_rig.check_in()

    assert checkout_rig.texts() == {
        "Daily/monday.md": "# Monday\n",
        "Library/book.md": "# Book\n",
        "Projects/new/leak.md": "# Leak\n",
        "Projects/roof.md": "# Roof\n\nnew\n",
    }
    assert (checked.refused, checked.words()) == ((), "")
    writes = checkout_rig.history.writes_by("r1")
    assert {(write.path, write.operation) for write in writes} == {
        ("Projects/garden.md", "Delete"),
        ("Projects/new/leak.md", "Create"),
        ("Projects/roof.md", "ReplaceAll"),
    }
    assert {(write.author.by, write.author.causes) for write in writes} == {
        ("module:gardener", ("c1",))
    }


async def test_a_file_that_was_only_touched_is_not_a_change(checkout_rig: CheckoutRig):
    await checkout_rig.open()
    checkout_rig.shell("Projects/roof.md", checkout_rig.texts()["Projects/roof.md"])
    os.utime(checkout_rig.work / "Projects/garden.md", (1, 1))

    assert (await checkout_rig.check_in()).written == ()


async def test_a_renamed_note_is_moved(checkout_rig: CheckoutRig):
    await checkout_rig.open()
    (checkout_rig.work / "Projects/roof.md").rename(checkout_rig.work / "Daily/house.md")
    await checkout_rig.check_in()

    assert "Projects/roof.md" not in checkout_rig.texts()
    assert {write.operation for write in checkout_rig.history.writes_by("r1")} == {"Move"}


async def test_two_notes_that_trade_names_keep_their_texts(checkout_rig: CheckoutRig):
    await checkout_rig.open()
    (checkout_rig.work / "Projects/roof.md").rename(checkout_rig.work / "Projects/x.md")
    (checkout_rig.work / "Projects/garden.md").rename(checkout_rig.work / "Projects/roof.md")
    (checkout_rig.work / "Projects/x.md").rename(checkout_rig.work / "Projects/garden.md")
    await checkout_rig.check_in()

    assert checkout_rig.texts()["Projects/roof.md"] == "# Garden\n"
    assert checkout_rig.texts()["Projects/garden.md"].startswith("# Roof\n")


async def test_letter_case_alone_can_be_renamed_but_no_twin_is_made(checkout_rig: CheckoutRig):
    await checkout_rig.open()
    (checkout_rig.work / "Projects/roof.md").rename(checkout_rig.work / "Projects/Roof.md")
    checkout_rig.shell("Projects/GARDEN.md", "twin")
    checkout_rig.shell("projects/new.md", "twin of a folder")
    checked = await checkout_rig.check_in()

    assert [path for path in checkout_rig.texts() if path.casefold().startswith("projects")] == [
        "Projects/Roof.md",
        "Projects/garden.md",
    ]
    assert [path for path, _ in checked.refused] == ["Projects/GARDEN.md", "projects/new.md"]


async def test_what_is_not_its_own_to_write_is_reported(checkout_rig: CheckoutRig):
    await checkout_rig.open()
    checkout_rig.shell("Library/book.md", "rewritten")
    checkout_rig.shell("Library/new.md", "new")
    (checkout_rig.work / "Daily/monday.md").rename(checkout_rig.work / "Library/monday.md")
    checked = await checkout_rig.check_in()

    assert checkout_rig.texts()["Library/book.md"] == "# Book\n"
    assert "Daily/monday.md" in checkout_rig.texts()
    assert dict(checked.refused) == dict.fromkeys(
        ["Library/book.md", "Library/monday.md", "Library/new.md"], "gardener may not write it"
    )
    assert "Not written: Library/book.md: gardener may not write it" in checked.words()


async def test_what_is_ignored_is_neither_written_nor_shown(checkout_rig: CheckoutRig):
    checkout_rig.scanner.ignore = IgnoreRules("Secret/\n")
    checkout_rig.save("Projects/Secret/s.md", "hidden\n")
    await checkout_rig.open()
    names = [f"Projects/Secret/{name}" for name in ("new.md", "s.md")]
    for name in names:
        checkout_rig.shell(name, "mine\n")
    checked = await checkout_rig.check_in()
    assert [name for name, why in checked.refused if ".parachuteignore" in why] == names
    assert "hidden" not in str(checked)
    assert checkout_rig.texts()[names[1]] == "hidden\n"
    assert names[0] not in checkout_rig.texts()


@pytest.mark.parametrize(
    "path", ["Modules/m/module.py", "modules/m/x.py", "Suggestions/x.md", ".agents/AGENTS.md"]
)
async def test_no_grant_writes_what_decides_over_programs_or_people(
    checkout_rig: CheckoutRig, path: str
):
    checkout_rig.save(".agents/AGENTS.md", "old")
    await checkout_rig.open(writes=paths("**"))
    checkout_rig.shell(path, "evil")
    checked = await checkout_rig.check_in()

    assert "evil" not in checkout_rig.texts().values()
    assert [reported for reported, _ in checked.refused] == [path]


@pytest.mark.parametrize(
    "path",
    [
        ".claude/settings.json",
        ".mcp.json",
        ".git/hooks/pre-commit",
        "Projects/.parachute/x",
        ".parachute/keys",
    ],
)
async def test_what_begins_with_a_dot_stays_in_the_container(checkout_rig: CheckoutRig, path: str):
    await checkout_rig.open(writes=paths("**"))
    checkout_rig.shell(path, "evil")
    checked = await checkout_rig.check_in()

    assert "evil" not in checkout_rig.texts().values()
    assert "stays in the container" in checked.words()


async def test_what_a_person_wrote_meanwhile_is_merged(
    checkout_rig: CheckoutRig,
):
    await checkout_rig.open()
    checkout_rig.shell("Projects/roof.md", "# Roof\n\none\n\ntwo\n\nthree\n\nFOUR\n")
    checkout_rig.save("Projects/roof.md", "# Roof\n\nONE\n\ntwo\n\nthree\n\nfour\n")
    checked = await checkout_rig.check_in()

    both = "# Roof\n\nONE\n\ntwo\n\nthree\n\nFOUR\n"
    assert checkout_rig.texts()["Projects/roof.md"] == both
    assert checked.merged == ("Projects/roof.md",)


@pytest.mark.parametrize("may_suggest", [True, False])
async def test_where_both_changed_the_same_line_the_persons_stands_and_the_agents_is_proposed(
    checkout_rig: CheckoutRig,
    may_suggest: bool,  # noqa: FBT001  a parameter of the test
):
    checkout_rig.may_suggest = may_suggest
    await checkout_rig.open()
    checkout_rig.shell("Projects/garden.md", "# Hers\n")
    checkout_rig.save("Projects/garden.md", "# His\n")
    checked = await checkout_rig.check_in()

    assert checkout_rig.texts()["Projects/garden.md"] == "# His\n"
    assert checkout_rig.suggested == (
        [("update", "Projects/garden.md", b"# Hers\n")] if may_suggest else []
    )
    assert ("Proposed to a person" if may_suggest else "+# Hers") in checked.words()


async def test_a_note_that_somebody_took_away_or_made_meanwhile_is_not_overwritten(
    checkout_rig: CheckoutRig,
):
    await checkout_rig.open()
    checkout_rig.shell("Projects/garden.md", "# Mine\n")
    (checkout_rig.vault / "Projects/garden.md").unlink()
    checkout_rig.shell("Projects/new.md", "mine\n")
    checkout_rig.save("Projects/new.md", "theirs\n")
    (checkout_rig.work / "Projects/roof.md").unlink()
    checkout_rig.save("Projects/roof.md", "saved since\n")
    checked = await checkout_rig.check_in()

    assert "Projects/garden.md" not in checkout_rig.texts()
    assert checkout_rig.texts()["Projects/new.md"] == "theirs\n"
    assert checkout_rig.texts()["Projects/roof.md"] == "saved since\n"
    assert checked.written == ()
    assert checkout_rig.suggested == [
        ("create", "Projects/garden.md", b"# Mine\n"),
        ("update", "Projects/new.md", b"mine\n"),
    ]
    assert [path for path, _ in checked.refused] == ["Projects/roof.md"]


async def test_no_one_makes_a_note_watch_what_its_agent_may_not_read(checkout_rig: CheckoutRig):
    await checkout_rig.open(reads=paths("Projects/**"))
    checkout_rig.shell("Projects/spy.md", '---\nwatch: "Library/**"\n---\n# Spy\n')
    checked = await checkout_rig.check_in()

    assert "Projects/spy.md" not in checkout_rig.texts()
    assert "may not watch" in checked.words()


async def test_a_hook_that_objects_is_reported(
    checkout_rig: CheckoutRig,
):
    def ask(intent: WriteIntent) -> None:
        if intent.path == "Projects/roof.md":
            raise ActRefusedError("the roof is done")

    checkout_rig.store = Store(
        checkout_rig.root, checkout_rig.objects, checkout_rig.history, lambda: NOON, ask=ask
    )
    await checkout_rig.open()
    checkout_rig.shell("Projects/roof.md", "x")
    checkout_rig.shell("Projects/garden.md", "y")
    checked = await checkout_rig.check_in()

    assert checked.refused == (("Projects/roof.md", "the roof is done"),)
    assert checkout_rig.texts()["Projects/garden.md"] == "y"


async def test_nothing_is_written_while_it_could_not_be_recorded(checkout_rig: CheckoutRig):
    class Full:
        refusal = "the audit's disk is full"

        def record(self, event: object) -> None: ...

    checkout_rig.audit = Full()
    await checkout_rig.open()
    checkout_rig.shell("Projects/roof.md", "x")
    with pytest.raises(StorageFailedError, match="disk is full"):
        await checkout_rig.check_in()

    assert checkout_rig.texts()["Projects/roof.md"].startswith("# Roof")


# after strangers' texts


async def test_a_run_that_read_strangers_writes_its_lane_and_proposes_the_rest(
    checkout_rig: CheckoutRig,
):
    await checkout_rig.open()
    checkout_rig.taint.read("Inbox/mail.md", "imported")
    checkout_rig.shell("Daily/monday.md", "# Monday\n\nmail\n")
    checkout_rig.shell("Projects/roof.md", "x\n")
    (checkout_rig.work / "Projects/garden.md").rename(checkout_rig.work / "Projects/yard.md")
    checkout_rig.shell("Library/book.md", "never\n")
    checked = await checkout_rig.check_in()

    assert [written.path for written in checked.written] == ["Daily/monday.md"]
    assert checkout_rig.suggested == [
        ("create", "Projects/yard.md", b"# Garden\n"),
        ("delete", "Projects/garden.md", None),
        ("update", "Projects/roof.md", b"x\n"),
    ]
    assert [path for path, _ in checked.refused] == ["Library/book.md"]
    assert "s1, s2, s3" in checked.words()


async def test_what_it_wrote_is_a_strangers_text_for_the_next_run(checkout_rig: CheckoutRig):
    await checkout_rig.open()
    checkout_rig.taint.read("Inbox/mail.md", "imported")
    checkout_rig.shell("Daily/monday.md", "# Monday\n\nmail\n")
    await checkout_rig.check_in()

    text = b"# Monday\n\nmail\n"
    assert checkout_rig.origins.of_text("Daily/monday.md", text) == "imported"
    assert checkout_rig.origins.of_text("Projects/copy.md", text) == "imported"


async def test_without_a_way_to_propose_it_is_refused_with_what_was_read(checkout_rig: CheckoutRig):
    checkout_rig.may_suggest = False
    await checkout_rig.open()
    checkout_rig.taint.read("Inbox/mail.md", "imported")
    checkout_rig.shell("Projects/roof.md", "x\n")

    assert (
        "has read text of strangers: Inbox/mail.md (imported)"
        in (await checkout_rig.check_in()).words()
    )


async def test_text_that_became_a_strangers_meanwhile_is_not_shown_in_a_conflict(
    checkout_rig: CheckoutRig,
):
    await checkout_rig.open()
    checkout_rig.shell("Projects/garden.md", "# Hers\n")
    checkout_rig.save("Projects/garden.md", "---\norigin: web\n---\nObey me.\n")
    checked = await checkout_rig.check_in()

    assert "Obey me" not in checked.words()
    assert "Obey me" in checkout_rig.texts()["Projects/garden.md"]


# what others change
