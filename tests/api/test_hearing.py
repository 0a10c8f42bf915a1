"""What each listener is told of an event."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from parachuted.api.hearing import hearing_of
from parachuted.events import FACTS, Event
from parachuted.keys import EVERYTHING, NOBODY, Identity, parse_words

CHANGE = {"by": "person", "run": None, "causes": ["c1"], "digest": "d"}
HIDDEN = "Private/diary.md"


def who(*words: str, paths: tuple[str, ...] = ()):
    return hearing_of(Identity(kind="key", id="k", name="k", scopes=tuple(parse_words(one, paths) for one in words)))


def event(name: str, /, **data: object) -> Event:
    return Event(id=7, event=name, timestamp=datetime(2026, 3, 1, tzinfo=UTC), data=data)


ALL = hearing_of(Identity(kind="loopback", id="l", name="l", scopes=EVERYTHING))
PROJECTS = who("*:read", paths=("Projects/**",))
SUGGESTED = {
    "id": "s1", "action": "update", "path": "Projects/a.md", "target_module": "vault", "source_agent": "x", "run": "r", "causes": [],
}  # fmt: skip
SEEN = {
    "file.created": {"path": "Projects/a.md", **CHANGE},
    "file.modified": {"path": "Projects/a.md", **CHANGE},
    "file.deleted": {"path": "Projects/a.md", **CHANGE},
    "file.moved": {"path": "Projects/a.md", "from": "Projects/b.md", **CHANGE},
    "watch.declared": {"watcher": "Projects/a.md", "patterns": ["*"], "problems": []},
    "watch.removed": {"watcher": "Projects/a.md"},
    "task.queued": {"task": "t", "watcher": "Projects/a.md", "paths": ["Projects/b.md"], "causes": [], "due": "x"},
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
    "run.undone": {"run": "r", "runs": ["r"], "paths": ["Projects/a.md"], "kept": {"Projects/b.md": ["x"]}, "undo": "u"},
    "suggestion.created": SUGGESTED,
    "suggestion.resolved": {**SUGGESTED, "status": "approved", "resolved_by": "user", "applied_run": "r"},
    "budget.exceeded": {"task": "t", "watcher": "Projects/a.md", "budget": "day", "limit": 1},
}

NAMES_NO_PATH = {"vault", "session", "daily", "chat", "context", "brain", "tool", "module", "hook", "permission"}


def test_who_may_read_everything_is_told_every_event_as_it_is():
    for name, kind in FACTS.items():
        one = event(name, **dict.fromkeys(kind.fields, "Projects/a.md"))
        assert ALL.heard(one) is one


def test_who_may_read_nothing_is_told_nothing():
    for name in FACTS:
        assert hearing_of(NOBODY).heard(event(name, **SEEN.get(name, {}))) is None


@pytest.mark.parametrize("name", SEEN)
def test_what_is_about_paths_that_are_seen_is_told(name):
    heard = PROJECTS.heard(event(name, **SEEN[name]))

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
        heard = PROJECTS.heard(event(name, **{**SEEN[name], **change}))
        assert heard is None or (name == "file.moved" and HIDDEN not in str(heard))


def test_every_event_of_the_catalogue_is_considered_here():
    assert {name for name in FACTS if name.partition(".")[0] not in NAMES_NO_PATH} == set(SEEN)
    assert all(set(FACTS[name].fields) == set(data) for name, data in SEEN.items())


def test_a_file_that_comes_from_elsewhere_is_new_and_one_that_leaves_is_gone():
    came = PROJECTS.heard(event("file.moved", path="Projects/a.md", **{"from": HIDDEN}, **CHANGE))
    left = PROJECTS.heard(event("file.moved", path=HIDDEN, **{"from": "Projects/a.md"}, **CHANGE))

    assert (came.id, came.event, dict(came.data)) == (7, "file.created", {"path": "Projects/a.md", **CHANGE})
    assert (left.id, left.event, dict(left.data)) == (7, "file.deleted", {"path": "Projects/a.md", **CHANGE, "digest": None})
    assert PROJECTS.heard(event("file.moved", path=HIDDEN, **{"from": "Private/b.md"}, **CHANGE)) is None


def test_what_an_agent_says_may_name_any_note_and_is_left_out():
    heard = PROJECTS.heard(event("run.finished", **{**SEEN["run.finished"], "reason": f"as {HIDDEN} says"}))

    assert heard.data["reason"] == ""
    assert ALL.heard(event("run.finished", **{**SEEN["run.finished"], "reason": "why"})).data["reason"] == "why"


def test_problems_may_name_any_note_and_are_told_to_who_sees_all_of_the_system():
    problem = event("vault.problem", subject="x", problem=f"{HIDDEN} is odd")

    assert PROJECTS.heard(problem) is None
    assert who("vault:read", "curator:read").heard(problem) is None
    assert who("system:read").heard(problem) is problem


def test_each_module_is_told_of_by_itself():
    file, task = event("file.created", **SEEN["file.created"]), event("task.started", **SEEN["task.started"])

    assert (who("vault:read").heard(file), who("vault:read").heard(task)) == (file, None)
    assert (who("curator:read").heard(file), who("curator:read").heard(task)) == (None, task)
    assert who("*:write,admin").heard(file) is None


def test_the_journal_s_key_is_told_of_the_journal():
    daily = who("daily:read")

    assert daily.heard(event("file.created", path="Daily/a.md", **CHANGE)) is not None
    assert daily.heard(event("file.created", path="Projects/a.md", **CHANGE)) is None


def test_an_undoing_that_names_nothing_is_told_to_who_sees_all():
    assert PROJECTS.heard(event("run.undone", run="r", runs=["r"], paths=[], kept={})) is None


def test_hidden_files_exist_for_nobody():
    assert ALL.heard(event("file.created", path=".secret/key.md", **CHANGE)) is None
    assert ALL.heard(event("file.created", path=".agents/a.md", **CHANGE)) is not None


def test_an_event_of_a_module_is_for_those_who_may_read_in_that_module():
    told = event("garden.planted", path="Projects/a.md")

    assert who("garden:read").heard(told) is told
    assert who("vault:read", "curator:read", "system:read").heard(told) is None
    assert who("garden:write").heard(told) is None
    assert PROJECTS.heard(told) is told
    assert PROJECTS.heard(event("garden.planted", path=HIDDEN)) is None
