from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from parachuted.config.load import config_file, read_entries, read_file, set_entry
from parachuted.errors import ConfigError

pytestmark = pytest.mark.usefixtures("each_disk")


def texts(text: str) -> dict[str, str | None]:
    return {key: node.text for key, node in read_entries(text)}


def refused(text: str) -> str:
    with pytest.raises(ConfigError) as error:
        read_entries(text)
    (problem,) = error.value.problems
    return problem


def test_entries_have_dotted_keys_plain_text_and_lines():
    entries = read_entries("a: no\nb:\n  c: '010'\n  d:\ne: [1]\n")

    assert [(key, node.text, node.line, node.items is not None) for key, node in entries] == [
        ("a", "no", 1, False),
        ("b.c", "010", 3, False),
        ("b.d", None, 4, False),
        ("e", None, 5, True),
    ]


@pytest.mark.parametrize(
    ("text", "reported"),
    [
        ("a: [\n", "config.yaml line 2: it is not YAML: "),
        ("a: \x01\n", "config.yaml: it is not YAML: "),
        ("- a\n", "config.yaml line 1: a file of settings has lines of the form `key: value`"),
        (
            "just text\n",
            "config.yaml line 1: a file of settings has lines of the form `key: value`",
        ),
    ],
)
def test_what_is_not_a_file_of_settings_is_refused_with_its_line(text, reported):
    assert refused(text).startswith(reported)


@given(
    st.text(st.characters(codec="utf-8"), max_size=200)
    | st.text("a:b [{,}]-?&*!|>'\"%@`#~\n\t 0\\", max_size=60)
)
def test_no_text_does_more_than_be_refused(text):
    try:
        read_entries(text)
    except ConfigError as error:
        assert error.problems  # noqa: PT017


@pytest.mark.parametrize(
    ("before", "key", "value", "after"),
    [
        ("", "port", "1", "port: 1\n"),
        ("# c", "port", "1", "# c\nport: 1\n"),
        ("port: 1", "port", "2", "port: 2\n"),
        ("port:   1  # why\n", "port", "2", "port: 2    # why\n"),
        ("port:\nhost: x\n", "port", "2", "port: 2\nhost: x\n"),
        ("port: ~ # c\n", "port", "2", "port: 2 # c\n"),
        ("port: 'a' # c\r\nhost: x\r\n", "port", "2", "port: 2   # c\r\nhost: x\r\n"),
        ('port: "a\n  b"\nhost: x\n', "port", "2", "port: 2\nhost: x\n"),
        ("port: |\n  1\n  2\nhost: x\n", "port", "2", "port: 2\nhost: x\n"),
        ("host: x\r\n", "agent.model", "m", "host: x\r\nagent:\r\n  model: m\r\n"),
        (
            "agent:\n    # one\n    model: m # two\n\n# three\nport: 1\n",
            "agent.x",
            "1",
            "agent:\n    # one\n    model: m # two\n    x: 1\n\n# three\nport: 1\n",
        ),
        ("agent:\n  model: m", "agent.x", "1", "agent:\n  model: m\n  x: 1\n"),
        (
            "agent:\n  model: |\n    m\nport: 1\n",
            "agent.x",
            "1",
            "agent:\n  model: |\n    m\n  x: 1\nport: 1\n",
        ),
        ("agent: # c\nport: 1\n", "agent.x", "1", "agent: # c\n  x: 1\nport: 1\n"),
        ("agent: ~\nport: 1\n", "agent.x", "1", "agent:\n  x: 1\nport: 1\n"),
        ("agent: {model: m} # c\n", "agent.x", "1", "agent: {model: m, x: 1} # c\n"),
        ("agent: {}\n", "agent.x", "1", "agent:\n  x: 1\n"),
        ("agent: {model: m}\n", "agent.model", "a, b", "agent: {model: 'a, b'}\n"),
        ("agent.model: m\n", "agent.model", "n", "agent.model: n\n"),
        ("port: 1\n", "port", "", "port:\n"),
        ("a: 1\n", "vault", "~/Ä b: c", "a: 1\nvault: '~/Ä b: c'\n"),
        ("a: 1\n", "vault", "~/Notes", "a: 1\nvault: ~/Notes\n"),
        (
            "a: 1\n",
            "agent.base_url",
            "http://[::1]:8080/v1",
            "a: 1\nagent:\n  base_url: http://[::1]:8080/v1\n",
        ),
    ],
)
def test_setting_an_entry_leaves_all_else_as_it_was_written(before, key, value, after):
    assert set_entry(before, key, value) == after


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("{port: 1}\n", "{port: 1, host: x}\n"),
        ("port: 1\n...\n", "port: 1\nhost: x\n...\n"),
        ("  port: 1\n", "port: 1\nhost: x\n"),
        ("port: 1\n\n# the end\n", "port: 1\nhost: x\n\n# the end\n"),
    ],
)
def test_a_new_entry_follows_the_last_one_however_the_file_is_written(before, after):
    assert set_entry(before, "host", "x") == after


@pytest.mark.parametrize(
    ("before", "key"),
    [
        ("a: 1\na: 2\n", "host"),
        ("agent: claude\n", "agent.model"),
        ("agent: [claude]\n", "agent.model"),
    ],
)
def test_a_file_that_allows_no_change_to_one_line_is_left_to_a_person(before, key):
    with pytest.raises(ConfigError, match=f"set {key} in it by hand"):
        set_entry(before, key, "x")


@given(
    value=st.text(st.characters(codec="utf-8"), min_size=1, max_size=30)
    | st.sampled_from(["null", "~", "Null", "no", "- a", "a:", "#", "{", "%x", "0x1"])
)
@pytest.mark.parametrize(
    "before", ["", "a: 1\nb:\n  c: 2 # c\n  d: x\n", "b: {c: 2}\n", "b.c: 2\n", "b:\n"]
)
def test_any_value_that_was_set_is_read_back(before, value):
    others = {key: text for key, text in texts(before).items() if key not in {"b", "b.c"}}
    try:
        after = set_entry(before, "b.c", value)
    except ConfigError:
        after = None

    assert after is None or texts(after) == {**others, "b.c": value}
    assert after is not None or not value.isprintable()


def test_a_missing_file_is_empty_and_a_folder_in_its_place_reported(home):
    assert read_file(home) == ""
    (home / "config.yaml").mkdir()

    with pytest.raises(ConfigError, match="Is a directory"):
        read_file(home)


def test_a_home_that_was_open_to_others_is_closed(home):
    home.chmod(0o755)
    config_file(home).change(lambda _before: "port: 1\n")

    assert os.stat(home).st_mode & 0o777 == 0o700  # noqa: PTH116
    assert Path(home / "config.yaml").stat().st_mode & 0o777 == 0o600
