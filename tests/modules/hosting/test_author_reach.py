"""What follows from a write reaches what its author may, and the file itself."""

from __future__ import annotations

import pytest

from parachuted.access.caller import Caller
from parachuted.access.grant import CallerGrant, grant_of
from parachuted.agents.active_runs import ActiveRun, ActiveRuns
from parachuted.keys import EVERYWHERE, Identity, parse_words
from parachuted.modules.hosting.event_publisher import AuthorReach
from tests.modules.module_rig import NOON

PHONE = Identity(
    kind="key",
    id="k_1",
    name="phone",
    scopes=(
        parse_words("vault:read", ["Daily/**"]),
        parse_words("vault:write", ["Daily/in/**"]),
        parse_words("garden:write", []),
    ),
)


def reach(*known: Identity, runs: ActiveRuns | None = None) -> AuthorReach:
    found = {one.id: one for one in known}
    return AuthorReach(found.get, lambda one: one.id in found, runs or ActiveRuns())


def of(
    one: AuthorReach, by: str = "person", key: str = "", run: str | None = None
) -> tuple[set[str], set[str]]:
    """Which of some paths can be read, and written."""
    limited = one.limited(Caller(), {"path": "new.md", "by": by, "key": key, "run": run})
    paths = ("new.md", "Daily/a.md", "Daily/in/a.md", "Garden/a.md", "b.md")
    return {path for path in paths if limited.grant.reads.sees(path)}, {
        path for path in paths if limited.grant.writes.sees(path)
    }


EVERYTHING = {"new.md", "Daily/a.md", "Daily/in/a.md", "Garden/a.md", "b.md"}
ALL = EVERYTHING, EVERYTHING
ITSELF = {"new.md"}, {"new.md"}


@pytest.mark.parametrize(
    ("known", "author", "reached"),
    [
        ([], {}, ALL),
        (
            [PHONE],
            {"key": "k_1"},
            ({"new.md", "Daily/a.md", "Daily/in/a.md"}, {"new.md", "Daily/in/a.md"}),
        ),
        ([PHONE], {"by": "module:garden", "key": "k_1"}, ALL),
        ([], {"key": "k_1"}, ITSELF),
        ([], {"by": "curator", "run": "r-9"}, ITSELF),
        *(
            ([], {"by": by, "run": "r-1"}, ALL)
            for by in ("module:daily", "undo", "restore", "suggestion:s1")
        ),
    ],
    ids=lambda value: str(value) if isinstance(value, dict) else None,
)
def test_what_follows_from_a_write_reaches_what_its_author_may(known, author, reached):
    assert of(reach(*known), **author) == reached


def test_what_follows_ends_with_the_key():
    keys = {PHONE.id: PHONE}
    one = AuthorReach(keys.get, lambda identity: identity.id in keys, ActiveRuns())
    saved = one.limited(Caller(), {"path": "new.md", "by": "person"})
    assert (saved.grant.reads, saved.grant.writes) == (EVERYWHERE, EVERYWHERE)
    assert saved.request.key == ""
    limited = one.limited(Caller(), {"path": "new.md", "by": "person", "key": "k_1"})
    assert limited.request.is_valid()
    assert limited.request.key == "k_1"
    keys.clear()
    assert not limited.request.is_valid()


async def test_a_run_reaches_what_it_was_granted_also_when_it_is_over():
    runs = ActiveRuns()
    granted = CallerGrant(grant_of(["Daily/**"]), grant_of(["Garden/**"]))
    run = ActiveRun(run="r-1", agent="x", entry="bubble", since=NOON, reach=lambda: granted)

    async def work() -> None:
        assert of(reach(runs=runs), by="curator", run="r-1")[1] == {"new.md", "Garden/a.md"}

    await runs.perform(run, work())
    for by in ("curator", "agent:x", "module:daily/journal"):
        found = of(reach(runs=runs), by=by, run="r-1")
        assert found == ({"new.md", "Daily/a.md", "Daily/in/a.md"}, {"new.md", "Garden/a.md"})
