"""A module's files come to the vault from git, from a folder, from the package: nothing of them
runs on the way.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from parachuted.errors import ParachuteError, UnfitError
from parachuted.modules.registry.copies import read_tree
from parachuted.modules.registry.install import fetched, manifest_of, place, unplace
from tests.modules.stranger import UntrustedRig


@pytest.fixture
def module_rig(tmp_path, home, vault) -> UntrustedRig:
    return UntrustedRig(base=tmp_path, home=home, vault=vault)


def git(folder: Path, *words: str) -> str:
    settings = ("-c", "user.name=x", "-c", "user.email=x@e.org", "-c", "protocol.file.allow=always")
    return subprocess.run(
        ["git", *settings, *words], cwd=folder, check=True, capture_output=True, text=True
    ).stdout.strip()


def repository(folder: Path) -> None:
    git(folder, "init", "-q")
    git(folder, "add", ".")
    git(folder, "commit", "-qm", "first")


@pytest.fixture
def published(module_rig) -> Path:
    """A repository with all that could run on a clone: hooks, a template, filters, a submodule."""
    work = module_rig.write(module_rig.base / "work" / "stranger")
    inner = module_rig.base / "inner"
    inner.mkdir()
    (inner / "x").write_text("x")
    for folder in (inner, work):
        repository(folder)
    git(work, "submodule", "--quiet", "add", inner.as_uri(), "sub")
    (work / ".gitattributes").write_text("*.py filter=evil\n")
    git(work, "add", ".")
    git(work, "commit", "-qm", "second")
    bare = module_rig.base / "stranger.git"
    git(module_rig.base, "clone", "-q", "--bare", str(work), str(bare))
    return bare


def install(
    module_rig: UntrustedRig, source: str, path: str | None = None, **env: str
) -> tuple[str, str | None]:
    with fetched(source, {**os.environ, **env}, path=path) as found:
        manifest = manifest_of(found, ())
        place(found, module_rig.vault, manifest.name, may_replace=False)
        return found.source, found.commit


@pytest.mark.parametrize("form", ["path", "file://"])
def test_a_repository_is_cloned_at_a_recorded_commit(module_rig, published, form):
    source, commit = install(module_rig, str(published) if form == "path" else published.as_uri())

    assert commit == git(module_rig.base / "work/stranger", "rev-parse", "HEAD")
    assert (module_rig.folder / "words.py").read_text() == "SAID = 'as '\n"
    assert (module_rig.folder / "run.sh").stat().st_mode & 0o111
    assert not (module_rig.folder / ".git").exists()
    assert (
        list((module_rig.folder / "sub").iterdir() if (module_rig.folder / "sub").exists() else [])
        == []
    )
    assert "stranger.git" in source


def test_neither_the_repositorys_nor_the_persons_own_settings_run_anything(module_rig, published):
    mark = module_rig.base / "it ran"
    person = module_rig.base / "person"
    (person / "template" / "hooks").mkdir(parents=True)
    (person / "hooks").mkdir()
    for hook in (
        person / "hooks" / "post-checkout",
        person / "template" / "hooks" / "post-checkout",
        published / "hooks" / "post-checkout",
    ):
        hook.write_text(f"#!/bin/sh\ntouch '{mark}'\n")
        hook.chmod(0o755)
    lines = f"""
[core]
  hooksPath = {person}/hooks
  fsmonitor = touch '{mark}'
[init]
  templateDir = {person}/template
[filter "evil"]
  smudge = "touch '{mark}'; cat"
  required = true
[credential]
  helper = "!touch '{mark}'"
"""
    (person / ".gitconfig").write_text(lines)
    install(
        module_rig,
        str(published),
        HOME=str(person),
        GIT_TEMPLATE_DIR=str(person / "template"),
        GIT_CONFIG_GLOBAL=str(person / ".gitconfig"),
    )

    assert not mark.exists()
    assert (module_rig.folder / "words.py").exists()


def test_a_folder_of_a_repository_can_be_named(module_rig):
    module_rig.write(module_rig.base / "many" / "parts" / "stranger")
    repository(module_rig.base / "many")
    source, _commit = install(
        module_rig, (module_rig.base / "many").as_uri(), path="parts/stranger"
    )

    assert source.endswith("many parts/stranger")
    assert (module_rig.folder / "module.py").exists()


@pytest.mark.parametrize("path", ["../x", "a/../../x", "a//b", ".git"])
def test_a_folder_outside_of_the_source_cannot(module_rig, published, path):
    with pytest.raises(UnfitError, match="not a folder inside"):
        install(module_rig, str(published), path=path)


def test_a_link_in_a_repository_is_not_followed(module_rig):
    work = module_rig.base / "links"
    work.mkdir()
    module_rig.write(module_rig.base / "real")
    (work / "stranger").symlink_to(module_rig.base / "real")
    repository(work)
    with pytest.raises(UnfitError, match="is a link"):
        install(module_rig, work.as_uri(), path="stranger")


@pytest.mark.parametrize(
    "source",
    [
        *(
            "ext::sh -c 'touch x'",
            "http://example.org/x.git",
            "git://example.org/x",
            "fd::17",
            "file://\n/x",
            "parachute://../daily",
        ),
        *(
            "parachute://nothing",
            "/nowhere/at/all",
            "--upload-pack=touch x",
            "-x@y:z",
            "https://me:secret@example.org/x.git",
            "",
        ),
    ],
)
def test_what_is_not_a_source_is_refused_and_nothing_is_written(module_rig, source):
    with pytest.raises(ParachuteError) as refused:
        install(module_rig, source)

    assert "secret" not in str(refused.value)
    assert list(module_rig.vault.rglob("*")) == []


@pytest.mark.parametrize("name", ["chat", "daily", "Brain"])
def test_the_bare_name_of_an_official_module_is_answered_with_what_to_write(module_rig, name):
    with pytest.raises(UnfitError, match=f"install parachute://{name.lower()}`"):
        install(module_rig, name)


def test_a_clone_that_fails_says_so_in_gits_words(module_rig):
    with pytest.raises(UnfitError, match="git could not get it"):
        install(module_rig, (module_rig.base / "nothing.git").as_uri())


def test_a_folder_is_copied_without_its_litter(module_rig):
    folder = module_rig.write(module_rig.base / "mine")
    (folder / ".git").mkdir()
    (folder / "__pycache__").mkdir()
    (folder / "__pycache__" / "words.pyc").write_text("")
    source, commit = install(module_rig, str(folder))

    assert (source, commit) == (f"file://{folder}", None)
    assert not {".git", "__pycache__"} & {path.name for path in module_rig.folder.iterdir()}
    assert [path.name for path in (module_rig.vault / "Modules").iterdir()] == ["stranger"]


def test_another_module_of_that_name_is_not_written_over(module_rig):
    module_rig.write()
    before = read_tree(module_rig.folder).digest
    other = module_rig.write(
        module_rig.base / "mine", words__py="", **{"words.py": "SAID = 'other'\n"}
    )
    with pytest.raises(UnfitError, match="another Modules/stranger already"):
        install(module_rig, str(other))

    assert read_tree(module_rig.folder).digest == before
    assert [path.name for path in (module_rig.vault / "Modules").iterdir()] == ["stranger"]
    with fetched(str(other), os.environ) as found:
        place(found, module_rig.vault, "stranger", may_replace=True)
    assert "other" in (module_rig.folder / "words.py").read_text()
    assert [path.name for path in (module_rig.vault / "Modules").iterdir()] == ["stranger"]


def test_nothing_is_written_through_a_link_that_stands_for_the_folder_of_modules(module_rig):
    away = module_rig.base / "away"
    away.mkdir()
    (module_rig.vault / "Modules").symlink_to(away)
    with pytest.raises(UnfitError, match="is a link"):
        install(module_rig, str(module_rig.write(module_rig.base / "mine")))

    assert list(away.iterdir()) == []


def test_a_folder_without_a_manifest_is_not_a_module(module_rig):
    (module_rig.base / "empty").mkdir()
    with pytest.raises(UnfitError, match=r"has no manifest.yaml"):
        install(module_rig, str(module_rig.base / "empty"))


def test_what_was_placed_can_be_taken_away(module_rig):
    module_rig.write()
    unplace(module_rig.vault, "stranger")
    assert list((module_rig.vault / "Modules").iterdir()) == []
    unplace(module_rig.vault, "stranger")


def test_what_git_says_of_a_folder_that_is_not_a_repository_does_not_name_it(tmp_path):
    (tmp_path / "notes.md").write_text("x")
    with (
        pytest.raises(UnfitError, match="git could not get it") as reported,
        fetched(f"file://{tmp_path}/notes.md", os.environ),
    ):
        pass
    assert str(tmp_path) not in str(reported.value)


def test_a_clone_reads_no_settings_of_the_repository_in_which_the_person_stands(
    module_rig, published, monkeypatch
):
    here = module_rig.base / "here"
    here.mkdir()
    git(here, "init", "-q")
    ran = module_rig.base / "ran"
    trap = module_rig.base / "trap"
    trap.write_text(f"#!/bin/sh\ntouch {ran}\n")
    trap.chmod(0o700)
    git(here, "config", f"url.{module_rig.base.as_uri()}/elsewhere.insteadOf", published.as_uri())
    for setting in (
        "core.fsmonitor",
        "core.sshCommand",
        "remote.origin.uploadpack",
        "filter.evil.smudge",
        "core.pager",
        "trace2.eventTarget",
    ):
        git(here, "config", setting, str(trap))
    monkeypatch.chdir(here)
    install(module_rig, published.as_uri())

    assert (module_rig.folder / "module.py").is_file()
    assert not ran.exists()


@pytest.mark.parametrize("form", ["tag", "branch", "commit"])
def test_a_tag_a_branch_and_a_commit_of_a_repository_can_be_named(module_rig, published, form):
    work = module_rig.base / "work/stranger"
    first = git(work, "rev-parse", "HEAD")
    git(published, "tag", "v1.0.0", first)
    git(published, "branch", "old", first)
    (work / "words.py").write_text("SAID = 'new '\n")
    git(work, "commit", "-qam", "third")
    git(work, "push", "-q", str(published), "HEAD")
    ref = {"tag": "v1.0.0", "branch": "old", "commit": first}[form]

    source, commit = install(module_rig, f"{published.as_uri()}#{ref}")

    assert (commit, source) == (first, f"{published.as_uri()}#{ref}")
    assert (module_rig.folder / "words.py").read_text() == "SAID = 'as '\n"


@pytest.mark.parametrize("source", ["\0", "~no-such-user/module", "x" * 5000, "\ud800"])
def test_what_can_be_no_path_is_no_folder(module_rig, source):
    with pytest.raises(UnfitError, match="is not a folder, a git address"):
        module_rig.trust.install(source)


@pytest.mark.parametrize(
    ("ref", "says"),
    [("nothing", "git could not get it"), ("-x", "is not a tag"), ("a..b", "is not a tag")],
)
def test_what_is_not_a_tag_of_it_installs_nothing(module_rig, published, ref, says):
    with pytest.raises(UnfitError, match=says):
        install(module_rig, f"{published.as_uri()}#{ref}")

    assert not module_rig.folder.exists()


def test_another_tag_of_the_same_repository_takes_the_place_of_the_first(module_rig, published):
    work = module_rig.base / "work/stranger"
    git(published, "tag", "v1", git(work, "rev-parse", "HEAD"))
    module_rig.trust.install(f"{published.as_uri()}#v1")
    (work / "words.py").write_text("SAID = 'new '\n")
    git(work, "commit", "-qam", "third")
    git(work, "push", "-q", str(published), "HEAD", "HEAD:refs/tags/v2")

    entry = module_rig.trust.install(f"{published.as_uri()}#v2")
    consent = module_rig.trust.consent("stranger")

    assert (entry.source, consent.commit) == (
        f"{published.as_uri()}#v2",
        git(work, "rev-parse", "HEAD"),
    )
    assert (module_rig.folder / "words.py").read_text() == "SAID = 'new '\n"
