from __future__ import annotations

import stat
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from parachuted.config import Settings, describe_settings, home_folder, load_settings, set_setting
from parachuted.errors import ConfigError

on_each_disk = pytest.mark.usefixtures("each_disk")
ENV = {"HOME": "/home/me"}


def write(home: Path, text: str) -> None:
    (home / "config.yaml").write_text(text)


def mistakes(
    home: Path, env: dict[str, str] | None = None, flags: dict[str, object] | None = None
) -> list[str]:
    with pytest.raises(ConfigError) as error:
        load_settings(home, {**ENV, **(env or {})}, flags or {})
    return error.value.problems


def loaded(home: Path, text: str) -> Settings:
    write(home, text)
    return load_settings(home, ENV, {})


def test_with_nothing_set_the_defaults_hold(home):
    assert load_settings(home, ENV, {}) == Settings(vault=Path("/home/me/Parachute"))
    env = {**ENV, "PARACHUTE_HOME": "x", "PARACHUTE_EVENT": "y", "PARACHUTES": "z"}
    assert load_settings(home, env, {}) == load_settings(home, ENV, {})  # these are no settings


@pytest.mark.parametrize(
    "text",
    [
        "",
        "# nothing yet\n",
        "---\n",
        "agent:\n",
        "agent: {}\n",
        "port:\n",
        "port: ~\nagent:\n  model: null\n",
    ],
)
def test_a_file_that_sets_nothing_leaves_the_defaults(home, text):
    assert loaded(home, text) == Settings(vault=Path("/home/me/Parachute"))


def test_variables_go_over_the_file_and_flags_over_variables(home):
    write(home, "port: 1\nlog_level: error\nagent:\n  model: from-file\n  max_turns: 7\n")
    ours = {"PORT": "2", "AGENT_MODEL": "from-variable", "LOG_LEVEL": ""}
    env = {**ENV, **{f"PARACHUTE_{name}": value for name, value in ours.items()}}
    settings = load_settings(home, env, {"port": 3, "vault": None, "agent.max_cost_usd": 0.5})

    assert (settings.port, settings.vault) == (3, Path("/home/me/Parachute"))
    assert (settings.agent.model, settings.agent.max_turns) == ("from-variable", 7)
    assert (settings.log_level, settings.agent.max_cost_usd) == ("error", 0.5)


def test_every_setting_has_a_variable_and_a_flag(home):
    values = {"path": "/v", "text": "http://[::1]", "whole number": "3", "number": "30"}
    of_its_own = {
        "host": "::1",
        "api.hosts": "::1",
        "tls.host": "::1",
        "agent.untrusted": "Mail/**",
        "agent.own_folders": "~/Mail",
    }
    default = load_settings(home, ENV, {})
    for key, kind, _, _ in describe_settings():
        first = kind.partition(" ")[0]
        value = of_its_own.get(key) or values.get(kind, first)
        by_flag = load_settings(home, ENV, {key: value})
        variable = "PARACHUTE_" + key.upper().replace(".", "_")

        assert load_settings(home, {**ENV, variable: value}, {}) == by_flag
        assert by_flag != default or value == first


def test_all_mistakes_are_reported_at_once_with_their_places(home):
    write(
        home,
        "port: abc\nvault: notes\nagent:\n  modle: x\n  backend: [a, b]\nport: 12\nbubble: 3\n",
    )

    assert mistakes(
        home,
        {"PARACHUTE_PROT": "1", "PARACHUTE_AGENT_CONCURRENCY": "1.5"},
        {"agent.backend": "gpt", "frob": 1},
    ) == [
        "config.yaml line 1: port should be a valid integer, not 'abc'",
        "config.yaml line 2: vault should begin with / or ~/, not 'notes'",
        "config.yaml line 4: agent.modle is not a setting; did you mean agent.model?",
        "config.yaml line 5: agent.backend should be one value, not a list",
        "config.yaml line 6: port is there a second time; line 1 has it too",
        "config.yaml line 7: bubble has settings of its own, such as bubble.quiet_s, and no value",
        "PARACHUTE_AGENT_CONCURRENCY: agent.concurrency should be a valid integer, not '1.5'",
        "PARACHUTE_PROT is not a setting; did you mean PARACHUTE_PORT?",
        "--agent-backend: agent.backend should be 'auto', 'claude' or 'offline', not 'gpt'",
        "--frob: frob is not a setting; `parachute config` lists them",
    ]


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("modle", "agent.model"),
        ("Port", "port"),
        ("agent.time_out_s", "agent.timeout_s"),
        ("runs_per_hour", "budget.runs_per_hour"),
    ],
)
def test_an_unknown_key_is_refused_with_the_nearest_one(home, written, meant):
    write(home, f"{written}: 1\n")

    assert mistakes(home) == [
        f"config.yaml line 1: {written} is not a setting; did you mean {meant}?"
    ]


def test_a_value_must_be_right_though_a_later_layer_covers_it(home):
    assert mistakes(home, flags={"port": True}) == [
        "--port: port should be a valid integer, not 'True'"
    ]
    write(home, "port: abc\n")
    assert mistakes(home, flags={"port": 1}) == [
        "config.yaml line 1: port should be a valid integer, not 'abc'"
    ]


@pytest.mark.parametrize(
    "text",
    [
        "agent.model: x\n",
        "agent: {model: x}\n",
        "agent:\n  model: 'x'\n",
        "\ufeffagent:\r\n  model: x\r\n",
    ],
)
def test_a_key_may_be_spelled_in_any_way_that_yaml_has(home, text):
    assert loaded(home, text).agent.model == "x"


def test_values_are_read_as_text_first_whatever_yaml_makes_of_them(home):
    assert loaded(home, "agent:\n  model: 010\n").agent.model == "010"
    assert loaded(home, "vault: ~/no\nagent: {model: 10:30}\n").agent.model == "10:30"
    assert loaded(home, "port: '44'\n").port == 44
    assert loaded(home, "log_level: WARNING\n").log_level == "warning"


@on_each_disk
def test_the_vault_may_be_under_ones_home_or_relative_to_where_one_is(home, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    assert loaded(home, "vault: ~/Notes\n").vault == Path("/home/me/Notes")
    assert (
        load_settings(home, {**ENV, "PARACHUTE_VAULT": "../x"}, {}).vault == tmp_path.parent / "x"
    )
    assert load_settings(home, ENV, {"vault": Path("notes")}).vault == tmp_path / "notes"


@on_each_disk
@pytest.mark.parametrize("vault", [".", "..", "link"])
def test_the_vault_may_not_hold_the_home(home, vault):
    (home.parent / "link").symlink_to(home.parent)
    reported = mistakes(
        home, {"PARACHUTE_VAULT": str(home / ".." / vault if vault == "link" else home / vault)}
    )

    assert [mistake.partition(",")[0] for mistake in reported] == [
        "PARACHUTE_VAULT: vault may not hold the folder of settings and keys"
    ]


def test_the_longest_wait_may_not_be_shorter_than_the_quiet(home):
    write(home, "bubble: {quiet_s: 5}\n")

    assert mistakes(home, {"PARACHUTE_BUBBLE_MAX_WAIT_S": "4"}) == [
        (
            "PARACHUTE_BUBBLE_MAX_WAIT_S: bubble.max_wait_s should be at least bubble.quiet_s, "
            "which "
            "is 5"
        )
    ]
    assert mistakes(home, flags={"bubble.quiet_s": 99}) == [
        "--bubble-quiet-s: bubble.max_wait_s should be at least bubble.quiet_s, which is 99"
    ]


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.1.2"])  # noqa: S104
def test_without_keys_no_one_else_may_connect(home, host):
    assert loaded(home, f"host: '{host}'\nauth_mode: always\n").host == host
    write(home, f"host: '{host}'\nauth_mode: disabled\n")

    assert mistakes(home) == [
        (
            f"config.yaml line 2: auth_mode may not be disabled while host is {host}, where others "
            "could connect; remote asks them for keys"
        )
    ]


def test_older_keys_are_taken_and_reported(home):
    older = "vault_path: /v\ndefault_model: m\ndebug: true\ncors_origins:\n- a\n"
    settings = loaded(home, f"{older}auth_mode: always\n")

    assert (settings.vault, settings.agent.model) == (Path("/v"), "m")
    assert (settings.log_level, settings.auth_mode) == ("debug", "always")
    assert settings.notes == (
        "config.yaml line 1: vault_path is called vault now",
        "config.yaml line 2: default_model is called agent.model now",
        "config.yaml line 3: debug is called log_level now",
        "config.yaml line 4: cors_origins means nothing any more, and is ignored",
    )


def test_an_older_key_beside_its_newer_one_is_ignored_and_reported(home):
    settings = loaded(home, "vault_path: /old\nvault: /new\ndebug: true\nlog_level: error\n")

    assert (settings.vault, settings.log_level) == (Path("/new"), "error")
    assert (
        settings.notes[0]
        == "config.yaml line 1: vault_path means nothing beside vault, and is ignored"
    )


def test_an_older_key_with_a_wrong_value_is_a_mistake(home):
    write(home, "vault_path: notes\ndebug: x\ndefault_model: [a]\n")

    assert mistakes(home) == [
        "config.yaml line 1: vault should begin with / or ~/, not 'notes'",
        "config.yaml line 2: log_level should be 'debug', 'info', 'warning' or 'error', not 'x'",
        "config.yaml line 3: agent.model should be one value, not a list",
    ]
    assert loaded(home, "debug: no\n").log_level == "info"


def test_a_file_that_cannot_be_read_is_reported_beside_the_other_mistakes(home):
    write(home, "a: [\n")

    assert len(mistakes(home, {"PARACHUTE_PORT": "x"})) == 2


@given(
    value=st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"])), data=st.data()
)
def test_no_value_of_a_variable_makes_anything_but_settings_or_mistakes(
    tmp_path_factory, value, data
):
    key = data.draw(st.sampled_from(describe_settings())).key
    try:
        load_settings(
            tmp_path_factory.getbasetemp(),
            {**ENV, f"PARACHUTE_{key.upper().replace('.', '_')}": value},
            {},
        )
    except ConfigError as error:
        assert error.problems  # noqa: PT017


def test_the_home_is_named_by_a_variable_or_stands_in_ones_home():
    assert home_folder({"PARACHUTE_HOME": "/elsewhere", **ENV}) == Path("/elsewhere")
    assert home_folder({"PARACHUTE_HOME": "~/here", **ENV}) == Path("/home/me/here")
    assert home_folder({"PARACHUTE_HOME": "", **ENV}) == Path("/home/me/.parachute")
    assert home_folder({}) == Path.home() / ".parachute"


def test_setting_a_key_makes_the_home_and_the_file_for_their_owner_alone(tmp_path):
    home = tmp_path / "made" / "home"

    assert set_setting(home, "agent.model", "x").agent.model == "x"
    assert load_settings(home, ENV, {}).agent.model == "x"
    assert stat.S_IMODE(home.stat().st_mode) == 0o700
    assert stat.S_IMODE((home / "config.yaml").stat().st_mode) == 0o600
    assert sorted(path.name for path in home.iterdir()) == ["config.yaml", "run"]


@on_each_disk
@pytest.mark.parametrize(
    ("key", "value", "reported"),
    [
        ("prot", "1", "prot is not a setting; did you mean port?"),
        ("agent", "x", "agent has settings of its own, such as agent.backend, and no value"),
        ("port", "abc", "the new value: port should be a valid integer, not 'abc'"),
        ("vault", "notes", "the new value: vault should begin with / or ~/, not 'notes'"),
    ],
)
def test_a_wrong_key_or_value_is_refused_and_nothing_is_written(home, key, value, reported):
    write(home, "# mine\n")
    with pytest.raises(ConfigError) as error:
        set_setting(home, key, value)

    unchanged = ["config.yaml was not changed"] if reported.startswith("the new value") else []
    assert error.value.problems == [reported, *unchanged]
    assert (home / "config.yaml").read_text() == "# mine\n"


@on_each_disk
def test_setting_an_empty_value_brings_the_default_back(home):
    write(home, "agent:\n  base_url: http://x\n")

    assert set_setting(home, "agent.base_url", "").agent.base_url is None
    assert (home / "config.yaml").read_text() == "agent:\n  base_url:\n"


@on_each_disk
def test_a_linked_file_stays_a_link(home, tmp_path):
    (tmp_path / "dotfiles").mkdir()
    (home / "config.yaml").symlink_to(tmp_path / "dotfiles" / "parachute.yaml")
    set_setting(home, "port", "5")

    assert (home / "config.yaml").is_symlink()
    assert (tmp_path / "dotfiles" / "parachute.yaml").read_text() == "port: 5\n"


def test_variables_of_other_programs_count_least_and_are_mentioned(home):
    def values(settings: Settings) -> tuple[str | None, str, int]:
        return settings.agent.base_url, str(settings.vault), settings.port

    url, ours = "https://models.example", "http://localhost:11434"
    env = {"ANTHROPIC_BASE_URL": url, "VAULT_PATH": "/srv/notes", "PORT": "4000"}
    settings = load_settings(home, env, {})
    assert values(settings) == (url, "/srv/notes", 4000)
    assert [note.split()[0] for note in settings.notes] == ["VAULT_PATH", "PORT"]

    write(home, f"vault: /srv/mine\nagent:\n  base_url: {ours}\n")
    settings = load_settings(home, env, {"port": 5000})
    assert values(settings) == (ours, "/srv/mine", 5000)
    assert settings.notes == ()


def test_a_variable_of_another_program_without_sense_here_stops_nothing(home):
    settings = load_settings(
        home, {"PORT": "tcp://10.0.0.1:80", "ANTHROPIC_BASE_URL": "https://api.anthropic.com/"}, {}
    )

    assert (settings.port, settings.agent.base_url) == (3333, None)
    assert len(settings.notes) == 1
    assert settings.notes[0].startswith("PORT: port should be a valid integer")
    assert settings.notes[0].endswith(", and is ignored")
