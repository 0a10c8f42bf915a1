from __future__ import annotations

import pytest

from parachuted.access.agent_config import AgentConfig
from parachuted.access.grant import build_grant
from parachuted.access.origin import Taint
from parachuted.access.origins import Origins
from parachuted.access.run_records import ProposedChange
from parachuted.errors import EditRefusedError
from parachuted.keys import EVERYWHERE
from parachuted.runs.run_guard import RunGuard, RunGuards
from parachuted.state import open_state
from parachuted.suggestions import Proposal

GRANT = build_grant(
    AgentConfig(paths=["**"], capabilities=["read", "write"], lane=["Inbox/answers/**"]),
    agent="bot/helper",
    bounds_read=EVERYWHERE,
    bounds_write=EVERYWHERE,
    entry="module",
)


class FakeSuggestions:
    """Takes suggestions, and gives them names."""

    id = "s-1"

    def __init__(self) -> None:
        self.proposals: list[Proposal] = []

    async def propose(self, proposal: Proposal) -> FakeSuggestions:
        self.proposals.append(proposal)
        return self


@pytest.fixture
def watching(tmp_path):
    state = open_state(tmp_path / "journal")
    taint = Taint()
    yield RunGuard(
        run="r-1",
        session=None,
        grant=GRANT,
        taint=taint,
        origins=Origins(state),
        permissions=None,
        put_forward=None,
    )
    state.close()


def test_what_strangers_wrote_marks_the_run_and_what_you_wrote_does_not(watching: RunGuard):
    watching.has_read("Daily/a.md", "d-1", b"# mine\n")
    assert (watching.is_tainted, watching.objection("Daily/b.md")) == (False, None)
    watching.has_read("Inbox/mail.md", "d-2", b"# theirs\n")
    assert watching.is_tainted
    assert "Inbox/mail.md (imported), so it may not write Daily/b.md any more" in str(
        watching.objection("Daily/b.md")
    )
    assert watching.objection("Inbox/answers/a.md") is None


def test_what_a_run_that_has_read_them_writes_is_theirs_for_the_next_one(watching: RunGuard):
    with watching.writing("Daily/before.md") as wrote:
        wrote("d-1")
    watching.has_read("x.md", "d-2", b"---\norigin: web\n---\n")
    with watching.writing("Daily/after.md") as wrote:
        wrote("d-3")
    with watching.writing("Daily/same.md") as wrote:
        wrote(None)
    assert watching.is_stranger("Daily/after.md", "d-3", b"copied")
    assert not watching.is_stranger("Daily/before.md", "d-1", b"mine")
    assert not watching.is_stranger("Daily/same.md", "d-4", b"nothing was written")


def test_a_kill_between_its_write_and_what_is_recorded_of_it_leaves_it_theirs(watching: RunGuard):
    watching.taint.read("the prompt", "bot")
    with watching.writing(
        "Daily/after.md"
    ):  # here its text is on the disk, and nothing told of it yet
        assert watching.is_stranger("Daily/after.md", "d-3", b"copied")


def test_a_write_that_fails_leaves_what_was_known(watching: RunGuard):
    watching.taint.read("the prompt", "bot")
    with pytest.raises(EditRefusedError), watching.writing("Daily/mine.md"):
        raise EditRefusedError("another text is there")
    assert not watching.is_stranger("Daily/mine.md", "d-1", b"mine")


async def test_what_it_may_not_write_is_put_forward_with_why_and_remembered(watching: RunGuard):
    filed, announced = FakeSuggestions(), []
    watching.taint.read("the prompt", "bot")
    asked = RunGuards(suggestions=filed).of_run(
        "r-1",
        session=None,
        grant=GRANT,
        taint=watching.taint,
        causes=("c-1",),
        suggested=announced.append,
    )
    words = await asked.instead(
        ProposedChange(path="Daily/a.md", action="update", base="d-1", data="# né\n".encode()),
        "it read a stranger's text",
    )

    assert "it is suggested to a person as s-1" in words
    (proposal,) = filed.proposals
    assert (proposal.path, proposal.action, proposal.base, proposal.origin) == (
        "Daily/a.md",
        "update",
        "d-1",
        "bot",
    )
    assert proposal.payload == {"text": "# né\n"}
    assert announced == ["s-1"]
    with pytest.raises(EditRefusedError, match="would not be text"):
        await asked.instead(
            ProposedChange(path="a.bin", action="create", base=None, data=b"\xff"), "x"
        )
    assert (
        await watching.instead(
            ProposedChange(path="Daily/a.md", action="delete", base="d-1", data=None), "it may not"
        )
        == "it may not"
    )


async def test_no_one_is_asked_for_more_by_a_run_that_no_one_waits_for(watching: RunGuard):
    assert not GRANT.asks
    assert await watching.beyond("read", "Private/x.md") is False
