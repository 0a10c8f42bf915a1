"""modules.yaml: what people wrote stays, and what cannot be trusted lets nothing run."""

from __future__ import annotations

import os
import threading

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from parachuted.errors import NotFoundError
from parachuted.modules.registry.module_registry import ModuleRegistry, ModuleRegistryError

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
def ledger(home) -> ModuleRegistry:
    return ModuleRegistry(home)


def write(ledger: ModuleRegistry, text: str) -> None:
    ledger.path.write_text(text)
    ledger.path.chmod(0o600)


def test_what_is_written_is_read_and_what_is_none_is_taken_away(ledger):
    assert ledger.load() == {}
    ledger.change(
        "daily",
        {
            "enabled": True,
            "hash": "sha256:1",
            "lock": ["a==1", "b # c"],
            "problem": "no: 'x'\n\"y\" ☃ 😀",
        },
    )
    assert ledger.load() == {
        "daily": {
            "enabled": "true",
            "hash": "sha256:1",
            "lock": ["a==1", "b # c"],
            "problem": "no: 'x'\n\"y\" ☃ 😀",
        }
    }
    ledger.change("daily", {"problem": None, "lock": None})
    assert ledger.load() == {"daily": {"enabled": "true", "hash": "sha256:1"}}
    assert ledger.path.stat().st_mode & 0o777 == 0o600


def test_a_change_replaces_the_lines_that_it_is_about_and_no_other(ledger):
    write(ledger, OF_A_PERSON)
    ledger.change("daily", {"source": "local", "hash": "sha256:2"})

    expected = OF_A_PERSON.replace("source: parachute://daily", "source: local")
    expected = expected.replace("          - read\n", "          - read\n    hash: sha256:2\n")
    assert ledger.path.read_text() == expected


def test_another_module_is_added_and_removed_without_touching_the_rest(ledger):
    write(ledger, OF_A_PERSON)
    ledger.change("new", {"enabled": False})
    assert ledger.load()["new"] == {"enabled": "false"}
    ledger.remove("new")
    assert ledger.path.read_text() == OF_A_PERSON


def test_an_entry_on_one_line_is_spelled_anew_with_the_keys_that_nobody_knows(ledger):
    write(ledger, OF_A_PERSON)
    ledger.change("other", {"enabled": True})

    assert ledger.load()["other"] == {"enabled": "true", "colour": "red"}
    assert ledger.path.read_text().startswith(OF_A_PERSON[: OF_A_PERSON.index("  other")])


def test_a_change_that_changes_nothing_writes_nothing(ledger):
    ledger.change("daily", {"enabled": True})
    mark = ledger.mark()
    ledger.change("daily", {"enabled": True})
    assert ledger.mark() == mark


def test_removing_what_is_not_there_is_said(ledger):
    with pytest.raises(NotFoundError):
        ledger.remove("daily")


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
def test_what_cannot_be_understood_lets_nothing_run_and_is_not_written_over(ledger, kind):
    write(ledger, WRONG[kind])

    with pytest.raises(ModuleRegistryError, match="no module runs"):
        ledger.load()
    with pytest.raises(ModuleRegistryError):
        ledger.change("daily", {"enabled": True})
    assert ledger.path.read_text() == WRONG[kind]


@pytest.mark.parametrize("mode", [0o620, 0o602, 0o666, 0o664])
def test_a_file_that_others_may_change_lets_nothing_run(ledger, mode):
    ledger.change("daily", {"enabled": True})
    ledger.path.chmod(mode)

    with pytest.raises(ModuleRegistryError, match="others may change"):
        ledger.load()


def test_what_is_no_file_lets_nothing_run_and_holds_nobody_up(ledger):
    os.mkfifo(ledger.path)
    with pytest.raises(ModuleRegistryError):
        ledger.load()
    ledger.path.unlink()
    ledger.path.mkdir()
    with pytest.raises(ModuleRegistryError):
        ledger.load()


def test_two_who_change_it_at_once_lose_nothing(home):
    def add(start: int) -> None:
        for number in range(start, start + 10):
            ModuleRegistry(home).change(f"m{number}", {"enabled": True})

    threads = [threading.Thread(target=add, args=(start,)) for start in (0, 10, 20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert sorted(ModuleRegistry(home).load()) == sorted(f"m{number}" for number in range(30))


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


@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(changes=st.lists(st.tuples(NAMES, VALUES), max_size=6))
def test_whatever_is_changed_means_what_was_meant(tmp_path, changes):
    ledger = ModuleRegistry(tmp_path)
    write(ledger, OF_A_PERSON)
    expected = ledger.load()
    for name, values in changes:
        ledger.change(name, values)
        said = {
            key: ("true" if value else "false") if isinstance(value, bool) else value
            for key, value in values.items()
        }
        expected[name] = {
            key: value
            for key, value in {**expected.get(name, {}), **said}.items()
            if value is not None
        }
        assert ledger.load() == expected
    assert ledger.path.read_text().startswith("# my modules\n") or any(
        name == "other" for name, _values in changes
    )
