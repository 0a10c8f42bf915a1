"""Settings: what a person writes or pastes becomes hooks, and all that is wrong is told at once,
with its line.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from parachuted.home_files import YamlRejectedError
from parachuted.hooks.hook import Hook
from parachuted.hooks.settings import HookFile, read_settings

pytestmark = pytest.mark.on_disk

SPECIFICATION = """\
hooks:
  daily.entry.created:
    - type: "command"
      command: "python -m parachute_brain.hooks.detect_mentions"
      timeout: 30
    - type: "command"
      command: "/path/to/custom/backup-script.sh"
      async: true  # Non-blocking

  session.end:
    - type: "command"
      command: "python -m parachute.hooks.activity_summary"
"""


def read(text: str, **places: str) -> HookFile:
    return read_settings(text, places=places)


def only(text: str) -> Hook:
    found = read(text)
    assert found.problems == []
    (hook,) = found.hooks
    return hook


def one(event: str = "tool.before", **fields: object) -> Hook:
    return only(json.dumps({"hooks": {event: [{"type": "command", "command": "x", **fields}]}}))


def test_the_specifications_own_example_is_read():
    found = read(SPECIFICATION)

    assert found.problems == []
    assert [(hook.id, hook.event, hook.is_async) for hook in found.hooks] == [
        ("daily.entry.created[0]", "daily.entry.created", False),
        ("daily.entry.created[1]", "daily.entry.created", True),
        ("session.end[0]", "session.end", False),
    ]
    assert found.hooks[0].command == "python -m parachute_brain.hooks.detect_mentions"


def test_a_group_may_stand_beside_a_hook_under_one_event():
    found = read(
        "hooks: {Stop: [{command: a}, {hooks: [{command: b}, {command: c}]}, {command: d}]}"
    )

    assert [hook.id for hook in found.hooks] == ["Stop[0]", "Stop[1].0", "Stop[1].1", "Stop[2]"]


def test_a_settings_file_of_claude_codes_is_pasted_whole():
    pasted = {
        "$schema": "https://json.schemastore.org/claude-code-settings.json",
        "permissions": {"allow": ["Bash(git *)"]},
        "hooks": {
            "PreToolUse": [
                {
                    "matcher": "Edit|Write",
                    "hooks": [{"type": "command", "command": "x", "timeout": 600}],
                },
                {
                    "matcher": "",
                    "hooks": [
                        {
                            "type": "command",
                            "command": "y",
                            "onFailure": "block",
                        }
                    ],
                },
            ],
            "TeammateIdle": [{"hooks": [{"type": "command", "command": "notify-send hi"}]}],
        },
    }
    text = json.dumps(pasted, indent="\t")
    found = read(text)
    at = text[: text.index("TeammateIdle")].count("\n") + 1

    first, second = found.hooks
    assert (first.matcher, first.timeout_s) == ("Edit|Write", 600)
    assert second.blocks_on_failure
    assert found.problems == [
        "line 3: 'permissions' means nothing here",
        f"line {at}: Claude Code's event TeammateIdle has no counterpart here",
    ]


def test_events_may_stand_without_hooks_above_them():
    assert only("file.modified:\n  - {type: command, command: x}\n").event == "file.modified"


def test_what_is_not_said_is_as_the_specification_has_it():
    hook = one()

    assert (hook.timeout_s, hook.matcher, hook.is_async) == (30, None, False)
    assert hook.blocks_on_failure is None
    assert hook.source == "settings"


@pytest.mark.parametrize(
    ("written", "field", "value"),
    [
        ({"timeout": 600}, "timeout_s", 600),
        ({"timeout": 0.5}, "timeout_s", 0.5),
        ({"matcher": "Edit"}, "matcher", "Edit"),
        ({"async": True}, "is_async", True),
        ({"onFailure": "block"}, "blocks_on_failure", True),
        ({"on_failure": "block"}, "blocks_on_failure", True),
        ({"onFailure": "continue"}, "blocks_on_failure", False),
        ({"timeout": 999_999}, "timeout_s", 86_400),
        ({"statusMessage": "Looking"}, "description", "Looking"),
        ({"statusMessage": "Looking", "description": "Looks"}, "description", "Looks"),
        ({"args": ["a", "b c", "$x"]}, "argv", ("x", "a", "b c", "$x")),
        ({"args": []}, "argv", ("x",)),
        ({"shell": "bash"}, "command", "x"),
        ({"timeout": None, "matcher": None, "args": None}, "timeout_s", 30),
    ],
)
def test_each_field_of_a_hook_is_read(written: dict[str, object], field: str, value: object):
    assert getattr(one(**written), field) == value


@pytest.mark.parametrize(("group", "expected"), [("matcher: A, ", "A"), ("", None)])
def test_in_a_group_the_groups_matcher_counts_and_that_is_said(group: str, expected: str | None):
    found = read(f"hooks: {{PreToolUse: [{{{group}hooks: [{{command: x, matcher: B}}]}}]}}")

    assert found.hooks[0].matcher == expected
    assert found.problems == [
        "line 1: PreToolUse[0].0: the matcher of its group counts, not its own"
    ]


def test_with_args_there_is_no_shell_and_each_word_is_filled_in_by_itself():
    words = ["${PARACHUTE_VAULT}/a b", "$PARACHUTE_EVENT", "$OTHER"]
    text = json.dumps({"hooks": {"file.modified": [{"command": "~/x.sh", "args": words}]}})
    (hook,) = read(text, HOME="/home/me", PARACHUTE_VAULT="/my vault").hooks

    assert hook.command is None
    assert hook.argv == ("/home/me/x.sh", "/my vault/a b", "file.modified", "$OTHER")


def test_a_line_for_a_shell_is_left_to_the_shell():
    (hook,) = read(
        'file.modified: [{command: "echo $PARACHUTE_VAULT", shell: bash}]', PARACHUTE_VAULT="/v;x"
    ).hooks

    assert hook.words == ("/bin/sh", "-c", "echo $PARACHUTE_VAULT")


@pytest.mark.parametrize("kind", ["prompt", "agent", "http", "mcp_tool"])
def test_types_that_are_not_supported_are_reported_by_name(kind: str):
    found = read(
        f"hooks:\n  PreToolUse:\n    - hooks:\n        - type: {kind}\n          prompt: x\n      "
        f"  - {{command: y}}\n"
    )

    assert [hook.id for hook in found.hooks] == ["PreToolUse[0].1"]
    assert found.problems == [f"line 4: PreToolUse[0].0: hooks of the type {kind} do not run here"]


MISTAKES = """\
hooks:
  file.modified:
    - {type: command, command: works}
    - type: command
      command: x
      timeout: soon
      once: perhaps
    - type: command
    - {type: comand, command: x}
    - just words
    - {command: x, mathcer: y}
    - {command: x, onFailure: stop}
    - {command: x, timeout: 0}
    - {command: x, matcher: "a("}
    - {command: x, shell: powershell}
    - {hooks: {command: x}}
  file.changed: [{command: x}]
  PreToolUse: {command: x}
  tool.before:
    - {command: x, if: "Bash("}
disableAllHooks: maybe
nonsense: 1
"""


def test_all_mistakes_are_reported_at_once_and_the_other_hooks_work():
    found = read(MISTAKES)

    assert found.problems == [
        (
            "line 6: file.modified[1]: timeout: should be a valid number, unable to parse string "
            "as a number; it does not run"
        ),
        "line 8: file.modified[2]: command: Field required; it does not run",
        "line 9: file.modified[3]: type: should be 'command'; it does not run",
        "line 10: file.modified[4] should be a hook, with `type: command` and a command",
        "line 11: file.modified[5]: 'mathcer' means nothing here; the rest of it holds",
        "line 12: file.modified[6]: onFailure: should be 'continue' or 'block'; it does not run",
        "line 13: file.modified[7]: timeout: should be greater than 0; it does not run",
        (
            "line 14: file.modified[8] never runs: the matcher 'a(' is not a regular expression of "
            "RE2's (which has no look-around, no back-references), so it never matches"
        ),
        "line 15: file.modified[9]: shell: should be 'bash'; it does not run",
        "line 16: file.modified[10]: matcher should be a text, and hooks a list",
        "line 17: there is no event 'file.changed'; `parachute hooks docs` lists them",
        "line 18: PreToolUse should be a list: each of its hooks begins with a dash",
        "line 20: tool.before[0]: 'if' means nothing here; the rest of it holds",
        "line 21: disableAllHooks should be true or false",
        "line 22: 'nonsense' means nothing here",
    ]
    assert [hook.id for hook in found.hooks] == [
        "file.modified[0]",
        "file.modified[5]",
        "file.modified[8]",
        "tool.before[0]",
    ]


def test_a_key_given_twice_is_reported():
    assert read("file.modified:\n- command: x\n  command: y\n").problems == [
        "line 2: file.modified[0] has a key twice, of which the last counts"
    ]


def test_one_event_under_two_keys_adds_up():
    found = read(
        "hooks:\n  Stop: [{command: a}]\n  Stop: [{command: b}]\n  stop.before: [{command: c}]\n"
    )

    assert [(hook.id, hook.command) for hook in found.hooks] == [
        ("Stop[0]", "a"),
        ("Stop[1]", "b"),
        ("stop.before[0]", "c"),
    ]


def test_a_persons_settings_in_a_line_for_the_shell_are_refused():
    found = read(
        'Stop: [{command: "echo ${user_config.name}"}, {command: echo, args: '
        '["${user_config.name}"]}]'
    )

    assert [hook.id for hook in found.hooks] == ["Stop[1]"]
    assert "would be run as code" in found.problems[0]


def test_all_hooks_can_be_switched_off_and_that_is_said():
    found = read("disableAllHooks: true\nhooks: {Stop: [{command: x}]}\n")

    assert found.is_off
    assert found.problems == ["line 1: disableAllHooks is true, so no hook runs"]
    assert not read("disableAllHooks: false\n").is_off


@pytest.mark.parametrize(
    "text", ["", "hooks:\n", "hooks: {}\n", "hooks: {Stop: }\n", "hooks: {Stop: []}\n"]
)
def test_no_hooks_are_no_mistake(text: str):
    assert read(text) == HookFile()


@pytest.mark.parametrize("text", ["- a\n", "just words\n"])
def test_a_file_of_another_kind_is_refused(text: str):
    with pytest.raises(YamlRejectedError, match="line 1: it should hold `hooks:`"):
        read(text)


def test_the_scripts_that_a_hook_names_are_found_to_be_pinned(tmp_path: Path):
    for name in ("home/a.sh", "vault/b.py", "vault/with space.py", "home/c.sh"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("x")
    commands = [
        {"command": "~/a.sh --flag x"},
        {"command": "python b.py"},
        {"command": '"$CLAUDE_PROJECT_DIR/with space.py"'},
        {"command": "python", "args": ["${HOME}/c.sh", "nothing.py"]},
        {"command": "/usr/bin/env x; sh /bin/sh"},
        {"command": "it's"},
        {"command": f"{tmp_path}/home/a.sh {tmp_path}/home/a.sh {tmp_path}/home {'x' * 5000}"},
    ]
    home, vault = str(tmp_path / "home"), str(tmp_path / "vault")
    found = read(
        json.dumps({"Stop": commands}), HOME=home, PARACHUTE_VAULT=vault, CLAUDE_PROJECT_DIR=vault
    )

    named = [
        [os.path.relpath(file, tmp_path) for file in hook.files if file.is_relative_to(tmp_path)]
        for hook in found.hooks
    ]
    assert named == [
        ["home/a.sh"],
        ["vault/b.py"],
        ["vault/with space.py"],
        ["home/c.sh"],
        [],
        [],
        ["home/a.sh"],
    ]
    assert not any(
        str(file).startswith(("/usr/", "/bin/")) for hook in found.hooks for file in hook.files
    )


@pytest.mark.parametrize(
    "command",
    [
        "~/a.sh; exit 0",
        "~/a.sh||true",
        "(~/a.sh)",
        "x &&~/a.sh&",
        "~/a.sh>log.txt",
        "sh -c '. ~/a.sh; true'",
        "cat >> ~/log.txt | ~/a.sh",
    ],
)
def test_a_script_is_found_between_the_signs_of_a_shells_line(tmp_path: Path, command: str):
    for name in ("a.sh", "log.txt"):
        (tmp_path / name).write_text("x")
    places = {"HOME": str(tmp_path), "PARACHUTE_VAULT": str(tmp_path)}

    [hook] = read(json.dumps({"Stop": [{"command": command}]}), **places).hooks

    assert hook.files == (tmp_path / "a.sh",)


def test_a_path_at_which_there_is_nothing_yet_is_looked_at_too(tmp_path: Path):
    [hook] = read(
        json.dumps({"Stop": [{"command": "~/gone.sh x y"}]}),
        HOME=str(tmp_path),
        PARACHUTE_VAULT=str(tmp_path),
    ).hooks
    assert hook.files == (tmp_path / "gone.sh",)


@pytest.mark.parametrize("indent", [None, 2, "\t"])
@pytest.mark.parametrize("ascii_only", [True, False])
def test_pasted_json_is_read_as_json_would_be(indent: int | str | None, *, ascii_only: bool):
    command = 'say "hi" / \\ \t \n é 🎉'
    pasted = {
        "hooks": {"Stop": [{"command": command, "timeout": 1.5, "async": True, "args": None}]}
    }
    text = json.dumps(pasted, indent=indent, ensure_ascii=ascii_only).replace("/", "\\/")

    (hook,) = read(f"\ufeff{text}").hooks
    assert (hook.command, hook.timeout_s, hook.is_async) == (command, 1.5, True)


def test_braces_that_are_not_json_are_yaml():
    assert only("{Stop: [{command: x}]}\n").command == "x"
