"""First sight never runs; what was shown is what is approved; what was approved is what runs."""

from __future__ import annotations

import itertools
import os
from pathlib import Path
from types import SimpleNamespace

import pytest

from parachuted.errors import NotFoundError, OutdatedError, ParachuteError, UntrustedError
from parachuted.modules.registry import module_folders
from parachuted.modules.registry.approvals import ModuleApprovals
from parachuted.modules.registry.approved import approval_digest, check_trust, is_no_wider
from parachuted.modules.registry.copies import read_tree
from parachuted.modules.registry.manifest import read_manifest
from parachuted.modules.registry.prompts import ModulePrompts
from tests.modules.stranger import CODE, MANIFEST, SAID, UntrustedRig, loaded


@pytest.fixture
def module_rig(tmp_path, home, vault) -> UntrustedRig:
    return UntrustedRig(base=tmp_path, home=home, vault=vault)


PLAIN = "name: bot\nversion: 0.1.0\nmodule: module.py\n"
TREE = "sha256:" + "1" * 64


def states(trust: ModuleApprovals) -> dict[str, str]:
    return {entry.name: entry.state for entry in trust.entries()}


def test_a_folder_that_appears_is_shown_and_does_not_run(module_rig):
    assert module_rig.trust.entries() == []
    module_rig.write()

    assert states(module_rig.trust) == {"stranger": "new"}
    assert module_rig.run() == []
    with pytest.raises(OutdatedError, match="never approved"):
        module_rig.trust.enable("stranger")
    assert module_rig.run() == []


def test_what_was_shown_is_approved_and_runs_and_is_remembered(module_rig):
    module_rig.write()
    consent = module_rig.trust.consent("stranger")
    entry = module_rig.trust.approve("stranger", consent.digest)

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
        == read_tree(module_rig.folder).digest
    )
    assert module_rig.run() == [SAID]
    one = module_rig.ready()
    assert one.copy.is_relative_to(module_rig.home)
    assert one.manifest.permissions.read == ("Notes/**",)


def test_what_changed_since_it_was_shown_is_not_approved(module_rig):
    module_rig.write()
    digest = module_rig.trust.consent("stranger").digest
    (module_rig.folder / "words.py").write_text(module_rig.payload)
    with pytest.raises(OutdatedError, match="changed since it was shown"):
        module_rig.trust.approve("stranger", digest)

    assert module_rig.run() == []
    assert module_rig.trust.entry("stranger").approved_digest is None
    assert not (module_rig.home / "modules.yaml").exists()


def test_a_changed_module_runs_as_approved_until_the_change_is_approved(module_rig):
    module_rig.write()
    module_rig.approve()
    (module_rig.folder / "words.py").write_text("SAID = 'newly '\n")
    assert states(module_rig.trust) == {"stranger": "changed"}
    assert module_rig.run() == [SAID]
    consent, diff = module_rig.trust.review("stranger")
    assert "-SAID = 'as '\n+SAID = 'newly '\n" in diff
    assert consent.added == ()

    module_rig.trust.approve("stranger", consent.digest)
    assert module_rig.run() == ["newly approved"]
    assert module_rig.trust.review("stranger")[1] == ""


def test_what_a_change_asks_for_more_is_distinguished(module_rig):
    module_rig.write()
    module_rig.approve()
    (module_rig.folder / "manifest.yaml").write_text(
        MANIFEST.replace("[Notes/**]", "[Notes/**, Diary/**]")
    )

    assert module_rig.trust.consent("stranger").added == ("reads     | Diary/**",)
    assert module_rig.ready().manifest.permissions.read == ("Notes/**",)


def test_each_part_counts_and_the_order_of_the_lock_does_not():
    plain, wider = read_manifest(PLAIN), read_manifest(PLAIN + "permissions: {read: [Work/**]}\n")
    digests = {
        approval_digest(TREE, plain, []),
        approval_digest("sha256:" + "2" * 64, plain, []),
        approval_digest(TREE, wider, []),
        approval_digest(TREE, plain, ["a==1"]),
        approval_digest(TREE, plain, ["a==1", "b==1"]),
        approval_digest(TREE, plain, ["b==1", "a==1"]),
    }
    assert len(digests) == 5


@pytest.mark.parametrize("right", ["folders: [~/Projects]", "hooks: [stop.before]", "people: true"])
def test_a_later_right_counts_where_it_is_asked_for(right):
    plain = approval_digest(TREE, read_manifest(PLAIN), [])
    more = read_manifest(PLAIN + f"permissions: {{{right}}}\n")

    assert plain == "sha256:622f7ac4fd32426a01b837eab68cc1bb54116c83ab79270c599e8163d0f21ed1"
    assert approval_digest(TREE, more, []) != plain


@pytest.mark.parametrize(
    ("more", "is_same"),
    [
        ("description: other\nprovides: [X]\n", True),
        ("permissions: {read: [Work/**]}\n", False),
        ("permissions: {folders: [~/Projects]}\n", False),
        ("permissions: {hooks: [prompt.before]}\n", False),
        ("dependencies: [httpx]\n", False),
        ("agents: {a: {paths: [Work/]}}\n", False),
    ],
)
def test_only_code_may_change_unasked_under_development(more, is_same):
    assert is_no_wider(read_manifest(PLAIN + more), read_manifest(PLAIN)) is is_same


@pytest.mark.parametrize(
    ("asked", "says"),
    [
        ("read: [Work/], hooks: [prompt.before]", r"whose permissions read `\*\*`"),
        ("people: true", "modules approve bot --trust trusted"),
    ],
)
def test_who_is_not_trusted_acts_for_no_one_and_hears_no_words_of_any_note(asked, says):
    manifest = read_manifest(PLAIN + f"permissions: {{{asked}}}\n")

    check_trust(manifest, "trusted")
    check_trust(
        read_manifest(PLAIN + "permissions: {read: ['**'], hooks: [prompt.before]}\n"), "untrusted"
    )
    with pytest.raises(OutdatedError, match=says):
        check_trust(manifest, "untrusted")


def test_disabled_does_not_run_and_enabled_runs_again(module_rig):
    module_rig.write()
    module_rig.approve()
    assert not module_rig.trust.disable("stranger").enabled
    assert module_rig.run() == []
    module_rig.trust.approve("stranger", module_rig.trust.consent("stranger").digest)
    assert module_rig.run() == []  # to approve is not to enable, but for the first time
    assert module_rig.trust.enable("stranger").enabled
    assert module_rig.run() == [SAID]


def test_a_folder_that_is_gone_is_missing_and_the_approved_copy_runs(module_rig):
    module_rig.write()
    module_rig.approve()
    module_rig.folder.rename(module_rig.base / "gone")

    assert states(module_rig.trust) == {"stranger": "missing"}
    assert module_rig.run() == [SAID]


def test_removing_forgets_and_leaves_what_a_person_made(module_rig):
    module_rig.write()
    module_rig.approve()
    assert module_rig.trust.remove("stranger") is False

    assert module_rig.folder.exists()
    assert states(module_rig.trust) == {"stranger": "new"}
    assert not (module_rig.home / "modules" / "stranger").exists()
    assert module_rig.run() == []


def test_removing_takes_what_install_put_there_unless_it_was_changed(module_rig):
    source = module_rig.write(module_rig.base / "source" / "stranger")
    module_rig.trust.install(str(source))
    assert module_rig.trust.remove("stranger") is True
    assert not module_rig.folder.exists()
    module_rig.trust.install(str(source))
    (module_rig.folder / "notes.txt").write_text("mine")
    assert module_rig.trust.remove("stranger") is False
    assert (module_rig.folder / "notes.txt").exists()


def test_installing_shows_and_approves_nothing(module_rig):
    source = module_rig.write(module_rig.base / "source" / "stranger")
    entry, consent = module_rig.trust.install(str(source)), module_rig.trust.consent("stranger")
    assert (entry.state, entry.enabled, entry.approved_digest) == ("new", False, None)
    assert consent.digest == entry.found_digest
    assert module_rig.run() == []
    module_rig.trust.approve("stranger", consent.digest)
    assert module_rig.run() == [SAID]

    (source / "words.py").write_text("SAID = 'later '\n")
    entry = module_rig.trust.install(str(source))
    assert (entry.state, entry.enabled) == ("changed", True)
    assert module_rig.run() == [SAID]
    with pytest.raises(ParachuteError, match="already"):
        module_rig.trust.install(str(module_rig.write(module_rig.base / "another" / "stranger")))


def test_installing_again_does_not_take_what_a_person_wrote_there(module_rig):
    source = module_rig.write(module_rig.base / "source" / "stranger")
    module_rig.trust.install(str(source))
    (module_rig.folder / "words.py").write_text("SAID = 'my own work'\n")
    with pytest.raises(OutdatedError, match="would be lost"):
        module_rig.trust.install(str(source))
    assert (module_rig.folder / "words.py").read_text() == "SAID = 'my own work'\n"

    module_rig.folder.rename(module_rig.base / "away")
    module_rig.trust.install(str(source))
    assert states(module_rig.trust) == {"stranger": "new"}


def test_what_a_person_added_to_the_prompts_outlives_an_approval(module_rig):
    module_rig.write()
    module_rig.approve()
    ModulePrompts(module_rig.home).put("stranger", "Be brief.")
    (module_rig.folder / "words.py").write_text("SAID = 'newly '\n")
    module_rig.approve()

    assert ModulePrompts(module_rig.home).get("stranger") == "Be brief."


def test_the_bytes_of_this_version_alone_make_it_verified(module_rig):
    module_rig.trust.install("parachute://brain")
    assert module_rig.trust.consent("brain").trust == "verified"
    assert module_rig.trust.consent("brain", "untrusted").trust == "untrusted"
    assert module_rig.trust.consent("brain", "trusted").trust == "verified"
    assert module_rig.approve("brain").trust == "verified"

    module_rig.write()
    with pytest.raises(OutdatedError, match="none of the modules of this version"):
        module_rig.trust.consent("stranger", "verified")
    file = module_rig.vault / "Modules/brain/module.py"
    file.write_text(file.read_text() + "# more\n")
    assert module_rig.trust.consent("brain").trust == "untrusted"
    assert module_rig.ready("brain").trust == "verified"
    assert module_rig.approve("brain").trust == "untrusted"
    assert "not verified" in module_rig.trust.entry("brain").notes[0]


def test_trust_is_what_a_person_says(module_rig):
    module_rig.write()
    module_rig.approve()
    digest = module_rig.trust.consent("stranger").digest
    assert module_rig.trust.approve("stranger", digest, trust="trusted").trust == "trusted"
    assert module_rig.ready().trust == "trusted"
    (module_rig.folder / "words.py").write_text("SAID = 'still '\n")
    assert module_rig.approve().trust == "trusted"


def test_a_ledger_that_cannot_be_trusted_lets_nothing_run_and_says_so(module_rig):
    module_rig.write()
    module_rig.approve()
    registry = module_rig.home / "modules.yaml"
    text = registry.read_text()
    for spoil in (
        lambda: registry.chmod(0o666),
        lambda: registry.write_text(text[: len(text) // 2]),
        lambda: registry.write_text("modules: ["),
    ):
        spoil()
        trust = module_rig.again()
        assert module_rig.run() == []
        assert "no module runs" in (trust.problem or "")
        assert [(entry.state, entry.enabled) for entry in trust.entries()] == [("broken", False)]
        with pytest.raises(UntrustedError):
            trust.approve("stranger", "sha256:")
        registry.chmod(0o600)
        registry.write_text(text)
    assert module_rig.run() == [SAID]
    assert module_rig.trust.problem is None


def test_one_entry_that_is_wrong_stops_that_module_alone(module_rig):
    module_rig.write()
    module_rig.approve()
    registry = module_rig.home / "modules.yaml"
    registry.write_text(registry.read_text().replace("...\n", "  other: {enabled: maybe}\n...\n"))

    assert module_rig.run() == [SAID]
    assert states(module_rig.trust) == {"stranger": "approved", "other": "broken"}
    assert "valid boolean" in (module_rig.trust.entry("other").problem or "")


def test_what_a_person_writes_into_an_entry_reaches_who_runs_it(module_rig):
    module_rig.write()
    module_rig.approve()
    registry = module_rig.home / "modules.yaml"
    more = "    config: {colour: red}\n    agents: {a: {paths: [X/]}}\n...\n"
    registry.write_text(registry.read_text().replace("...\n", more))
    one = module_rig.ready()
    assert (one.config, one.overrides) == ({"colour": "red"}, {"a": {"paths": ["X/"]}})
    (module_rig.folder / "words.py").write_text("SAID = 'x '\n")
    assert module_rig.approve().config == {"colour": "red"}


def test_two_copies_are_kept_and_older_ones_go(module_rig):
    for number in range(4):
        module_rig.write(**{"words.py": f"SAID = '{number} '\n"})
        one = module_rig.approve()

    kept = [folder.name for folder in (module_rig.home / "modules" / "stranger").iterdir()]
    assert len(kept) == 2
    assert one.copy.name in kept


def test_a_look_sees_what_changed_since_the_last(module_rig, monkeypatch):
    hours = itertools.count(1e9, 3600.0)  # files that were looked at a moment ago are left out
    monkeypatch.setattr(module_folders, "time", SimpleNamespace(monotonic=lambda: next(hours)))
    module_rig.write()
    assert module_rig.trust.look() == frozenset()
    assert module_rig.trust.look() == frozenset()
    (module_rig.folder / "deep" / "inner.py").write_text("SAID = 'x'\n")
    assert module_rig.trust.look() == {"stranger"}
    assert module_rig.trust.look() == frozenset()
    module_rig.approve()
    assert module_rig.trust.look() == {"stranger"}
    module_rig.write(module_rig.folder.with_name("other"))
    assert module_rig.trust.look() == {"other"}


def test_no_one_learns_of_modules_that_do_not_exist(module_rig):
    for act in (
        module_rig.trust.consent,
        module_rig.trust.entry,
        module_rig.trust.remove,
        module_rig.trust.disable,
    ):
        for name in ("nothing", "../../etc", ""):
            with pytest.raises(NotFoundError):
                act(name)


def test_a_reserved_name_and_a_wrong_name_are_refused(module_rig):
    module_rig.trust = ModuleApprovals(
        module_rig.home, module_rig.vault, env=os.environ, reserved=("stranger",)
    )
    module_rig.write()
    with pytest.raises(ParachuteError):
        module_rig.trust.consent("stranger")
    module_rig.trust = module_rig.again()
    module_rig.write(module_rig.folder.with_name("other"))
    with pytest.raises(OutdatedError, match="the two must agree"):
        module_rig.trust.consent("other")


class TestUnderDevelopment:
    @pytest.fixture
    def source(self, module_rig):
        return module_rig.write(module_rig.base / "work" / "stranger")

    def test_an_edit_runs_at_once(self, module_rig, source):
        entry = module_rig.trust.install(str(source), dev=True)
        consent = module_rig.trust.consent("stranger")
        assert (entry.is_dev, entry.folder, entry.trust, entry.state) == (
            True,
            source,
            "trusted",
            "new",
        )
        assert not (module_rig.vault / "Modules").exists()
        assert module_rig.run() == []
        module_rig.trust.approve("stranger", consent.digest)
        assert module_rig.run() == [SAID]
        (source / "words.py").write_text("SAID = 'edited and '\n")
        (source / "__pycache__").mkdir()
        assert module_rig.trust.look() == frozenset()
        assert module_rig.run() == ["edited and approved"]
        assert states(module_rig.trust) == {"stranger": "approved"}

    def test_an_edit_that_asks_for_more_waits(self, module_rig, source):
        module_rig.trust.install(str(source), dev=True)
        module_rig.approve()
        (source / "words.py").write_text("SAID = 'edited and '\n")
        (source / "manifest.yaml").write_text(MANIFEST.replace("[Notes/**]", "['**']"))
        one = module_rig.ready()

        with loaded(one) as cls:
            assert cls.said == SAID
        assert "other permissions" in (module_rig.trust.entry("stranger").problem or "")

    def test_an_edit_that_is_wrong_leaves_the_last_one_running(self, module_rig, source):
        module_rig.trust.install(str(source), dev=True)
        module_rig.approve()
        (source / "manifest.yaml").write_text("name: [")
        assert module_rig.run() == [SAID]

    def test_it_cannot_be_in_the_vault_or_become_a_link_into_it(self, module_rig, source):
        module_rig.write()
        with pytest.raises(OutdatedError, match="cannot be in the vault"):
            module_rig.trust.install(str(module_rig.folder), dev=True)
        with pytest.raises(OutdatedError, match="cannot be in the vault"):
            module_rig.trust.install(str(module_rig.write(module_rig.home / "stranger")), dev=True)
        module_rig.trust.install(str(source), dev=True)
        module_rig.approve()
        (module_rig.folder / "words.py").write_text(module_rig.payload)
        source.rename(module_rig.base / "kept")
        source.symlink_to(module_rig.folder)
        assert module_rig.run() == [SAID]
        source.parent.rename(module_rig.base / "parent")
        source.parent.symlink_to(module_rig.folder.parent)

        assert module_rig.run() == [SAID]
        assert not module_rig.mark.exists()

    def test_others_may_not_write_there(self, module_rig, source):
        source.chmod(0o777)
        with pytest.raises(OutdatedError, match="others may write"):
            module_rig.trust.install(str(source), dev=True)

    def test_removing_leaves_the_folder(self, module_rig, source):
        module_rig.trust.install(str(source), dev=True)
        assert module_rig.trust.remove("stranger") is False
        assert (source / "module.py").read_text() == CODE
        assert module_rig.trust.entries() == []


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


def write_config(module_rig: UntrustedRig) -> Path:
    registry = module_rig.home / "modules.yaml"
    registry.write_text(CONFIG)
    registry.chmod(0o600)
    return registry


def test_values_of_config_keep_their_kinds_through_approval_and_removal(module_rig):
    registry = write_config(module_rig)
    assert states(module_rig.trust) == {}
    source = module_rig.write(module_rig.base / "source" / "stranger")
    for _ in range(2):
        module_rig.trust.install(str(source))
        module_rig.approve()
        (approved,) = module_rig.trust.ready()
        assert approved.config == KEPT
        assert module_rig.trust.remove("stranger") is True
        assert states(module_rig.trust) == {}
        assert registry.read_text() == CONFIG
    with pytest.raises(NotFoundError):
        module_rig.trust.remove("stranger")
    assert registry.read_text() == CONFIG


@pytest.mark.parametrize("left", ["what Python leaves", "its own files"])
def test_what_was_removed_can_be_installed_again_also_where_its_folder_stayed(module_rig, left):
    source = module_rig.write(module_rig.base / "source" / "stranger")
    if left == "its own files":
        module_rig.write()
        module_rig.approve()
    else:
        module_rig.trust.install(str(source))
        (module_rig.folder / "__pycache__").mkdir()
        (module_rig.folder / "__pycache__/module.cpython-311.pyc").write_bytes(b"x")
    assert module_rig.trust.remove("stranger") is (left == "what Python leaves")

    module_rig.trust.install(str(source))

    assert states(module_rig.trust) == {"stranger": "new"}
