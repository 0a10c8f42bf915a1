"""First sight never runs; what was shown is what is approved; what was approved is what runs."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from parachuted.errors import NotFoundError, ParachuteError
from parachuted.modules.registry.approvals import ApprovalRefusedError, ModuleApprovals
from parachuted.modules.registry.module_registry import ModuleRegistryError
from parachuted.modules.registry.module_tree import read_tree
from parachuted.modules.registry.prompts import ModulePrompts
from parachuted.modules.registry.signatures import new_key, sign
from tests.modules.stranger import CODE, MANIFEST, SAID, Yard, loaded


@pytest.fixture
def yard(tmp_path, home, vault) -> Yard:
    return Yard(base=tmp_path, home=home, vault=vault)


def states(trust: ModuleApprovals) -> dict[str, str]:
    return {entry.name: entry.state for entry in trust.entries()}


def test_a_folder_that_appears_is_shown_and_does_not_run(yard):
    assert yard.trust.entries() == []
    yard.write()

    assert states(yard.trust) == {"stranger": "new"}
    assert yard.run() == []
    with pytest.raises(ApprovalRefusedError, match="never approved"):
        yard.trust.enable("stranger")
    assert yard.run() == []


def test_what_was_shown_is_approved_and_runs_and_is_remembered(yard):
    yard.write()
    consent = yard.trust.consent("stranger")
    entry = yard.trust.approve("stranger", consent.digest)

    assert (entry.state, entry.enabled, entry.trust, entry.version, entry.problem) == (
        "approved",
        True,
        "untrusted",
        "1.2.3",
        None,
    )
    assert (
        entry.approved_digest
        == entry.found_digest
        == consent.digest
        == read_tree(yard.folder).digest
    )
    assert yard.run() == [SAID]
    one = yard.ready()
    assert one.copy.is_relative_to(yard.home)
    assert one.manifest.permissions.read == ("Notes/**",)


def test_what_changed_since_it_was_shown_is_not_approved(yard):
    yard.write()
    digest = yard.trust.consent("stranger").digest
    (yard.folder / "words.py").write_text(yard.payload)
    with pytest.raises(ApprovalRefusedError, match="changed since it was shown"):
        yard.trust.approve("stranger", digest)

    assert yard.run() == []
    assert yard.trust.entry("stranger").approved_digest is None
    assert not (yard.home / "modules.yaml").exists()


def test_a_changed_module_runs_as_approved_until_the_change_is_approved(yard):
    yard.write()
    yard.approve()
    (yard.folder / "words.py").write_text("SAID = 'newly '\n")
    assert states(yard.trust) == {"stranger": "changed"}
    assert yard.run() == [SAID]
    consent, diff = yard.trust.review("stranger")
    assert diff == yard.trust.diff("stranger")
    assert "-SAID = 'as '\n+SAID = 'newly '\n" in diff
    assert consent.added == ()

    yard.trust.approve("stranger", consent.digest)
    assert yard.run() == ["newly approved"]
    assert yard.trust.diff("stranger") == ""


def test_what_a_change_asks_for_more_is_told_apart(yard):
    yard.write()
    yard.approve()
    (yard.folder / "manifest.yaml").write_text(
        MANIFEST.replace("[Notes/**]", "[Notes/**, Diary/**]")
    )

    assert yard.trust.consent("stranger").added == ("reads     | Diary/**",)
    assert yard.ready().manifest.permissions.read == ("Notes/**",)


def test_disabled_does_not_run_and_enabled_runs_again(yard):
    yard.write()
    yard.approve()
    assert not yard.trust.disable("stranger").enabled
    assert yard.run() == []
    yard.trust.approve("stranger", yard.trust.consent("stranger").digest)
    assert yard.run() == []  # to approve is not to enable, but for the first time
    assert yard.trust.enable("stranger").enabled
    assert yard.run() == [SAID]


def test_a_folder_that_is_gone_is_missing_and_the_approved_copy_runs(yard):
    yard.write()
    yard.approve()
    yard.folder.rename(yard.base / "gone")

    assert states(yard.trust) == {"stranger": "missing"}
    assert yard.run() == [SAID]
    assert "-SAID = 'as '" in yard.trust.diff("stranger")


def test_removing_forgets_and_leaves_what_a_person_made(yard):
    yard.write()
    yard.approve()
    assert yard.trust.remove("stranger") is False

    assert yard.folder.exists()
    assert states(yard.trust) == {"stranger": "new"}
    assert not (yard.home / "modules" / "stranger").exists()
    assert yard.run() == []


def test_removing_takes_what_install_put_there_unless_it_was_changed(yard):
    source = yard.write(yard.base / "source" / "stranger")
    yard.trust.install(str(source))
    assert yard.trust.remove("stranger") is True
    assert not yard.folder.exists()
    yard.trust.install(str(source))
    (yard.folder / "notes.txt").write_text("mine")
    assert yard.trust.remove("stranger") is False
    assert (yard.folder / "notes.txt").exists()


def test_installing_shows_and_approves_nothing(yard):
    source = yard.write(yard.base / "source" / "stranger")
    entry, consent = yard.trust.install(str(source))
    assert (entry.state, entry.enabled, entry.approved_digest) == ("new", False, None)
    assert consent.digest == entry.found_digest
    assert yard.run() == []
    yard.trust.approve("stranger", consent.digest)
    assert yard.run() == [SAID]

    (source / "words.py").write_text("SAID = 'later '\n")
    entry, _consent = yard.trust.install(str(source))
    assert (entry.state, entry.enabled) == ("changed", True)
    assert yard.run() == [SAID]
    with pytest.raises(ParachuteError, match="already"):
        yard.trust.install(str(yard.write(yard.base / "another" / "stranger")))


def test_installing_again_does_not_take_what_a_person_wrote_there(yard):
    source = yard.write(yard.base / "source" / "stranger")
    yard.trust.install(str(source))
    (yard.folder / "words.py").write_text("SAID = 'my own work'\n")
    with pytest.raises(ApprovalRefusedError, match="would be lost"):
        yard.trust.install(str(source))
    assert (yard.folder / "words.py").read_text() == "SAID = 'my own work'\n"

    yard.folder.rename(yard.base / "away")
    yard.trust.install(str(source))
    assert states(yard.trust) == {"stranger": "new"}


def test_what_a_person_has_the_agents_told_outlives_an_approval(yard):
    yard.write()
    yard.approve()
    ModulePrompts(yard.home).put("stranger", "Be brief.")
    (yard.folder / "words.py").write_text("SAID = 'newly '\n")
    yard.approve()

    assert ModulePrompts(yard.home).get("stranger") == "Be brief."


def test_only_a_signature_makes_it_verified_and_only_for_its_bytes(yard):
    private, public = new_key()
    yard.keys = (public,)
    yard.trust = yard.again()
    yard.write()
    with pytest.raises(ApprovalRefusedError, match="not signed"):
        yard.trust.approve("stranger", yard.trust.consent("stranger").digest, trust="verified")
    (yard.folder / "SIGNATURE").write_text(sign(read_tree(yard.folder).digest, private) + "\n")
    assert yard.trust.consent("stranger").trust == "verified"
    assert yard.approve().trust == "verified"

    (yard.folder / "words.py").write_text("SAID = 'no longer '\n")
    assert yard.trust.consent("stranger").trust == "untrusted"
    assert yard.ready().trust == "verified"
    assert yard.approve().trust == "untrusted"
    with pytest.raises(ApprovalRefusedError):
        yard.trust.set_trust("stranger", "verified")


def test_verified_without_the_key_does_not_run(yard):
    private, public = new_key()
    yard.keys = (public,)
    yard.trust = yard.again()
    yard.write()
    (yard.folder / "SIGNATURE").write_text(sign(read_tree(yard.folder).digest, private))
    yard.approve()
    yard.keys = ()
    assert yard.run() == []
    yard.keys = (public,)
    text = (yard.home / "modules.yaml").read_text()
    (yard.home / "modules.yaml").write_text(
        "".join(line for line in text.splitlines(keepends=True) if "signature:" not in line)
    )
    assert yard.run() == []


def test_trust_is_what_a_person_says(yard):
    yard.write()
    yard.approve()
    assert yard.trust.set_trust("stranger", "trusted").trust == "trusted"
    assert yard.ready().trust == "trusted"
    (yard.folder / "words.py").write_text("SAID = 'still '\n")
    assert yard.approve().trust == "trusted"


def test_a_ledger_that_cannot_be_trusted_lets_nothing_run_and_says_so(yard):
    yard.write()
    yard.approve()
    registry = yard.home / "modules.yaml"
    text = registry.read_text()
    for spoil in (
        lambda: registry.chmod(0o666),
        lambda: registry.write_text(text[: len(text) // 2]),
        lambda: registry.write_text("modules: ["),
    ):
        spoil()
        trust = yard.again()
        assert yard.run() == []
        assert "no module runs" in (trust.problem or "")
        assert [(entry.state, entry.enabled) for entry in trust.entries()] == [("broken", False)]
        with pytest.raises(ModuleRegistryError):
            trust.approve("stranger", "sha256:")
        registry.chmod(0o600)
        registry.write_text(text)
    assert yard.run() == [SAID]
    assert yard.trust.problem is None


def test_one_entry_that_is_wrong_stops_that_module_alone(yard):
    yard.write()
    yard.approve()
    with (yard.home / "modules.yaml").open("r+") as file:
        text = file.read()
        file.seek(0)
        file.write(text.replace("...\n", "  other:\n    enabled: maybe\n...\n"))

    assert yard.run() == [SAID]
    assert states(yard.trust) == {"stranger": "approved", "other": "broken"}
    assert "true or false" in (yard.trust.entry("other").problem or "")


def test_what_a_person_writes_into_an_entry_reaches_who_runs_it(yard):
    yard.write()
    yard.approve()
    with (yard.home / "modules.yaml").open("r+") as file:
        text = file.read()
        file.seek(0)
        file.write(
            text.replace(
                "...\n",
                "    config:\n      colour: red\n    agents:\n      a:\n        paths: [X/]\n...\n",
            )
        )
    one = yard.ready()
    assert (one.config, one.overrides) == ({"colour": "red"}, {"a": {"paths": ["X/"]}})
    (yard.folder / "words.py").write_text("SAID = 'x '\n")
    assert yard.approve().config == {"colour": "red"}


def test_two_copies_are_kept_and_older_ones_go(yard):
    for number in range(4):
        yard.write(**{"words.py": f"SAID = '{number} '\n"})
        one = yard.approve()

    kept = [folder.name for folder in (yard.home / "modules" / "stranger").iterdir()]
    assert len(kept) == 2
    assert one.copy.name in kept


def test_a_look_sees_what_changed_since_the_last(yard):
    yard.write()
    assert yard.trust.look() == frozenset()
    assert yard.trust.look() == frozenset()
    (yard.folder / "deep" / "inner.py").write_text("SAID = 'x'\n")
    assert yard.trust.look() == {"stranger"}
    assert yard.trust.look() == frozenset()
    yard.approve()
    assert yard.trust.look() == {"stranger"}
    yard.write(yard.folder.with_name("other"))
    assert yard.trust.look() == {"other"}


def test_nobody_is_told_of_modules_that_are_not(yard):
    for act in (
        yard.trust.consent,
        yard.trust.diff,
        yard.trust.entry,
        yard.trust.remove,
        yard.trust.disable,
    ):
        for name in ("nothing", "../../etc", ""):
            with pytest.raises(NotFoundError):
                act(name)


def test_a_reserved_name_and_a_wrong_name_are_refused(yard):
    yard.trust = ModuleApprovals(yard.home, yard.vault, env=os.environ, reserved=("stranger",))
    yard.write()
    with pytest.raises(ParachuteError):
        yard.trust.consent("stranger")
    yard.trust = yard.again()
    yard.write(yard.folder.with_name("other"))
    with pytest.raises(ApprovalRefusedError, match="the two must agree"):
        yard.trust.consent("other")


class TestUnderDevelopment:
    @pytest.fixture
    def source(self, yard):
        return yard.write(yard.base / "work" / "stranger")

    def test_an_edit_runs_at_once(self, yard, source):
        entry, consent = yard.trust.install(str(source), dev=True)
        assert (entry.is_dev, entry.folder, entry.trust, entry.state) == (
            True,
            source,
            "trusted",
            "new",
        )
        assert not (yard.vault / "Modules").exists()
        assert yard.run() == []
        yard.trust.approve("stranger", consent.digest)
        assert yard.run() == [SAID]
        (source / "words.py").write_text("SAID = 'edited and '\n")
        (source / "__pycache__").mkdir()
        assert yard.trust.look() == frozenset()
        assert yard.run() == ["edited and approved"]
        assert states(yard.trust) == {"stranger": "approved"}

    def test_an_edit_that_asks_for_more_waits(self, yard, source):
        yard.trust.approve("stranger", yard.trust.install(str(source), dev=True)[1].digest)
        (source / "words.py").write_text("SAID = 'edited and '\n")
        (source / "manifest.yaml").write_text(MANIFEST.replace("[Notes/**]", "['**']"))
        one = yard.ready()

        with loaded(one) as cls:
            assert cls.said == SAID
        assert "other permissions" in (yard.trust.entry("stranger").problem or "")

    def test_an_edit_that_is_wrong_leaves_the_last_one_running(self, yard, source):
        yard.trust.approve("stranger", yard.trust.install(str(source), dev=True)[1].digest)
        (source / "manifest.yaml").write_text("name: [")
        assert yard.run() == [SAID]

    def test_it_cannot_be_in_the_vault_or_become_a_link_into_it(self, yard, source):
        yard.write()
        with pytest.raises(ApprovalRefusedError, match="cannot be in the vault"):
            yard.trust.install(str(yard.folder), dev=True)
        with pytest.raises(ApprovalRefusedError, match="cannot be in the vault"):
            yard.trust.install(str(yard.write(yard.home / "stranger")), dev=True)
        yard.trust.approve("stranger", yard.trust.install(str(source), dev=True)[1].digest)
        (yard.folder / "words.py").write_text(yard.payload)
        source.rename(yard.base / "kept")
        source.symlink_to(yard.folder)
        assert yard.run() == [SAID]
        source.parent.rename(yard.base / "parent")
        source.parent.symlink_to(yard.folder.parent)

        assert yard.run() == [SAID]
        assert not yard.mark.exists()

    def test_others_may_not_write_there(self, yard, source):
        source.chmod(0o777)
        with pytest.raises(ApprovalRefusedError, match="others may write"):
            yard.trust.install(str(source), dev=True)

    def test_removing_leaves_the_folder(self, yard, source):
        yard.trust.install(str(source), dev=True)
        assert yard.trust.remove("stranger") is False
        assert (source / "module.py").read_text() == CODE
        assert yard.trust.entries() == []


CONFIG = """\
modules:
  stranger:
    config:  # mine
      every: 5
      on: true
      zip: "01234"
      at: 12:30
      since: 2026-01-06
      half: .5
      none: ~
      list: [1, a, {b: false}]
"""
KEPT = {
    "every": 5,
    "on": True,
    "zip": "01234",
    "at": "12:30",
    "since": "2026-01-06",
    "half": 0.5,
    "none": None,
    "list": [1, "a", {"b": False}],
}


def write_config(yard: Yard) -> Path:
    registry = yard.home / "modules.yaml"
    registry.write_text(CONFIG)
    registry.chmod(0o600)
    return registry


def test_values_of_config_keep_their_kinds_through_approval_and_removal(yard):
    registry = write_config(yard)
    assert states(yard.trust) == {}
    source = yard.write(yard.base / "source" / "stranger")
    for _ in range(2):
        _, consent = yard.trust.install(str(source))
        yard.trust.approve("stranger", consent.digest)
        (approved,) = yard.trust.ready()
        assert approved.config == KEPT
        assert yard.trust.remove("stranger") is True
        assert states(yard.trust) == {}
        assert registry.read_text() == CONFIG
    with pytest.raises(NotFoundError):
        yard.trust.remove("stranger")
    assert registry.read_text() == CONFIG


@pytest.mark.parametrize("left", ["what Python leaves", "its own files"])
def test_what_was_removed_can_be_installed_again_also_where_its_folder_stayed(yard, left):
    source = yard.write(yard.base / "source" / "stranger")
    if left == "its own files":
        yard.write()
        yard.approve()
    else:
        yard.trust.install(str(source))
        (yard.folder / "__pycache__").mkdir()
        (yard.folder / "__pycache__/module.cpython-311.pyc").write_bytes(b"x")
    assert yard.trust.remove("stranger") is (left == "what Python leaves")

    yard.trust.install(str(source))

    assert states(yard.trust) == {"stranger": "new"}
