"""Occurrence: what a hook reads on stdin.

Each event of Claude Code's has the fields that its scripts count on, and ours beside them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path, PurePosixPath

import pytest

from parachuted.hooks import HookEvent, document
from parachuted.hooks.hook_event import cause_data, encode, event_data

AT = datetime(2025, 1, 6, 13, 0, 0, 123456, tzinfo=timezone(timedelta(hours=1)))


def hook_event(event: str, data: Mapping[str, object] | None = None, **more: object) -> HookEvent:
    return HookEvent(event=event, at=AT, data=data or {}, vault=Path("/vault"), **more)  # type: ignore[arg-type]


def test_the_specifications_fields_are_always_there():
    reported = document(
        hook_event("daily.entry.created", {"entry_id": "2025-01-06"}, module="daily")
    )

    assert reported["event"] == "daily.entry.created"
    assert reported["timestamp"] == "2025-01-06T12:00:00.123Z"
    assert reported["vault_path"] == "/vault"
    assert reported["module"] == "daily"
    assert reported["data"] == {"entry_id": "2025-01-06"}


@pytest.mark.parametrize(
    ("event", "claude"),
    [
        ("tool.before", "PreToolUse"),
        ("tool.after", "PostToolUse"),
        ("prompt.before", "UserPromptSubmit"),
        ("session.start", "SessionStart"),
        ("stop.before", "Stop"),
    ],
)
def test_an_event_of_claude_codes_has_its_common_fields(event: str, claude: str, tmp_path: Path):
    reported = document(hook_event(event, session_id="s1", cwd=tmp_path))

    assert reported["hook_event_name"] == claude
    assert (reported["session_id"], reported["transcript_path"], reported["cwd"]) == (
        "s1",
        "/dev/null",
        str(tmp_path),
    )


def test_an_event_of_ours_has_no_session_unless_there_is_one():
    assert (
        not {"session_id", "transcript_path"}
        & document(hook_event("file.modified", {"path": "a.md"})).keys()
    )
    assert (
        document(hook_event("file.modified", {"path": "a.md"}))["hook_event_name"]
        == "file.modified"
    )


def test_the_agent_is_named_in_data_alone():
    reported = document(hook_event("tool.before", {"agent_id": "r1", "agent_type": "curator"}))

    assert not {"agent_id", "agent_type"} & reported.keys()
    assert reported["data"]["agent_id"] == "r1"


def test_the_data_of_an_event_of_claude_codes_stands_at_the_top_too():
    data = {"tool_name": "Bash", "tool_input": {"command": "ls"}, "tool_use_id": "t1"}
    reported = document(hook_event("tool.before", {**data, "cwd": "/elsewhere"}))

    assert {name: reported[name] for name in data} == data
    assert (reported["cwd"], reported["data"]["cwd"]) == ("/vault", "/elsewhere")
    assert "path" not in document(hook_event("file.modified", {"path": "a.md"}))


def test_a_files_path_is_reported_whole_and_relative_to_the_vault():
    reported = document(hook_event("file.modified", {"path": "Daily/a.md"}))

    assert reported["data"] == {"path": "Daily/a.md", "file_path": "/vault/Daily/a.md"}


def test_beside_a_whole_path_of_the_specification_stands_the_vaults_own():
    reported = document(hook_event("daily.entry.created", {"entry_path": "/vault/Daily/a.md"}))

    assert reported["data"] == {
        "entry_path": "/vault/Daily/a.md",
        "path": "Daily/a.md",
        "file_path": "/vault/Daily/a.md",
    }


def test_cause_and_diff_are_reported_when_they_are_known():
    plain = document(hook_event("file.modified"))
    known = {
        "cause": {"id": "c1", "chain": ("a", "b")},
        "diff": {"text": "+x", "sections": ["#A"]},
    }
    reported = document(hook_event("file.modified", **known))

    assert not {"cause", "diff"} & plain.keys()
    assert reported["cause"] == {"id": "c1", "chain": ["a", "b"]}
    assert reported["diff"] == {"text": "+x", "sections": ["#A"]}


def test_a_folder_that_is_gone_gives_way_to_the_vault():
    assert document(hook_event("session.start", cwd="/no/such/folder"))["cwd"] == "/vault"


def test_stdin_is_one_json_object_and_a_newline_whatever_is_in_it():
    odd = {
        "when": datetime(2025, 1, 6, tzinfo=UTC),
        "path": "no\udcff.md",
        "set": {"b", "a"},
        "bytes": b"\xff",
        "nan": float("nan"),
        "where": PurePosixPath("/a"),
        "quote": '"; rm -rf / #$(x)`y`',
        "deep": (1, ({"k": None},)),
        5: True,
        "more": object,
    }
    sent = encode(document(hook_event("file.created", odd)))

    assert sent.endswith(b"}\n")
    assert sent.count(b"\n") == 1
    data = json.loads(sent)["data"]
    assert data["path"] == "no\udcff.md"
    assert data["set"] == ["a", "b"]
    assert data["nan"] is None
    assert data["quote"] == '"; rm -rf / #$(x)`y`'
    assert data["deep"] == [1, [{"k": None}]]
    assert data["5"] is True
    sent.decode("utf-8")


def test_what_holds_itself_is_reported_to_a_depth():
    loop: list[object] = []
    loop.append(loop)

    assert b"..." in encode(document(hook_event("file.created", {"loop": loop})))


@pytest.mark.parametrize(
    ("event", "data", "subject"),
    [
        ("tool.before", {"tool_name": "Edit"}, "Edit"),
        ("tool.after", {"tool_name": "Edit"}, "Edit"),
        ("session.start", {"source": "resume"}, "resume"),
        ("session.end", {"reason": "logout"}, "logout"),
        ("prompt.before", {"prompt": "x", "path": "a.md"}, None),
        ("stop.before", {}, None),
        ("file.modified", {"path": "a/b.md"}, "a/b.md"),
        ("write.before", {"path": "a/b.md"}, "a/b.md"),
        ("task.finished", {"watcher": "AGENTS.md"}, "AGENTS.md"),
        ("module.load.before", {"name": "daily"}, "daily"),
        ("tool.before", {}, None),
        ("module.failed", {"module": "daily"}, "daily"),
        ("brain.mention.detected", {"para_id": "para:x"}, "para:x"),
        ("chat.session.created", {"title": "x"}, None),
        ("daily.entry.created", {"entry_path": "/vault/Daily/a.md"}, "Daily/a.md"),
        ("daily.reflection.completed", {"output_path": "/vault/Daily/r.md"}, "Daily/r.md"),
        ("daily.entry.created", {"entry_path": "/vaulted/Daily/a.md"}, None),
    ],
)
def test_each_kind_of_event_has_its_subject(
    event: str, data: dict[str, object], subject: str | None
):
    assert hook_event(event, data).subject == subject


def test_places_are_whole_and_the_vault_s_own_names_stay():
    data = {
        "path": "a/b.md",
        "watcher": "w.md",
        "from": "a/c.md",
        "paths": ["x.md", "/elsewhere/y.md"],
        "entry_path": "Daily/entries/e.md",
        "audio_path": None,
        "count": 3,
    }

    assert event_data(data, Path("/v")) == {
        **data,
        "from": "/v/a/c.md",
        "paths": ["/v/x.md", "/elsewhere/y.md"],
        "entry_path": "/v/Daily/entries/e.md",
    }
    assert data["from"] == "a/c.md"


def test_a_cause_says_where_it_began_who_acts_and_how_far_it_has_come():
    assert cause_data(["c1", "c2"], actor="curator", run="r1", root="a.md") == {
        "id": "c1",
        "root": "a.md",
        "depth": 1,
        "actor": "curator",
        "run": "r1",
        "chain": ["c1", "c2"],
    }
    assert cause_data([], actor="person")["depth"] == 0
    assert cause_data(["c"], actor="curator", depth=3)["depth"] == 3
