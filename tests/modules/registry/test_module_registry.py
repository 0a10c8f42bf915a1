"""modules.yaml: what people wrote stays, and what cannot be trusted lets nothing run."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from parachuted.errors import UntrustedError
from parachuted.home_files import read_document
from parachuted.modules.registry.approved import ModuleRecord, ModuleRegistry

OF_A_PERSON = """\
# my modules
modules:
  # the journal
  daily:
    enabled: true   # since May
    source: parachute://daily
    agents:          # narrowed
      responder:
        paths: ["Brain/x.md"]
        # inside
        capabilities:
          - read

  # another
  other: {enabled: false, colour: red}
kept: yes
"""
DIGEST = "sha256:" + "a" * 64


@pytest.fixture
def registry(home) -> ModuleRegistry:
    return ModuleRegistry(home)


def write(registry: ModuleRegistry, text: str) -> None:
    registry.path.write_text(text)
    registry.path.chmod(0o600)


def written(registry: ModuleRegistry) -> object:
    return read_document(registry.path.read_text()).plain()["modules"]


def record_of(registry: ModuleRegistry, name: str, entry: dict[str, object]) -> ModuleRecord:
    write(registry, f"{json.dumps({'modules': {name: entry}})}\n")
    return registry.records([name])[name]


def test_what_is_written_is_read_and_what_is_none_is_taken_away(registry):
    assert registry.records() == {}
    said = {"hash": "sha256:1", "lock": ["a==1", "b # c"], "source": "no: 'x'\n\"y\" ☃ 😀"}
    registry.change("daily", {"enabled": True, **said})
    assert written(registry) == {"daily": {"enabled": "true", **said}}
    registry.change("daily", {"source": None, "lock": None})
    assert written(registry) == {"daily": {"enabled": "true", "hash": "sha256:1"}}
    assert registry.path.stat().st_mode & 0o777 == 0o600


def test_a_change_replaces_the_lines_that_it_is_about_and_no_other(registry):
    write(registry, OF_A_PERSON)
    registry.change("daily", {"source": "local", "hash": "sha256:2"})
    registry.change("new", {"enabled": False})
    registry.forget("new")

    expected = OF_A_PERSON.replace("source: parachute://daily", "source: local")
    expected = expected.replace("          - read\n", "          - read\n    hash: sha256:2\n")
    assert registry.path.read_text() == expected


@pytest.mark.parametrize(
    "text",
    [
        "modules:\n  daily:\n    enabled: tr",
        "modules: [\n",
        "modules:\n- daily\n",
        "modules:\n  daily: yes\n",
        "modules:\n  daily: {enabled: false}\n  daily: {enabled: true}\n",
        "modules:\n  daily: &a {enabled: true}\n  other: *a\n",
        "modules: {}\n" + "#" * 70_000 + "\n",
    ],
    ids=["cut off", "no YAML", "a list", "a text", "twice", "an alias", "too large"],
)
def test_what_cannot_be_read_lets_nothing_run_and_is_not_written_over(registry, text):
    write(registry, text)

    with pytest.raises(UntrustedError, match="no module runs"):
        registry.records()
    with pytest.raises(UntrustedError):
        registry.change("daily", {"enabled": True})
    assert registry.path.read_text() == text


def test_what_others_may_change_lets_nothing_run(registry):
    registry.change("daily", {"enabled": True})
    registry.path.chmod(0o620)
    with pytest.raises(UntrustedError, match="others may change"):
        registry.records()


def test_a_setting_is_set_and_the_last_that_goes_leaves_no_empty_config(registry):
    plain = "# mine\nmodules:\n  daily:\n    enabled: true  # yes\n"
    write(registry, f"{plain}    config:\n      # why\n      days: 3\n")
    assert registry.set_config("daily", "days", 7) == 3
    assert registry.set_config("daily", "layout", "entries") is None
    assert registry.records()["daily"].config == {"days": 7, "layout": "entries"}
    assert "# why" in registry.path.read_text()

    write(registry, plain)
    registry.set_config("daily", "days", 7)
    registry.set_config("daily", "days", None)
    assert registry.path.read_text() == plain


def test_an_entry_is_read_as_written_and_what_is_not_said_is_safe(registry):
    entry = {
        "enabled": "true",
        "trust": "trusted",
        "hash": DIGEST,
        "tree": DIGEST,
        "environment": "venv-0123abcd",
        "agents": {"a": {"paths": ["X"]}},
        "path": "Modules/bot",
        "unknown": ["kept"],
        "problem": "of an earlier version",
    }
    record, silent = record_of(registry, "bot", entry), record_of(registry, "bot", {})

    assert (record.enabled, record.trust, record.is_approved) == (True, "trusted", True)
    assert (record.folder(Path("/v")), record.problem) == (Path("/v/Modules/bot"), None)
    assert record.agents == {"a": {"paths": ["X"]}}
    assert (silent.enabled, silent.trust) == (False, "untrusted")
    assert (silent.is_approved, silent.is_dev, silent.path) == (False, False, "Modules/bot")


@pytest.mark.parametrize(
    ("name", "entry"),
    [
        ("../evil", {}),
        ("Bot", {}),
        ("", {}),
        ("bot", {"enabled": "maybe"}),
        ("bot", {"trust": "blind"}),
        ("bot", {"hash": "sha256:abc"}),
        ("bot", {"tree": DIGEST + "\n"}),
        ("bot", {"environment": "venv-0123abcd/.."}),
        ("bot", {"path": "../elsewhere"}),
        ("bot", {"path": "/etc"}),
        ("bot", {"path": ".", "enabled": "true"}),
        ("bot", {"path": "Modules/bot", "dev": "true"}),
        ("bot", {"agents": "all"}),
    ],
)
def test_what_is_not_understood_is_a_problem_and_no_approval(registry, name, entry):
    record = record_of(registry, name, entry)
    assert "its entry in modules.yaml is wrong" in (record.problem or "")
    assert not record.is_approved
