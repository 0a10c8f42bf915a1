"""EventFilter: what each listener hears of an event: keys of the API, modules, and a person's
hooks.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from parachuted.access.events import PATH_KINDS, EventFilter, FieldKind
from parachuted.access.grant import grant_of
from parachuted.events import CATALOG, FACTS, Event, EventKind
from parachuted.keys import EVERYTHING, NOBODY, parse_words

CHANGE = {"by": "person", "run": None, "key": None, "causes": ["c1"], "digest": "d"}
HIDDEN = "Private/diary.md"
CANARY = "the canary sings in Private/diary.md"
PATH, TEXT, ID = FieldKind.PATH, FieldKind.TEXT, FieldKind.ID


def who(*words: str, paths: tuple[str, ...] = ()) -> EventFilter:
    return EventFilter.of_key(parse_words(one, paths) for one in words)


def module(name: str, *reads: str) -> EventFilter:
    return EventFilter.of_module(name, grant_of(reads))


def happened(kind: EventKind, data: dict[str, object]) -> Event:
    return Event(id=7, kind=kind, timestamp=datetime(2026, 3, 1, tzinfo=UTC), data=data)


def event(name: str, /, **data: object) -> Event:
    return happened(CATALOG[name], data)


def declared(name: str, /, **fields: FieldKind) -> EventKind:
    return EventKind(
        name=name, tells="A module says so.", fields=fields, publisher=name.partition(".")[0]
    )


ALL = EventFilter.of_key(EVERYTHING)
PROJECTS = who("*:read", paths=("Projects/**",))
GARDENER = module("gardener", "Projects/**")
SUGGESTED = {
    "id": "s1",
    "action": "update",
    "path": "Projects/a.md",
    "target_module": "vault",
    "source_agent": "x",
    "run": "r",
    "causes": [],
}
SEEN = {
    "file.created": {"path": "Projects/a.md", **CHANGE},
    "file.modified": {"path": "Projects/a.md", **CHANGE},
    "file.deleted": {"path": "Projects/a.md", **CHANGE},
    "file.moved": {"path": "Projects/a.md", "from": "Projects/b.md", **CHANGE},
    "watch.declared": {
        "watcher": "Projects/a.md",
        "patterns": ["*"],
        "problems": [],
        "unmatched": [],
    },
    "watch.removed": {"watcher": "Projects/a.md"},
    "task.queued": {
        "task": "t",
        "watcher": "Projects/a.md",
        "paths": ["Projects/b.md"],
        "causes": [],
        "due": "x",
    },
    "task.started": {"task": "t", "watcher": "Projects/a.md", "run": "r", "backend": "offline"},
    "task.finished": {"task": "t", "watcher": "Projects/a.md", "run": "r", "outcome": "changed"},
    "run.finished": {
        "run": "r",
        "watcher": "Projects/a.md",
        "outcome": "changed",
        "reason": "",
        "paths": ["Projects/a.md"],
        "cost_usd": 0.0,
    },
    "run.undone": {
        "run": "r",
        "runs": [],
        "paths": ["Projects/a.md"],
        "kept": {"Projects/b.md": ["x"]},
        "undo": "u",
    },
    "suggestion.created": SUGGESTED,
    "suggestion.resolved": {
        **SUGGESTED,
        "status": "approved",
        "resolved_by": "user",
        "applied_run": "r",
    },
    "budget.exceeded": {"task": "t", "watcher": "Projects/a.md", "budget": "day", "limit": 1},
}

NAMES_NO_PATH = {
    "vault",
    "session",
    "daily",
    "chat",
    "context",
    "brain",
    "tool",
    "module",
    "hook",
    "permission",
}


def test_who_may_read_everything_learns_every_event_as_it_is():
    for name, kind in FACTS.items():
        one = event(name, **dict.fromkeys(kind.fields, "Projects/a.md"))
        assert one.heard_by(ALL) is one


def test_who_may_read_nothing_learns_nothing():
    for name in FACTS:
        assert event(name, **SEEN.get(name, {})).heard_by(EventFilter.of_key(NOBODY.scopes)) is None


@pytest.mark.parametrize("name", SEEN)
def test_what_is_about_paths_that_are_seen_is_reported(name):
    heard = event(name, **SEEN[name]).heard_by(PROJECTS)

    assert heard is not None
    assert dict(heard.data) == SEEN[name]


@pytest.mark.parametrize("name", SEEN)
def test_what_names_any_other_path_is_not(name):
    places = [field for field in ("path", "watcher") if field in SEEN[name]]
    changes = [{field: HIDDEN} for field in places]
    changes += [{"paths": [*SEEN[name]["paths"], HIDDEN]}] if "paths" in SEEN[name] else []
    changes += [{"kept": {HIDDEN: []}}] if "kept" in SEEN[name] else []
    assert changes
    for change in changes:
        heard = event(name, **{**SEEN[name], **change}).heard_by(PROJECTS)
        assert heard is None or (name == "file.moved" and HIDDEN not in str(heard))


def test_every_event_of_the_catalogue_is_considered_here():
    assert {name for name in FACTS if name.partition(".")[0] not in NAMES_NO_PATH} == set(SEEN)
    assert all(set(FACTS[name].fields) == set(data) for name, data in SEEN.items())


def test_a_file_that_comes_from_elsewhere_is_new_and_one_that_leaves_is_gone():
    came = event("file.moved", path="Projects/a.md", **{"from": HIDDEN}, **CHANGE).heard_by(
        PROJECTS
    )
    left = event("file.moved", path=HIDDEN, **{"from": "Projects/a.md"}, **CHANGE).heard_by(
        PROJECTS
    )

    assert (came.id, came.event, dict(came.data)) == (
        7,
        "file.created",
        {"path": "Projects/a.md", **CHANGE},
    )
    assert (left.id, left.event, dict(left.data)) == (
        7,
        "file.deleted",
        {"path": "Projects/a.md", **CHANGE, "digest": None},
    )
    assert (
        event("file.moved", path=HIDDEN, **{"from": "Private/b.md"}, **CHANGE).heard_by(PROJECTS)
        is None
    )


def test_what_an_agent_says_may_name_any_note_and_is_left_out():
    heard = event(
        "run.finished", **{**SEEN["run.finished"], "reason": f"as {HIDDEN} says"}
    ).heard_by(PROJECTS)

    assert heard.data["reason"] == ""
    assert (
        event("run.finished", **{**SEEN["run.finished"], "reason": "why"})
        .heard_by(ALL)
        .data["reason"]
        == "why"
    )


def test_problems_may_name_any_note_and_are_reported_to_who_sees_all_of_the_system():
    problem = event("vault.problem", subject="x", problem=f"{HIDDEN} is odd")

    assert problem.heard_by(PROJECTS) is None
    assert problem.heard_by(who("vault:read", "curator:read")) is None
    assert problem.heard_by(who("system:read")) is problem


def test_each_module_is_reported_by_itself():
    file, task = (
        event("file.created", **SEEN["file.created"]),
        event("task.started", **SEEN["task.started"]),
    )

    assert (file.heard_by(who("vault:read")), task.heard_by(who("vault:read"))) == (file, None)
    assert (file.heard_by(who("curator:read")), task.heard_by(who("curator:read"))) == (None, task)
    assert file.heard_by(who("*:write,admin")) is None


def test_the_journal_s_key_hears_of_the_journal():
    daily = who("daily:read")

    assert event("file.created", path="Daily/a.md", **CHANGE).heard_by(daily) is not None
    assert event("file.created", path="Projects/a.md", **CHANGE).heard_by(daily) is None


def test_an_undoing_that_names_nothing_is_reported_to_who_sees_all():
    assert event("run.undone", run="r", runs=["r"], paths=[], kept={}).heard_by(PROJECTS) is None


def test_hidden_files_exist_for_no_one():
    assert event("file.created", path=".secret/key.md", **CHANGE).heard_by(ALL) is None
    assert event("file.created", path=".agents/a.md", **CHANGE).heard_by(ALL) is not None


def test_an_event_of_a_module_is_for_those_who_may_read_in_that_module():
    planted = declared("garden.planted", path=PATH)
    reported = happened(planted, {"path": "Projects/a.md"})

    assert reported.heard_by(who("garden:read")) is reported
    assert reported.heard_by(who("vault:read", "curator:read", "system:read")) is None
    assert reported.heard_by(who("garden:write")) is None
    assert reported.heard_by(PROJECTS) is reported
    assert happened(planted, {"path": HIDDEN}).heard_by(PROJECTS) is None


def test_the_words_of_a_note_are_for_those_who_may_read_it_by_that_right():
    entry = event("daily.entry.created", entry_id="e", entry_path="Projects/a.md", content=CANARY)

    assert entry.heard_by(PROJECTS) is entry
    assert entry.heard_by(who("daily:read", "curator:read")).data == {
        "entry_id": "e",
        "entry_path": "Projects/a.md",
        "content": "",
    }
    assert entry.heard_by(who("daily:read", "vault:read")) is entry
    assert entry.heard_by(module("brain", "Brain/**")) is None
    assert entry.heard_by(module("brain", "Projects/**")) is entry


def test_what_an_undoing_kept_is_reported_by_path_to_those_who_may_read_these_notes():
    undone = event("run.undone", **{**SEEN["run.undone"], "kept": {"Projects/b.md": [CANARY]}})

    assert undone.heard_by(PROJECTS) is undone
    assert undone.heard_by(who("curator:read")).data["kept"] == {"Projects/b.md": []}
    assert (
        event("run.undone", **{**SEEN["run.undone"], "kept": {HIDDEN: [CANARY]}}).heard_by(GARDENER)
        is None
    )


def test_which_other_runs_were_undone_is_reported_to_those_who_see_them_all():
    undone = event("run.undone", **{**SEEN["run.undone"], "runs": ["r", "r2"]})

    assert undone.heard_by(PROJECTS).data["runs"] == []
    assert undone.heard_by(who("*:read")) is undone


@pytest.mark.parametrize(
    ("name", "data"),
    [
        (
            "tool.after",
            {
                "tool_name": "read_note",
                "tool_input": {"path": HIDDEN},
                "tool_use_id": "u",
                "tool_response": {"text": CANARY},
            },
        ),
        (
            "permission.requested",
            {
                "id": "p",
                "run": "r",
                "session": None,
                "agent": "a",
                "kind": "read",
                "what": HIDDEN,
                "why": CANARY,
            },
        ),
        (
            "hook.failed",
            {"hook": "on-file.py", "event": "file.created", "error": f"stderr: {CANARY}"},
        ),
        ("vault.problem", {"subject": HIDDEN, "problem": CANARY}),
        (
            "daily.reflection.completed",
            {"date": "2026-01-01", "agent": "a", "output_path": HIDDEN, "status": "completed"},
        ),
        ("session.start", {"session_id": "s", "module": "chat", "working_directory": "Private"}),
        (
            "run.undone",
            {"run": "r", "runs": ["r"], "paths": [], "kept": {HIDDEN: [CANARY]}, "undo": "u"},
        ),
    ],
)
def test_a_module_hears_nothing_of_what_it_may_not_read(name, data):
    assert event(name, **data).heard_by(GARDENER) is None
    assert event(name, **data).heard_by(module("gardener")) is None
    assert event(name, **data).heard_by(PROJECTS) is None
    assert event(name, **data).heard_by(ALL).data == data


def test_a_key_without_the_right_to_read_notes_hears_no_words_that_may_quote_them():
    call = event(
        "tool.after",
        tool_name="read_note",
        tool_input={"path": HIDDEN},
        tool_use_id="u",
        tool_response=CANARY,
        duration_ms=1,
    )
    heard = call.heard_by(who("curator:read"))

    assert heard.data == {
        "tool_name": "read_note",
        "tool_input": {},
        "tool_use_id": "u",
        "tool_response": "",
        "duration_ms": 1,
    }
    assert call.heard_by(who("curator:read", "vault:read")) is call


def test_a_module_hears_its_own_events_as_it_published_them_and_others_without_words_that_quote_any_note():  # noqa: E501
    came = declared("telegram.message.came", chat=ID, text=FieldKind.MESSAGE)
    reported = happened(came, {"chat": "7", "text": CANARY})

    assert reported.heard_by(module("telegram")) is reported
    assert reported.heard_by(GARDENER).data == {"chat": "7", "text": ""}
    assert (
        happened(declared("hook.words", text=FieldKind.FREE), {"text": CANARY}).heard_by(GARDENER)
        is None
    )
    assert event("hook.failed", hook="h", event="e", error=CANARY).heard_by(module("hook")) is None


def test_modules_hear_of_each_other_and_of_no_code():
    enabled = event("module.enabled", name="brain", version="1.0.0", hash="sha256:5")

    assert enabled.heard_by(GARDENER) is enabled
    assert (
        event("file.created", path="Modules/x/module.py", **CHANGE).heard_by(
            module("gardener", "**")
        )
        is None
    )
    left = event(
        "file.moved", path="Modules/x/a.md", **{"from": "Projects/a.md"}, **CHANGE
    ).heard_by(GARDENER)
    assert (left.event, left.data["path"]) == ("file.deleted", "Projects/a.md")


def test_a_program_of_the_person_s_own_hears_everything_as_it_is():
    for name in CATALOG:
        one = event(name, path=".secret/x", words=CANARY)
        assert one.heard_by(EventFilter.of_person()) is one


@pytest.mark.parametrize(
    "value",
    [
        {"x": HIDDEN},
        [HIDDEN],
        [["Projects/a.md", HIDDEN]],
        f"Projects/../{HIDDEN}",
        "",
        {HIDDEN: 1},
        7,
        ["Projects/a.md", None],
    ],
)
@pytest.mark.parametrize("field", ["path", "paths"])
def test_a_path_in_disguise_is_heard_by_no_one_who_sees_some_paths(field, value):
    kind = declared("garden.planted", path=PATH, paths=FieldKind.PATHS)
    reported = happened(kind, {"path": "Projects/a.md", "paths": ["Projects/a.md"], field: value})
    assert reported.heard_by(PROJECTS) is None
    assert reported.heard_by(GARDENER) is None


def canaries() -> st.SearchStrategy[object]:
    """The canary, as deep in lists and mappings as it may be hidden."""
    leaf = st.sampled_from([CANARY, HIDDEN, f"Projects/../{HIDDEN}", f"/{HIDDEN}", f"r-1 {HIDDEN}"])
    return st.recursive(
        leaf,
        lambda inner: st.one_of(
            st.lists(inner, min_size=1, max_size=3),
            st.dictionaries(leaf, inner, min_size=1, max_size=2),
        ),
    )


PLAIN = {
    PATH: "Projects/a.md",
    FieldKind.PATHS: ["Projects/a.md"],
    TEXT: "seen",
    FieldKind.TEXTS: {"Projects/a.md": ["seen"]},
    FieldKind.FREE: "free",
    FieldKind.MESSAGE: "message",
    ID: "x1",
    FieldKind.IDS: ["x1"],
    FieldKind.NUMBER: 1,
    FieldKind.FLAG: True,
}


def listeners() -> Iterator[EventFilter]:
    yield PROJECTS
    yield GARDENER
    yield module("gardener")
    yield who("daily:read", "chat:read", paths=("Projects/**",))


@pytest.mark.parametrize("name", FACTS)
@given(canary=canaries(), data=st.data())
def test_a_canary_in_any_field_of_any_event_reaches_no_one_who_sees_some_paths(name, canary, data):
    kind = FACTS[name]
    fields = [field for field, of in kind.fields.items() if of is not TEXT] + ["undeclared"]
    where = data.draw(st.sets(st.sampled_from(fields), min_size=1))
    values = {field: PLAIN[of] for field, of in kind.fields.items()} | dict.fromkeys(where, canary)
    for listener in listeners():
        heard = event(name, **values).heard_by(listener)
        assert heard is None or "Private" not in str(heard.data)


@pytest.mark.parametrize(
    "name", [name for name, kind in FACTS.items() if TEXT in kind.fields.values()]
)
def test_the_text_of_a_note_reaches_no_one_who_does_not_see_each_note_that_is_named(name):
    kind = FACTS[name]
    paths = [field for field, of in kind.fields.items() if of in PATH_KINDS]
    for hidden in paths:
        hides = {
            PATH: HIDDEN,
            FieldKind.PATHS: ["Projects/a.md", HIDDEN],
            FieldKind.TEXTS: {HIDDEN: []},
        }[kind.fields[hidden]]
        values = {
            field: CANARY if of is TEXT else PLAIN[of] for field, of in kind.fields.items()
        } | {hidden: hides}
        for listener in listeners():
            assert event(name, **values).heard_by(listener) is None
