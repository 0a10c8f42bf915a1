"""modules.yaml: what people wrote stays, and what cannot be trusted lets nothing run."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from parachuted.errors import UntrustedError
from parachuted.modules.registry.approved import parse_record
from parachuted.modules.registry.module_registry import ModuleRegistry

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


@pytest.fixture
def registry(home) -> ModuleRegistry:
    return ModuleRegistry(home)


def write(registry: ModuleRegistry, text: str) -> None:
    registry.path.write_text(text)
    registry.path.chmod(0o600)


def test_what_is_written_is_read_and_what_is_none_is_taken_away(registry):
    assert registry.load() == {}
    said = {"hash": "sha256:1", "lock": ["a==1", "b # c"], "problem": "no: 'x'\n\"y\" ☃ 😀"}
    registry.change("daily", {"enabled": True, **said})
    assert registry.load() == {"daily": {"enabled": "true", **said}}
    registry.change("daily", {"problem": None, "lock": None})
    assert registry.load() == {"daily": {"enabled": "true", "hash": "sha256:1"}}
    assert registry.path.stat().st_mode & 0o777 == 0o600


def test_a_change_replaces_the_lines_that_it_is_about_and_no_other(registry):
    write(registry, OF_A_PERSON)
    registry.change("daily", {"source": "local", "hash": "sha256:2"})

    expected = OF_A_PERSON.replace("source: parachute://daily", "source: local")
    expected = expected.replace("          - read\n", "          - read\n    hash: sha256:2\n")
    assert registry.path.read_text() == expected


def test_another_module_is_added_and_removed_without_touching_the_rest(registry):
    write(registry, OF_A_PERSON)
    registry.change("new", {"enabled": False})
    assert registry.load()["new"] == {"enabled": "false"}
    registry.forget("new")
    assert registry.path.read_text() == OF_A_PERSON
    mark = registry.mark()
    registry.change("daily", {"enabled": True})
    assert registry.mark() == mark, "what changes nothing writes nothing"
    registry.change("other", {"enabled": True})

    assert registry.load()["other"] == {"enabled": "true", "colour": "red"}, "unknown keys stay"
    assert registry.path.read_text().startswith(OF_A_PERSON[: OF_A_PERSON.index("  other")])


WRONG = {
    "cut off in a line": "modules:\n  daily:\n    enabled: tr",
    "cut off at a line, with the mark of a "
    "beginning": "---\nmodules:\n  daily:\n    enabled: true\n",
    "no YAML": "modules: [\n",
    "a list": "modules:\n- daily\n",
    "an entry that is a text": "modules:\n  daily: yes\n",
    "an entry twice": "modules:\n  daily: {enabled: false}\n  daily: {enabled: true}\n",
    "a key twice": "modules:\n  daily:\n    trust: untrusted\n    trust: trusted\n",
    "an alias": "modules:\n  daily: &a {enabled: true}\n  other: *a\n",
    "two documents": "modules: {}\n---\nmodules: {}\n",
    "a bomb": "modules: " + "[" * 50_000 + "\n",
    "too large": "modules: {}\n" + "#" * 70_000 + "\n",
}


@pytest.mark.parametrize("kind", WRONG)
def test_what_cannot_be_read_lets_nothing_run_and_is_not_written_over(registry, kind):
    write(registry, WRONG[kind])

    with pytest.raises(UntrustedError, match="no module runs"):
        registry.load()
    with pytest.raises(UntrustedError):
        registry.change("daily", {"enabled": True})
    assert registry.path.read_text() == WRONG[kind]


def test_what_others_may_change_or_is_no_file_lets_nothing_run(registry):
    registry.change("daily", {"enabled": True})
    for mode in (0o620, 0o602, 0o666, 0o664):
        registry.path.chmod(mode)
        with pytest.raises(UntrustedError, match="others may change"):
            registry.load()
    registry.path.unlink()
    for make in (os.mkfifo, os.mkdir):
        make(registry.path)
        with pytest.raises(UntrustedError):
            registry.load()
        (registry.path.rmdir if make is os.mkdir else registry.path.unlink)()


def test_those_who_change_it_at_once_lose_nothing(home):
    def add(start: int) -> None:
        for number in range(start, start + 5):
            ModuleRegistry(home).change(f"m{number}", {"enabled": True})

    with ThreadPoolExecutor(3) as threads:
        list(threads.map(add, (0, 5, 10)))

    assert sorted(ModuleRegistry(home).load()) == sorted(f"m{number}" for number in range(15))


def test_a_setting_is_set_and_the_last_that_goes_leaves_no_empty_config(registry):
    plain = "# mine\nmodules:\n  daily:\n    enabled: true  # yes\n"
    write(registry, f"{plain}    config:\n      # why\n      days: 3\n")
    assert registry.set_config("daily", "days", 7) == 3
    assert registry.set_config("daily", "layout", "entries") is None
    assert registry.load()["daily"]["config"] == {"days": 7, "layout": "entries"}
    assert "# why" in registry.path.read_text()

    write(registry, plain)
    registry.set_config("daily", "days", 7)
    registry.set_config("daily", "days", None)
    assert registry.path.read_text() == plain


NAMES = st.sampled_from(["daily", "other", "new", "null", "x-1"])
TEXTS = st.text(
    st.characters(
        blacklist_categories=["Cs", "Cc", "Zl", "Zp"], blacklist_characters="\ufeff\ufffe\uffff"
    ),
    max_size=20,
)
VALUES = st.dictionaries(
    st.sampled_from(["enabled", "source", "hash", "lock", "problem"]),
    st.one_of(st.booleans(), st.none(), TEXTS, st.lists(TEXTS, max_size=3)),
)


@given(changes=st.lists(st.tuples(NAMES, VALUES), max_size=4))
def test_whatever_is_changed_means_what_was_meant(tmp_path, changes):
    registry = ModuleRegistry(tmp_path)
    write(registry, OF_A_PERSON)
    expected = registry.load()
    for name, values in changes:
        registry.change(name, values)
        said = {
            key: ("true" if value else "false") if isinstance(value, bool) else value
            for key, value in values.items()
        }
        expected[name] = {
            key: value
            for key, value in {**expected.get(name, {}), **said}.items()
            if value is not None
        }
        assert registry.load() == expected
    assert registry.path.read_text().startswith("# my modules\n") or any(
        name == "other" for name, _values in changes
    )


DIGEST = "sha256:" + "a" * 64


def test_an_entry_is_read_as_written_and_what_is_not_said_is_safe():
    entry = {
        "enabled": "true",
        "trust": "trusted",
        "version": "1.0",
        "source": "local",
        "path": "Modules/bot",
        "environment": "venv-0123abcd",
        "hash": DIGEST,
        "tree": DIGEST,
        "agents": {"a": {"paths": ["X"]}},
        "config": {"x": "1"},
        "unknown": ["kept"],
    }
    record, silent = parse_record("bot", entry), parse_record("bot", {})

    assert (record.enabled, record.trust, record.is_approved) == (True, "trusted", True)
    assert record.folder(Path("/v")) == Path("/v/Modules/bot")
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
        ("bot", {"enabled": ["true"]}),
        ("bot", {"trust": "blind"}),
        ("bot", {"hash": "sha256:abc"}),
        ("bot", {"tree": DIGEST + "\n"}),
        ("bot", {"tree": "../../etc"}),
        ("bot", {"environment": "../venv-0123abcd"}),
        ("bot", {"environment": "venv-0123abcd/.."}),
        ("bot", {"path": "../elsewhere"}),
        ("bot", {"path": "/etc"}),
        ("bot", {"path": "Modules/../../x"}),
        ("bot", {"path": ".", "enabled": "true"}),
        ("bot", {"path": "Modules/bot", "dev": "true"}),
        ("bot", {"agents": "all"}),
    ],
)
def test_what_is_not_understood_is_refused(name, entry):
    record = parse_record(name, entry)
    assert "its entry in modules.yaml is wrong" in (record.problem or "")
    assert not record.is_approved
