"""keys.yaml: what is in it counts only when it can be trusted, and no change of it is half of
one.
"""

from __future__ import annotations

import os
import stat
import threading
from datetime import UTC, datetime
from pathlib import Path

import pytest

from parachuted.errors import NotFoundError, OutdatedError, StorageFailedError, UntrustedError
from parachuted.keys import USUAL, KeyFile, mint
from parachuted.keys.api_key import hash_of

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)


def made(home: Path, *names: str) -> KeyFile:
    file = KeyFile(home)
    for name in names:
        file.add(mint(name, USUAL, now=NOW).key)
    return file


def write(home: Path, text: str | bytes, mode: int = 0o600) -> KeyFile:
    file = KeyFile(home)
    file.path.write_bytes(text if isinstance(text, bytes) else text.encode())
    file.path.chmod(mode)
    return file


def test_what_is_added_is_there_for_its_owner_alone(home):
    file = made(home, "phone", "tablet")

    assert [key.name for key in file.load().keys] == ["phone", "tablet"]
    assert stat.S_IMODE(file.path.stat().st_mode) == 0o600
    assert file.path.read_text().startswith("---\napi_keys:\n- id: k_")
    assert sorted(path.name for path in home.iterdir()) == ["keys.yaml", "run"]


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620, 0o602, 0o666, 0o644])
def test_a_file_that_others_may_read_or_change_opens_nothing(home, mode):
    file = made(home, "phone")
    file.path.chmod(mode)

    with pytest.raises(UntrustedError, match="others may read or change"):
        file.load()
    with pytest.raises(UntrustedError):
        file.add(mint("x", USUAL, now=NOW).key)
    file.path.chmod(0o600)
    assert len(file.load().keys) == 1


@pytest.mark.parametrize(
    "text",
    [
        "",
        "\n",
        "api_keys:\n",
        "api_keys: {}\n",
        "keys: []\n",
        "api_keys: []\nmore: 1\n",
        "- a\n",
        "api_keys: [\n",
        "api_keys: []\n---\napi_keys: []\n",
        b"api_keys: []\xff\n",
        "api_keys: [" + "a, " * 100_000 + "]",
        "[" * 50_000,
    ],
)
def test_a_file_that_is_not_understood_opens_nothing_and_is_left_as_it_is(home, text):
    file = write(home, text)

    with pytest.raises(UntrustedError, match="no key opens anything"):
        file.load()
    with pytest.raises(UntrustedError):
        file.add(mint("x", USUAL, now=NOW).key)
    assert file.path.read_bytes() == (text if isinstance(text, bytes) else text.encode())


def test_a_file_that_was_cut_off_anywhere_lets_in_no_one(home):
    file = made(home, "a", "b")
    whole = file.path.read_bytes()

    assert whole.startswith(b"---\n")
    for length in range(len(whole)):
        write(home, whole[:length])
        with pytest.raises(UntrustedError, match="no key opens anything"):
            file.load()


def test_a_file_written_by_hand_needs_no_marks_but_an_end_of_its_last_line(home):
    text = (
        f"api_keys:\n  - key_hash: {hash_of('x')}\n    scopes:\n      - module: daily\n        "
        "capabilities: [read]\n"
    )

    assert len(write(home, text).load().keys) == 1
    with pytest.raises(UntrustedError, match="cut off"):
        write(home, text.rstrip("\n")).load()


def test_an_entry_of_many_patterns_opens_what_they_name(home):
    patterns = "".join(f"\n          - Notes/{number}/**" for number in range(150))
    text = (
        f"api_keys:\n  - key_hash: {hash_of('x')}\n    scopes:\n      - module: vault\n        "
        f"capabilities: [read]\n        paths:{patterns}\n"
    )

    held = write(home, text).load()
    assert (len(held.keys[0].scopes[0].paths), held.faults) == (150, ())


def test_what_is_not_a_plain_file_opens_nothing(home):
    (home / "keys.yaml").mkdir()
    with pytest.raises(UntrustedError):
        KeyFile(home).load()
    (home / "keys.yaml").rmdir()
    os.mkfifo(home / "keys.yaml", 0o600)
    with pytest.raises(UntrustedError, match="is not a file"):
        KeyFile(home).load()


def test_an_entry_that_is_not_understood_opens_nothing_and_the_others_do(home):
    file = made(home, "phone", "tablet")
    text = file.path.read_text().replace("- read", "- wrote", 1)
    write(home, text)
    held = file.load()

    assert [key.name for key in held.keys] == ["tablet"]
    (fault,) = held.faults
    assert fault.startswith("key 1 ('phone') opens nothing: scopes.0.capabilities.0: Input should")
    file.add(mint("new", USUAL, now=NOW).key)
    assert "- wrote" in file.path.read_text()
    assert [key.name for key in file.load().keys] == ["tablet", "new"]
    file.remove("phone")
    assert file.load().faults == ()


def test_two_entries_with_one_hash_or_id_are_one(home):
    file = made(home, "phone")
    entry = file.path.read_text().removeprefix("---\napi_keys:\n").removesuffix("...\n")
    write(home, f"api_keys:\n{entry}{entry.replace('phone', 'other')}")
    held = file.load()

    assert [key.name for key in held.keys] == ["phone"]
    assert len(held.faults) == 1


def test_no_two_keys_are_called_the_same(home):
    file = made(home, "phone")
    before = file.path.read_bytes()

    with pytest.raises(OutdatedError, match="there is a key 'phone' already"):
        file.add(mint("phone", USUAL, now=NOW).key)
    assert file.path.read_bytes() == before


def test_a_key_is_taken_away_by_its_id_or_by_its_name_when_no_other_has_it(home):
    file = made(home, "phone", "tablet", "other")
    file.path.write_text(file.path.read_text().replace("other", "tablet"))
    phone, tablet, other = file.load().keys

    assert file.remove("phone") == phone.id
    with pytest.raises(NotFoundError, match="2 keys are called 'tablet'"):
        file.remove("tablet")
    assert file.remove(tablet.id) == tablet.id
    with pytest.raises(NotFoundError, match="there is no key 'phone'"):
        file.remove("phone")
    assert [key.id for key in file.load().keys] == [other.id]


def test_a_key_named_as_another_s_id_is_not_taken_for_it(home):
    file = made(home, "phone")
    (phone,) = file.load().keys
    file.add(mint(phone.id, USUAL, now=NOW).key)
    file.remove(phone.id)

    assert [key.name for key in file.load().keys] == [phone.id]


def test_the_last_use_is_noted_and_nothing_else(home):
    file = made(home, "phone", "tablet")
    phone, tablet = file.load().keys
    file.note_uses({tablet.id: NOW, "k_gone": NOW})

    assert [key.last_used for key in file.load().keys] == [None, NOW]
    assert file.load().keys[0] == phone
    file.path.unlink()
    file.note_uses({tablet.id: NOW})
    assert not file.path.exists()


def test_many_writers_at_once_lose_no_key(home):
    threads = [
        threading.Thread(target=made, args=(home, f"a{number}", f"b{number}"))
        for number in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert len(KeyFile(home).load().keys) == 16


def test_a_disk_that_refuses_leaves_the_file_as_it_was(home, monkeypatch):
    file = made(home, "phone")
    before = file.path.read_bytes()

    def refuse(_descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", refuse)
    with pytest.raises(StorageFailedError, match="No space left"):
        file.add(mint("x", USUAL, now=NOW).key)
    assert file.path.read_bytes() == before
    assert sorted(path.name for path in home.iterdir()) == ["keys.yaml", "run"]


def test_a_file_that_is_a_link_stays_one(home, tmp_path):
    made(home, "phone").path.rename(tmp_path / "mine.yaml")
    (home / "keys.yaml").symlink_to(tmp_path / "mine.yaml")
    made(home, "tablet")

    assert (home / "keys.yaml").is_symlink()
    assert len(KeyFile(home).load().keys) == 2


def test_it_does_not_grow_without_bound(home, monkeypatch):
    monkeypatch.setattr("parachuted.keys.key_ring._LIMIT", 4096)
    file = KeyFile(home)
    with pytest.raises(UntrustedError, match="larger than"):
        file.add(mint("x", USUAL * 100, now=NOW).key)
    assert not file.path.exists()


def test_a_browsers_key_ends_with_the_key_that_signed_it_in(home):
    file = KeyFile(home)
    own = mint("laptop", USUAL, now=NOW).key
    browser = mint("browser", USUAL, now=NOW, parent=own.id).key
    second = mint("browser of the browser", USUAL, now=NOW, parent=browser.id).key
    for one in (own, browser, second):
        file.add(one)
    assert len(file.load().keys) == 3
    text = file.path.read_text("utf-8")
    file.path.write_text(text.replace(f"id: {own.id}", "id: k_000000000000"), "utf-8")

    held = file.load()
    assert [key.name for key in held.keys] == ["laptop"]
    assert "'browser' opens nothing" in held.faults[0]
    assert file.remove(browser.id) == browser.id
    assert not file.load().faults
