"""Checkout: an agent's private copy of the notes, and what of it comes back into the vault."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from parachuted.errors import ActRefusedError, StorageFailedError
from parachuted.tools import checkout as checkouts
from parachuted.tools.checkin import CheckinAction
from parachuted.vault import IgnoreRules, Store, WriteIntent, WriteResult
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


async def test_nothing_is_written_twice(checkout_rig: CheckoutRig):
    await checkout_rig.open()
    assert await checkout_rig.check_in() == checkouts.CheckinResult()
    checkout_rig.shell("Projects/roof.md", "# Roof\n")
    await checkout_rig.check_in()

    assert await checkout_rig.check_in() == checkouts.CheckinResult()
    assert len(checkout_rig.history.writes_by("r1")) == 1


async def test_a_file_that_was_only_touched_is_not_a_change(checkout_rig: CheckoutRig):
    await checkout_rig.open()
    checkout_rig.shell("Projects/roof.md", checkout_rig.texts()["Projects/roof.md"])
    os.utime(checkout_rig.work / "Projects/garden.md", (1, 1))

    assert (await checkout_rig.check_in()).written == ()


async def test_a_second_write_in_the_same_tick_of_the_clock_is_seen(checkout_rig: CheckoutRig):
    await checkout_rig.open()
    for number in range(40):
        checkout_rig.shell("Projects/roof.md", f"{number:03}\n")
        await checkout_rig.check_in()
        assert checkout_rig.texts()["Projects/roof.md"] == f"{number:03}\n"
        status = (checkout_rig.work / "Projects/roof.md").stat()
        checkout_rig.shell("Projects/roof.md", f"{number + 500:03}\n")
        os.utime(
            checkout_rig.work / "Projects/roof.md", ns=(status.st_atime_ns, status.st_mtime_ns)
        )
        await checkout_rig.check_in()
        assert checkout_rig.texts()["Projects/roof.md"] == f"{number + 500:03}\n"


async def test_a_renamed_note_is_moved(checkout_rig: CheckoutRig):
    await checkout_rig.open()
    (checkout_rig.work / "Projects/roof.md").rename(checkout_rig.work / "Daily/house.md")
    await checkout_rig.check_in()

    assert "Projects/roof.md" not in checkout_rig.texts()
    assert {write.operation for write in checkout_rig.history.writes_by("r1")} == {"Move"}
    assert (await checkout_rig.check_in()).written == ()


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
    assert not (checkout_rig.work / "Projects/GARDEN.md").exists()


async def test_what_is_not_its_own_to_write_is_put_back_and_reported(checkout_rig: CheckoutRig):
    await checkout_rig.open()
    checkout_rig.shell("Library/book.md", "rewritten")
    checkout_rig.shell("Library/new.md", "new")
    (checkout_rig.work / "Daily/monday.md").rename(checkout_rig.work / "Library/monday.md")
    checked = await checkout_rig.check_in()

    assert checkout_rig.texts() == checkout_rig.texts(checkout_rig.work)
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
    assert not set(names) & set(checkout_rig.texts(checkout_rig.work))
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
    first, second = await checkout_rig.check_in(), await checkout_rig.check_in()

    assert "evil" not in checkout_rig.texts().values()
    assert "stays in the container" in first.words()
    assert second.refused == ()


async def test_what_a_person_wrote_meanwhile_is_merged_and_the_copy_has_both(
    checkout_rig: CheckoutRig,
):
    await checkout_rig.open()
    checkout_rig.shell("Projects/roof.md", "# Roof\n\none\n\ntwo\n\nthree\n\nFOUR\n")
    checkout_rig.save("Projects/roof.md", "# Roof\n\nONE\n\ntwo\n\nthree\n\nfour\n")
    checked = await checkout_rig.check_in()

    both = "# Roof\n\nONE\n\ntwo\n\nthree\n\nFOUR\n"
    assert (
        checkout_rig.texts()["Projects/roof.md"],
        checkout_rig.texts(checkout_rig.work)["Projects/roof.md"],
    ) == (
        both,
        both,
    )
    assert checked.merged == ("Projects/roof.md",)
    assert (await checkout_rig.check_in()).written == ()


async def test_where_both_changed_the_same_line_the_persons_stands_and_the_agent_gets_both(
    checkout_rig: CheckoutRig,
):
    await checkout_rig.open()
    checkout_rig.shell("Projects/garden.md", "# Hers\n")
    checkout_rig.save("Projects/garden.md", "# His\n")
    checked = await checkout_rig.check_in()

    assert (
        checkout_rig.texts()["Projects/garden.md"],
        checkout_rig.texts(checkout_rig.work)["Projects/garden.md"],
    ) == (
        "# His\n",
        "# His\n",
    )
    assert "+# Hers" in checked.words()
    assert "+# His" in checked.words()


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

    assert checkout_rig.texts() == checkout_rig.texts(checkout_rig.work)
    assert "Projects/garden.md" not in checkout_rig.texts()
    assert checkout_rig.texts()["Projects/new.md"] == "theirs\n"
    assert checkout_rig.texts()["Projects/roof.md"] == "saved since\n"
    assert checked.written == ()
    assert len(checked.refused) == 3


async def test_a_copy_that_changed_in_between_is_taken_after_the_next_call(
    checkout_rig: CheckoutRig,
):
    await checkout_rig.open()
    checkout_rig.shell("Projects/roof.md", "half")
    looks = checkout_rig.checkout._look

    def look(outcome: object) -> object:
        acts = looks(outcome)
        checkout_rig.shell("Projects/roof.md", "whole")
        return acts

    checkout_rig.checkout._look = look
    checked = await checkout_rig.check_in()
    checkout_rig.checkout._look = looks

    assert checked.written == ()
    assert "is looked at again" in checked.words()
    assert checkout_rig.texts()["Projects/roof.md"].startswith("# Roof")
    await checkout_rig.check_in()
    assert checkout_rig.texts()["Projects/roof.md"] == "whole"


async def test_what_the_agent_wrote_while_its_last_text_was_merged_is_merged_next(
    checkout_rig: CheckoutRig,
):
    await checkout_rig.open()
    checkout_rig.shell("Projects/roof.md", "# Roof\n\none\n\ntwo\n\nthree\n\nFOUR\n")
    checkout_rig.save("Projects/roof.md", "# Roof\n\nONE\n\ntwo\n\nthree\n\nfour\n")
    made = checkout_rig.checkout._made

    def write(act: CheckinAction, data: bytes) -> WriteResult:
        written = made(act, data)
        checkout_rig.shell("Projects/roof.md", "# Roof\n\none\n\ntwo\n\nTHREE\n\nFOUR\n")
        return written

    checkout_rig.checkout._made = write
    assert (await checkout_rig.check_in()).merged == ("Projects/roof.md",)
    checkout_rig.checkout._made = made
    await checkout_rig.check_in()

    both = "# Roof\n\nONE\n\ntwo\n\nTHREE\n\nFOUR\n"
    assert (
        checkout_rig.texts()["Projects/roof.md"],
        checkout_rig.texts(checkout_rig.work)["Projects/roof.md"],
    ) == (
        both,
        both,
    )


async def test_no_one_makes_a_note_watch_what_its_agent_may_not_read(checkout_rig: CheckoutRig):
    await checkout_rig.open(reads=paths("Projects/**"))
    checkout_rig.shell("Projects/spy.md", '---\nwatch: "Library/**"\n---\n# Spy\n')
    checked = await checkout_rig.check_in()

    assert "Projects/spy.md" not in checkout_rig.texts()
    assert "may not watch" in checked.words()


async def test_a_hook_that_objects_is_reported_and_the_copy_is_as_the_vault(
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
    assert checkout_rig.texts() == checkout_rig.texts(checkout_rig.work)
    assert checkout_rig.texts()["Projects/garden.md"] == "y"


async def test_nothing_is_written_while_it_could_not_be_recorded(checkout_rig: CheckoutRig):
    class Full:
        refusal = "the audit's disk is full"

        def record(self, event: object) -> None: ...

    await checkout_rig.open()
    checkout_rig.checkout._audit = Full()
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
    assert [(change.action, change.path, change.data) for change in checkout_rig.suggested] == [
        ("create", "Projects/yard.md", b"# Garden\n"),
        ("delete", "Projects/garden.md", None),
        ("update", "Projects/roof.md", b"x\n"),
    ]
    assert [path for path, _ in checked.refused] == ["Library/book.md"]
    assert checkout_rig.texts() == checkout_rig.texts(checkout_rig.work)
    assert "s1, s2, s3" in checked.words()
    assert (await checkout_rig.check_in()).suggested == ()


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
    assert not (checkout_rig.work / "Projects/garden.md").exists()
    assert (await checkout_rig.check_in()).written == ()
    assert "Projects/garden.md" in checkout_rig.texts()


@pytest.mark.on_disk
async def test_a_copy_from_beside_the_vault_is_a_strangers_unless_the_folder_is_the_persons(
    checkout_rig: CheckoutRig,
):
    user = checkout_rig.folder / "user"
    for name in ("Work", "Mine", "Away"):
        (user / name).mkdir(parents=True)
        (user / name / "a.txt").write_text(name)
    (user / "Mine/link").symlink_to(user / "Away")
    checkout_rig.own_folders = ("~/Mine",)

    await checkout_rig.open(outside=("~/Mine", "~/None"))
    assert not checkout_rig.taint
    await checkout_rig.open(outside=("~/Mine/link", "~/Work"))
    why = checkout_rig.taint.why(lambda _path: False)
    assert "a copy of ~/Mine/link" in why
    assert "parachute config set agent.own_folders '~/Mine, ~/Work'" in why
    assert checkout_rig.taint.origin == "imported"


# what others change


async def test_when_the_run_is_over_the_copy_is_gone_and_nothing_is_checked_in(
    checkout_rig: CheckoutRig,
):
    await checkout_rig.open()
    checkout_rig.shell("Projects/roof.md", "x")
    assert checkout_rig.checkout is not None
    await checkout_rig.checkout.drop()
    await checkout_rig.checkout.drop()

    assert list(checkout_rig.work.iterdir()) == []
    assert await checkout_rig.check_in() == checkouts.CheckinResult()
    assert await checkout_rig.checkout.refresh() == ()


async def test_check_ins_at_once_are_done_one_after_another(checkout_rig: CheckoutRig):
    await checkout_rig.open()
    checkout_rig.shell("Projects/roof.md", "x")
    checked = await asyncio.gather(*(checkout_rig.check_in() for _ in range(5)))

    assert [len(one.written) for one in checked] == [1, 0, 0, 0, 0]
