"""First sight never runs; what was shown is what is approved; what was approved is what runs."""

from __future__ import annotations

import os

import pytest

from parachuted.errors import (
    NotFoundError,
    OutdatedError,
    ParachuteError,
    UnfitError,
    UntrustedError,
)
from parachuted.modules.registry.approvals import ModuleApprovals
from parachuted.modules.registry.approved import approval_digest
from parachuted.modules.registry.copies import read_tree
from parachuted.modules.registry.manifest import read_manifest
from parachuted.modules.registry.prompts import ModulePrompts
from tests.modules.stranger import CODE, MANIFEST, SAID

PLAIN = "name: bot\nversion: 0.1.0\nmodule: module.py\n"
TREE = "sha256:" + "1" * 64


def states(trust: ModuleApprovals) -> dict[str, str]:
    return {entry.name: entry.state for entry in trust.entries()}


def test_first_sight_never_runs_and_what_was_shown_is_approved_and_runs(rig):
    assert rig.trust.entries() == []
    rig.write()
    assert states(rig.trust) == {"stranger": "new"}
    assert rig.run() == []
    with pytest.raises(OutdatedError, match="never approved"):
        rig.trust.enable("stranger")
    assert rig.run() == []

    consent = rig.trust.consent("stranger")
    (rig.folder / "words.py").write_text(rig.payload)
    with pytest.raises(OutdatedError, match="changed since it was shown"):
        rig.trust.approve("stranger", consent.digest)
    assert rig.run() == []
    assert rig.trust.entry("stranger").approved_digest is None
    assert not (rig.home / "modules.yaml").exists()

    rig.write()
    entry = rig.trust.approve("stranger", consent.digest)
    record = entry.record
    assert (entry.state, entry.problem) == ("approved", None)
    assert (record.enabled, record.trust, record.version) == (True, "untrusted", "1.2.3")
    assert entry.approved_digest == entry.found_digest == consent.digest
    assert consent.digest == read_tree(rig.folder).digest
    assert rig.run() == [SAID]
    one = rig.ready()
    assert one.copy.is_relative_to(rig.home)
    assert one.manifest.permissions.read == ("Notes/**",)


def test_a_changed_module_runs_as_approved_until_the_change_is_approved(rig):
    rig.write()
    rig.approve()
    wider = MANIFEST.replace("[Notes/**]", "[Notes/**, Diary/**]")
    (rig.folder / "manifest.yaml").write_text(wider)
    assert rig.ready().manifest.permissions.read == ("Notes/**",)

    rig.write(**{"words.py": "SAID = 'newly '\n"})
    assert states(rig.trust) == {"stranger": "changed"}
    assert rig.run() == [SAID]
    consent, diff = rig.trust.review("stranger")
    assert "-SAID = 'as '\n+SAID = 'newly '\n" in diff

    rig.trust.approve("stranger", consent.digest)
    assert rig.run() == ["newly approved"]
    assert rig.trust.review("stranger")[1] == ""


def test_each_part_counts_and_the_order_of_the_lock_does_not():
    plain = read_manifest(PLAIN)
    asked = ("read: [Work/**]", "folders: [~/Projects]", "people: true")
    first = approval_digest(TREE, plain, [])
    others = {
        approval_digest("sha256:" + "2" * 64, plain, []),
        *(
            approval_digest(TREE, read_manifest(PLAIN + f"permissions: {{{right}}}\n"), [])
            for right in asked
        ),
        approval_digest(TREE, plain, ["a==1"]),
        approval_digest(TREE, plain, ["a==1", "b==1"]),
        approval_digest(TREE, plain, ["b==1", "a==1"]),
    }
    assert first == "sha256:622f7ac4fd32426a01b837eab68cc1bb54116c83ab79270c599e8163d0f21ed1"
    assert len(others - {first}) == 1 + len(asked) + 2


def test_a_module_that_is_not_trusted_acts_for_nobody(rig):
    rig.write(**{"manifest.yaml": f"{MANIFEST}  people: true\n"})
    consent = rig.trust.consent("stranger", "trusted")
    for act in (
        lambda: rig.trust.consent("stranger"),
        lambda: rig.trust.approve("stranger", consent.digest),
    ):
        with pytest.raises(OutdatedError, match="modules approve stranger --trust trusted"):
            act()
    rig.trust.approve("stranger", consent.digest, trust="trusted")
    assert rig.run() == [SAID]
    registry = rig.home / "modules.yaml"
    registry.write_text(registry.read_text().replace("trust: trusted", "trust: untrusted"))
    assert rig.run() == []


def test_disabled_does_not_run_and_trust_is_what_a_person_says(rig):
    rig.write()
    rig.approve()
    assert not rig.trust.disable("stranger").record.enabled
    assert rig.run() == []
    digest = rig.trust.consent("stranger").digest
    assert rig.trust.approve("stranger", digest, trust="trusted").record.trust == "trusted"
    assert rig.run() == []  # to approve is not to enable, but for the first time
    assert rig.trust.enable("stranger").record.enabled
    assert rig.run() == [SAID]
    assert rig.ready().trust == "trusted"
    (rig.folder / "words.py").write_text("SAID = 'still '\n")
    assert rig.approve().trust == "trusted"


def test_a_folder_that_is_gone_is_missing_and_removing_forgets(rig):
    rig.write()
    rig.approve()
    rig.folder.rename(rig.base / "gone")
    assert states(rig.trust) == {"stranger": "missing"}
    assert rig.run() == [SAID]

    (rig.base / "gone").rename(rig.folder)
    assert rig.trust.remove("stranger") is False
    assert rig.folder.exists(), "a person made it"
    assert states(rig.trust) == {"stranger": "new"}
    assert not (rig.home / "modules" / "stranger").exists()
    assert rig.run() == []


def test_what_a_person_wrote_into_an_installed_folder_is_not_lost(rig):
    source = rig.write(rig.base / "source" / "stranger")
    rig.trust.install(str(source))
    assert rig.trust.remove("stranger") is True
    assert not rig.folder.exists()
    rig.trust.install(str(source))
    mine = rig.folder / "words.py"
    mine.write_text("SAID = 'my own work'\n")
    with pytest.raises(UnfitError, match="would be lost"):
        rig.trust.install(str(source))
    assert rig.trust.remove("stranger") is False
    assert mine.read_text() == "SAID = 'my own work'\n"

    rig.folder.rename(rig.base / "away")
    rig.trust.install(str(source))
    assert states(rig.trust) == {"stranger": "new"}


def test_installing_shows_and_approves_nothing(rig):
    source = rig.write(rig.base / "source" / "stranger")
    entry, consent = rig.trust.install(str(source)), rig.trust.consent("stranger")
    assert (entry.state, entry.record.enabled, entry.approved_digest) == ("new", False, None)
    assert consent.digest == entry.found_digest
    assert rig.run() == []
    rig.trust.approve("stranger", consent.digest)
    assert rig.run() == [SAID]

    (source / "words.py").write_text("SAID = 'later '\n")
    entry = rig.trust.install(str(source))
    assert (entry.state, entry.record.enabled) == ("changed", True)
    assert rig.run() == [SAID]
    with pytest.raises(ParachuteError, match="already"):
        rig.trust.install(str(rig.write(rig.base / "another" / "stranger")))


def test_what_a_person_writes_reaches_who_runs_it_and_outlives_an_approval(rig):
    rig.write()
    rig.approve()
    registry = rig.home / "modules.yaml"
    more = "    config: {colour: red}\n    agents: {a: {paths: [X/]}}\n...\n"
    registry.write_text(registry.read_text().replace("...\n", more))
    ModulePrompts(rig.home).put("stranger", "Be brief.")
    one = rig.ready()
    assert (one.config, one.overrides) == ({"colour": "red"}, {"a": {"paths": ["X/"]}})
    (rig.folder / "words.py").write_text("SAID = 'x '\n")
    assert rig.approve().config == {"colour": "red"}
    assert ModulePrompts(rig.home).get("stranger") == "Be brief."


def test_the_bytes_of_this_version_alone_make_it_verified(rig):
    rig.trust.install("parachute://brain")
    assert rig.trust.consent("brain").trust == "verified"
    assert rig.trust.consent("brain", "untrusted").trust == "untrusted"
    assert rig.trust.consent("brain", "trusted").trust == "verified"
    assert rig.approve("brain").trust == "verified"

    rig.write()
    with pytest.raises(OutdatedError, match="none of the modules of this version"):
        rig.trust.consent("stranger", "verified")
    file = rig.vault / "Modules/brain/module.py"
    file.write_text(file.read_text() + "# more\n")
    assert rig.trust.consent("brain").trust == "untrusted"
    assert rig.ready("brain").trust == "verified"
    assert rig.approve("brain").trust == "untrusted"


def test_a_ledger_that_cannot_be_trusted_lets_nothing_run_and_says_so(rig):
    rig.write()
    rig.approve()
    registry = rig.home / "modules.yaml"
    text = registry.read_text()
    for spoil in (
        lambda: registry.chmod(0o666),
        lambda: registry.write_text(text[: len(text) // 2]),
        lambda: registry.write_text("modules: ["),
    ):
        spoil()
        trust = rig.again()
        assert rig.run() == []
        assert "no module runs" in (trust.problem or "")
        (entry,) = trust.entries()
        assert (entry.state, entry.record.enabled) == ("broken", False)
        with pytest.raises(UntrustedError):
            trust.approve("stranger", "sha256:")
        registry.chmod(0o600)
        registry.write_text(text)
    assert rig.run() == [SAID]
    assert rig.trust.problem is None


def test_one_entry_that_is_wrong_stops_that_module_alone(rig):
    rig.write()
    rig.approve()
    registry = rig.home / "modules.yaml"
    registry.write_text(registry.read_text().replace("...\n", "  other: {enabled: maybe}\n...\n"))

    assert rig.run() == [SAID]
    assert states(rig.trust) == {"stranger": "approved", "other": "broken"}
    assert "valid boolean" in (rig.trust.entry("other").problem or "")


def test_two_copies_are_kept_and_older_ones_go(rig):
    for number in range(4):
        rig.write(**{"words.py": f"SAID = '{number} '\n"})
        one = rig.approve()

    kept = [folder.name for folder in (rig.home / "modules" / "stranger").iterdir()]
    assert len(kept) == 2
    assert one.copy.name in kept


def test_a_look_sees_whether_modules_yaml_was_written(rig):
    rig.write()
    rig.trust.look()
    assert not rig.trust.look()
    rig.approve()
    assert rig.trust.look()
    assert not rig.trust.look()


def test_no_one_learns_of_modules_that_do_not_exist(rig):
    for act in (rig.trust.consent, rig.trust.entry, rig.trust.remove, rig.trust.disable):
        for name in ("nothing", "../../etc", ""):
            with pytest.raises(NotFoundError):
                act(name)


def test_a_reserved_name_and_a_wrong_name_are_refused(rig):
    rig.write()
    taken = ModuleApprovals(rig.home, rig.vault, env=os.environ, reserved=("stranger",))
    with pytest.raises(ParachuteError):
        taken.consent("stranger")
    rig.write(rig.folder.with_name("other"))
    with pytest.raises(OutdatedError, match="the two must agree"):
        rig.again().consent("other")


def test_a_module_in_development_stays_where_it_is_and_runs_as_approved(rig):
    source = rig.write(rig.base / "work" / "stranger")
    entry = rig.trust.install(str(source), dev=True)
    assert (entry.record.is_dev, entry.folder) == (True, source)
    assert (entry.record.trust, entry.state) == ("trusted", "new")
    assert not (rig.vault / "Modules").exists()
    assert rig.run() == []
    rig.approve()
    assert rig.run() == [SAID]
    (source / "__pycache__").mkdir()
    assert states(rig.trust) == {"stranger": "approved"}
    (source / "words.py").write_text("SAID = 'edited and '\n")
    assert states(rig.trust) == {"stranger": "changed"}
    assert rig.run() == [SAID]
    rig.approve()
    assert rig.run() == ["edited and approved"]
    assert rig.trust.remove("stranger") is False
    assert (source / "module.py").read_text() == CODE
    assert rig.trust.entries() == []


CONFIG = """\
modules:
  stranger:
    config:  # mine
      every: 5
      on: true
      zip: "01234"
      at: 12:30
      since: 2026-01-06
      half: 0.5
      none:
      list: [1, a, b: false]
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


def test_values_of_config_keep_their_kinds_through_approval_and_removal(rig):
    registry = rig.home / "modules.yaml"
    registry.write_text(CONFIG)
    registry.chmod(0o600)
    assert states(rig.trust) == {}
    source = rig.write(rig.base / "source" / "stranger")
    for _ in range(2):
        rig.trust.install(str(source))
        rig.approve()
        (approved,) = rig.trust.ready()
        assert approved.config == KEPT
        assert rig.trust.remove("stranger") is True
        assert states(rig.trust) == {}
        assert registry.read_text() == CONFIG
    with pytest.raises(NotFoundError):
        rig.trust.remove("stranger")
    assert registry.read_text() == CONFIG


@pytest.mark.parametrize("left", ["what Python leaves", "its own files"])
def test_what_was_removed_can_be_installed_where_its_folder_stayed(rig, left):
    source = rig.write(rig.base / "source" / "stranger")
    if left == "its own files":
        rig.write()
        rig.approve()
    else:
        rig.trust.install(str(source))
        (rig.folder / "__pycache__").mkdir()
        (rig.folder / "__pycache__/module.cpython-311.pyc").write_bytes(b"x")
    assert rig.trust.remove("stranger") is (left == "what Python leaves")

    rig.trust.install(str(source))

    assert states(rig.trust) == {"stranger": "new"}
