"""The commands that need no daemon."""

from __future__ import annotations

import json
import time

import pytest

from parachuted.cli import main
from parachuted.cli.setup import make_default_vault
from parachuted.config import describe_settings
from parachuted.home_files.bundled import bundled_folder
from parachuted.modules.registry.approved import ModuleRegistry


@pytest.fixture
def run(home, tmp_path, monkeypatch, capsys):
    """Run a command here; its code and what it printed and complained of."""
    monkeypatch.setenv("HOME", str(tmp_path))

    def run(*words: str) -> tuple[int, str, str]:
        code = main(list(words))
        return code, *capsys.readouterr()

    return run


def test_init_makes_a_vault_from_the_template_and_remembers_it(run, tmp_path):
    code, said, _ = run("init", str(tmp_path / "Notes"))

    assert code == 0
    assert said.startswith(f"Made {tmp_path / 'Notes'}")
    template = bundled_folder("vault-template")
    made = {file.relative_to(tmp_path / "Notes") for file in (tmp_path / "Notes").rglob("*")}
    assert made == {file.relative_to(template) for file in template.rglob("*")}
    assert run("vault") == (0, f"{tmp_path / 'Notes'}\n", "")


def test_init_without_a_path_makes_the_vault_of_the_settings(run, tmp_path):
    began, made = time.time(), tmp_path / "Parachute"
    said = f"Made {made}, with a few notes to begin with.\n`parachute start` watches it.\n"
    assert run("init")[1] == said
    oldest = min(note.stat().st_mtime for note in made.rglob("*.md"))
    assert oldest >= began - 1, "the notes are new"
    shown = {"vault": str(made), "exists": True, "settings": str(made)}
    assert json.loads(run("vault", "--json")[1]) == shown


def test_init_leaves_what_is_there_and_says_when_it_cannot(run, vault, tmp_path):
    (vault / "mine.md").write_text("mine")
    code, said, _ = run("init", str(vault))
    assert (code, "left as it is" in said) == (0, True)
    assert [file.name for file in vault.iterdir()] == ["mine.md"]

    (tmp_path / "file").write_text("")
    code, said, complaint = run("init", str(tmp_path / "file"))
    assert (code, said, "cannot be made" in complaint) == (1, "", True)


@pytest.mark.parametrize(
    "words", [("--with", "daily,brain"), ("--with", "daily", "--with", "brain")]
)
def test_init_with_modules_shows_each_and_installs_them(run, home, tmp_path, words):
    code, said, _ = run("init", str(tmp_path / "Notes"), *words, "--yes")

    assert code == 0
    assert "inside the daemon" in said, "what is shown is what is granted"
    assert "runs from the next start" in said
    approved = {name: module.trust for name, module in ModuleRegistry(home).records().items()}
    assert approved == {"brain": "verified", "daily": "verified"}


def test_a_first_vault_has_the_official_modules_where_a_person_agrees(
    run, home, tmp_path, monkeypatch, capsys
):
    asked: list[str] = []
    monkeypatch.setattr("sys.stdin.isatty", lambda: True)
    monkeypatch.setattr("builtins.input", lambda question: asked.append(question) or "y")
    make_default_vault(tmp_path / "Parachute")
    make_default_vault(tmp_path / "Parachute")  # it is there: nothing is asked again

    capsys.readouterr()
    assert asked[0].startswith("Install the modules that come with parachuted (brain, chat, daily")
    assert len(asked) == 4, "each is shown and approved by itself"
    assert ModuleRegistry(home).records().keys() == {"brain", "chat", "daily"}


def test_init_with_modules_asks_first_and_names_those_there_are(run, tmp_path):
    code, said, _ = run("init", str(tmp_path / "Notes"), "--with", "daily")
    first = said.index("Nothing is approved without a terminal or --yes")
    assert first < said.index("Approve daily and let it run?")
    assert (code, "These files are not approved" in said) == (1, True)

    code, _, complaint = run("init", str(tmp_path / "More"), "--with", "daily,diary", "--yes")
    assert (code, "has no module 'diary'; it has " in complaint) == (1, True)
    assert not (tmp_path / "More" / "Modules").exists()


def test_vault_set_takes_a_folder_that_is_there(run, vault, home, tmp_path, monkeypatch):
    monkeypatch.chdir(vault.parent)
    said = f"The vault is {vault} from the next start on.\n"
    assert run("vault", "set", "vault") == (0, said, "")
    code, _, complaint = run("vault", "set", str(tmp_path / "my notes"))
    advice = f"`parachute init '{tmp_path}/my notes'`"
    assert (code, "there is no folder" in complaint, advice in complaint) == (1, True, True)
    code, _, complaint = run("vault", "set", str(home.parent))
    assert (code, "may not hold the folder of settings" in complaint) == (2, True)
    assert run("vault")[1] == f"{vault}\n"


def test_links_in_a_circle_are_no_folder_wherever_one_is_named(run, home, tmp_path):
    circle = tmp_path / "there"
    circle.symlink_to(tmp_path / "back")
    (tmp_path / "back").symlink_to(circle)
    for words, says in (
        (("vault", "set"), "there is no folder"),
        (("vault", "adopt"), "there is no folder"),
        (("init",), "cannot be made"),
        (("modules", "install"), "is not a folder"),
    ):
        code, _, complaint = run(*words, str(circle))
        assert (code, says in complaint) == (1, True), words
    (home / "config.yaml").write_text(f"vault: {circle}\n")
    code, _, complaint = run("start", "--foreground")
    assert (code, "there is no vault at" in complaint) == (1, True)


def test_settings_are_shown_set_and_taken_back(run):
    keys = [described.key for described in describe_settings()]
    said = run("config", "set", "budget.runs_per_day", "7")[1]
    assert said.startswith("budget.runs_per_day is 7 from")
    code, said, _ = run("config")
    listed = json.loads(run("config", "--json")[1])

    assert code == 0
    assert [line.split()[0] for line in said.splitlines()[1:]] == keys
    assert [setting["key"] for setting in listed] == keys
    assert {setting["key"]: setting["value"] for setting in listed}["budget.runs_per_day"] == "7"
    assert all(setting["means"] for setting in listed)
    assert run("config", "get", "budget.runs_per_day") == (0, "7\n", "")
    said = run("config", "unset", "budget.runs_per_day")[1]
    assert said.startswith("budget.runs_per_day is 500, its default")
    assert run("config", "get", "budget.runs_per_day")[1] == "500\n"


def test_config_shows_no_password_in_an_address(run):
    said = run("config", "set", "agent.base_url", "http://me:hush@localhost:1234")[1]
    for words in (["config"], ["config", "--json"], ["auth", "status"]):
        said += run(*words)[1]
    assert "hush" not in said
    assert "http://[secret]@localhost:1234" in said


@pytest.mark.parametrize(
    "words",
    [
        "set port many",
        "set ports 1",
        "set budget 1",
        "set agent.backend magic",
        "get agent.max_turn",
        "unset agent.max_turn",
    ],
)
def test_what_is_not_a_setting_is_refused_and_nothing_written(run, home, words):
    code, _, complaint = run("config", *words.split())

    assert code == 2
    assert complaint.startswith("parachute: the settings are wrong:\n  ")
    assert not (home / "config.yaml").exists()


@pytest.mark.parametrize("place", ["variable", "file", "nowhere"])
def test_auth_status_tells_what_was_found_and_never_the_secret(run, tmp_path, monkeypatch, place):
    if place == "variable":
        monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-ant-SECRET")
    elif place == "file":
        (tmp_path / ".claude").mkdir()
        login = {"accessToken": "sk-ant-SECRET", "expiresAt": 99999999999999}
        file = tmp_path / ".claude/.credentials.json"
        file.write_text(json.dumps({"claudeAiOauth": {**login, "refreshToken": "SECRET"}}))
        file.chmod(0o600)
    code, said, _ = run("auth", "status")
    document = run("auth", "status", "--json")[1]

    assert code == 0
    assert "SECRET" not in said + document
    found = [looked["found"] for looked in json.loads(document)["looked"]]
    if place == "nowhere":
        assert said.count("nothing  ") >= 3
        assert not any(found)
        reason = "Agent: offline, with no model, since no login was found.\nTo use a model: "
        assert reason in said
    else:
        assert "found  " in said
        assert "Agent: claude" in said
        assert any(found)


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_shell_learns_every_command(run, shell):
    code, said, _ = run("completion", shell)

    assert code == 0
    assert all(word in said for word in ("suggestions", "approve-all", "doctor", "accept-missing"))
