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
def usage_store(home) -> ModuleRegistry:
    return ModuleRegistry(home)


def write(usage_store: ModuleRegistry, text: str) -> None:
    usage_store.path.write_text(text)
    usage_store.path.chmod(0o600)


def test_what_is_written_is_read_and_what_is_none_is_taken_away(usage_store):
    assert usage_store.load() == {}
    usage_store.change(
        "daily",
        {
            "enabled": True,
            "hash": "sha256:1",
            "lock": ["a==1", "b # c"],
            "problem": "no: 'x'\n\"y\" ☃ 😀",
        },
    )
    assert usage_store.load() == {
        "daily": {
            "enabled": "true",
            "hash": "sha256:1",
            "lock": ["a==1", "b # c"],
            "problem": "no: 'x'\n\"y\" ☃ 😀",
        }
    }
    usage_store.change("daily", {"problem": None, "lock": None})
    assert usage_store.load() == {"daily": {"enabled": "true", "hash": "sha256:1"}}
    assert usage_store.path.stat().st_mode & 0o777 == 0o600


def test_a_change_replaces_the_lines_that_it_is_about_and_no_other(usage_store):
    write(usage_store, OF_A_PERSON)
    usage_store.change("daily", {"source": "local", "hash": "sha256:2"})

    expected = OF_A_PERSON.replace("source: parachute://daily", 'source: "local"')
    expected = expected.replace("          - read\n", '          - read\n    hash: "sha256:2"\n')
    assert usage_store.path.read_text() == expected


def test_another_module_is_added_and_removed_without_touching_the_rest(usage_store):
    write(usage_store, OF_A_PERSON)
    usage_store.change("new", {"enabled": False})
    assert usage_store.load()["new"] == {"enabled": "false"}
    usage_store.remove("new")
    assert usage_store.path.read_text() == OF_A_PERSON


def test_an_entry_on_one_line_is_spelled_anew_with_the_keys_that_nobody_knows(usage_store):
    write(usage_store, OF_A_PERSON)
    usage_store.change("other", {"enabled": True})

    assert usage_store.load()["other"] == {"enabled": "true", "colour": "red"}
    assert usage_store.path.read_text().startswith(OF_A_PERSON[: OF_A_PERSON.index("  other")])


def test_a_change_that_changes_nothing_writes_nothing(usage_store):
    usage_store.change("daily", {"enabled": True})
    mark = usage_store.mark()
    usage_store.change("daily", {"enabled": True})
    assert usage_store.mark() == mark


def test_removing_what_is_not_there_is_said(usage_store):
    with pytest.raises(NotFoundError):
        usage_store.remove("daily")


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
def test_what_cannot_be_understood_lets_nothing_run_and_is_not_written_over(usage_store, kind):
    write(usage_store, WRONG[kind])

    with pytest.raises(ModuleRegistryError, match="no module runs"):
        usage_store.load()
    with pytest.raises(ModuleRegistryError):
        usage_store.change("daily", {"enabled": True})
    assert usage_store.path.read_text() == WRONG[kind]


@pytest.mark.parametrize("mode", [0o620, 0o602, 0o666, 0o664])
def test_a_file_that_others_may_change_lets_nothing_run(usage_store, mode):
    usage_store.change("daily", {"enabled": True})
    usage_store.path.chmod(mode)

    with pytest.raises(ModuleRegistryError, match="others may change"):
        usage_store.load()


def test_what_is_no_file_lets_nothing_run_and_holds_nobody_up(usage_store):
    os.mkfifo(usage_store.path)
    with pytest.raises(ModuleRegistryError):
        usage_store.load()
    usage_store.path.unlink()
    usage_store.path.mkdir()
    with pytest.raises(ModuleRegistryError):
        usage_store.load()


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
    usage_store = ModuleRegistry(tmp_path)
    write(usage_store, OF_A_PERSON)
    expected = usage_store.load()
    for name, values in changes:
        usage_store.change(name, values)
        said = {
            key: ("true" if value else "false") if isinstance(value, bool) else value
            for key, value in values.items()
        }
        expected[name] = {
            key: value
            for key, value in {**expected.get(name, {}), **said}.items()
            if value is not None
        }
        assert usage_store.load() == expected
    assert usage_store.path.read_text().startswith("# my modules\n") or any(
        name == "other" for name, _values in changes
    )
