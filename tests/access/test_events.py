"""EventFilter: which events each listener gets, and what of a move across its border."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from parachuted.access.events import EventFilter
from parachuted.access.grant import grant_of
from parachuted.events import CATALOG, FACTS, Event, EventKind
from parachuted.events.fields import FieldKind
from parachuted.keys import EVERYTHING, NOBODY, Identity, parse_words

FILES = [name for name in FACTS if name.startswith("file.")]
OTHERS = sorted(FACTS.keys() - set(FILES))
MINE, SECRET = "Projects/a.md", "Private/diary.md"


def key(*words: str, paths: tuple[str, ...] = ()) -> EventFilter:
    scopes = tuple(parse_words(word, paths) for word in words)
    return EventFilter.of_key(Identity(kind="key", id="k", name="k", scopes=scopes))


def module(name: str, *reads: str, has_others: bool = False) -> EventFilter:
    return EventFilter.of_module(name, grant_of(reads), has_others=has_others)


def event(name: str, /, **data: object) -> Event:
    kind = CATALOG.get(name) or EventKind(
        name=name, tells="So.", fields={"x": FieldKind.ID}, publisher=name.partition(".")[0]
    )
    return Event(id=7, kind=kind, timestamp=datetime(2026, 3, 1, tzinfo=UTC), data=data)


def moved(source: str, path: str) -> Event:
    return event("file.moved", path=path, digest="d", **{"from": source})


EVERYONE = key()
ALL = EventFilter.of_key(Identity(kind="key", id="k", name="k", scopes=EVERYTHING))
PROJECTS = key("*:read", paths=("Projects/**",))
READER = module("gardener", "Projects/**")
TRUSTED = module("gardener", "Projects/**", has_others=True)


def test_who_may_read_everything_gets_every_event_as_it_is():
    for name in FACTS:
        one = event(name, path=MINE)
        assert one.visible_to(ALL) is one


def test_who_may_read_nothing_gets_none():
    for name in FACTS:
        assert event(name, path=MINE).visible_to(EVERYONE) is None
        assert event(name, path=MINE).visible_to(EventFilter.of_key(NOBODY)) is None


@pytest.mark.parametrize("name", OTHERS)
def test_a_key_with_paths_gets_events_of_files_alone(name):
    for paths in (("Projects/**",), ("**",)):
        limited = key("*:read,write,admin", paths=paths)
        assert event(name, path=MINE, watcher=MINE).visible_to(limited) is None
        assert event("file.created", path=MINE).visible_to(limited) is not None
    mixed = EventFilter.of_key(
        Identity(
            kind="key",
            id="k",
            name="k",
            scopes=(parse_words("vault:read", ["Projects/**"]), parse_words("*:read", [])),
        )
    )
    assert event(name, path=MINE).visible_to(mixed) is None


def test_a_key_gets_the_events_of_modules_that_it_may_read_alone():
    daily, curator = key("daily:read"), key("curator:read", "vault:write")
    assert event("daily.entry.created", entry_path="Daily/a.md").visible_to(daily) is not None
    assert event("file.created", path="Daily/a.md").visible_to(daily) is not None
    assert event("run.finished", reason="words").visible_to(curator) is not None
    for name, listener in (
        ("run.finished", daily),
        ("file.created", curator),
        ("garden.dug", curator),
    ):
        assert event(name, path=MINE).visible_to(listener) is None


def test_an_untrusted_module_gets_files_it_may_read_and_its_own_events():
    own = event("gardener.dug", x="y")
    assert own.visible_to(READER) is own
    assert event("file.deleted", path=MINE).visible_to(READER) is not None
    assert event("file.deleted", path=SECRET).visible_to(READER) is None
    assert event("daily.entry.created", entry_path=MINE).visible_to(READER) is None
    assert event("daily.entry.created", entry_path=SECRET).visible_to(TRUSTED) is not None
    assert event("file.deleted", path=SECRET).visible_to(TRUSTED) is None


def test_only_the_person_hears_of_hidden_files_and_no_module_of_code():
    everywhere = module("gardener", "**", has_others=True)
    for listener in (everywhere, ALL):
        assert event("file.created", path=".git/config").visible_to(listener) is None
        assert event("file.created", path=".agents/a.md").visible_to(listener) is not None
    assert event("file.created", path="Modules/x/module.py").visible_to(everywhere) is None
    assert event("file.created", path="Modules/x/module.py").visible_to(ALL) is not None


@pytest.mark.parametrize("listener", [PROJECTS, READER], ids=["a key", "a module"])
def test_a_move_across_the_border_is_a_new_file_or_one_that_is_gone(listener):
    came = moved(SECRET, MINE).visible_to(listener)
    gone = moved(MINE, SECRET).visible_to(listener)
    within = moved("Projects/b.md", MINE)

    assert came is not None
    assert (came.event, came.data) == ("file.created", {"path": MINE, "digest": "d"})
    assert gone is not None
    assert (gone.event, gone.data) == ("file.deleted", {"path": MINE, "digest": None})
    assert within.visible_to(listener) is within
    assert moved(SECRET, "Private/other.md").visible_to(listener) is None


@given(
    st.sampled_from(FILES),
    st.sampled_from([MINE, SECRET, ".git/x", "Projects/.git/x"]),
    st.sampled_from([MINE, SECRET, "Projects/b.md", None]),
)
def test_no_event_of_files_names_a_path_beyond_the_listener(name, path, source):
    data = {"path": path} | ({"from": source} if source is not None else {})
    heard = event(name, **data).visible_to(PROJECTS)
    if heard is not None:
        named = {str(heard.data[one]) for one in ("path", "from") if one in heard.data}
        assert named <= {MINE, "Projects/b.md"}
        assert heard.event in FILES


def test_listeners_who_get_the_same_are_equal():
    assert key("*:read", paths=("a/**",)) == key("vault:read", paths=("a/**",))
    assert key("*:read") != key("vault:read")
    assert READER != TRUSTED
