"""A module's files come to the vault from git, from a folder, from the package: nothing of them
runs on the way.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from parachuted.errors import ParachuteError, UnfitError
from parachuted.modules.registry.copies import read_tree
from parachuted.modules.registry.install import LITTER, fetched, manifest_of, place
from tests.modules.stranger import UntrustedRig


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
def published(rig) -> Path:
    """A repository with all that could run on a clone: hooks, a template, filters, a submodule."""
    work = rig.write(rig.base / "work" / "stranger")
    inner = rig.base / "inner"
    inner.mkdir()
    (inner / "x").write_text("x")
    for folder in (inner, work):
        repository(folder)
    git(work, "submodule", "--quiet", "add", inner.as_uri(), "sub")
    (work / ".gitattributes").write_text("*.py filter=evil\n")
    git(work, "add", ".")
    git(work, "commit", "-qm", "second")
    bare = rig.base / "stranger.git"
    git(rig.base, "clone", "-q", "--bare", str(work), str(bare))
    return bare


def install(
    rig: UntrustedRig, source: str, path: str | None = None, **env: str
) -> tuple[str, str | None]:
    with fetched(source, {**os.environ, **env}, path=path) as found:
        manifest = manifest_of(read_tree(found.folder, ignored=LITTER), ())
        place(found, rig.vault, manifest.name)
        return found.source, found.commit


def test_a_repository_is_cloned_at_a_recorded_commit(rig, published):
    source, commit = install(rig, published.as_uri())

    assert (source, commit) == (
        published.as_uri(),
        git(rig.base / "work/stranger", "rev-parse", "HEAD"),
    )
    assert (rig.folder / "words.py").read_text() == "SAID = 'as '\n"
    assert (rig.folder / "run.sh").stat().st_mode & 0o111
    assert not (rig.folder / ".git").exists()
    assert list((rig.folder / "sub").glob("*")) == []
    assert [path.name for path in (rig.vault / "Modules").iterdir()] == ["stranger"]


def test_no_settings_of_a_repository_a_person_or_a_folder_run_anything(rig, published, monkeypatch):
    mark, person, here = rig.base / "it ran", rig.base / "person", rig.base / "here"
    trap = f"#!/bin/sh\ntouch '{mark}'\n"
    for hooks in (person / "hooks", person / "template" / "hooks", published / "hooks"):
        hooks.mkdir(parents=True, exist_ok=True)
        (hooks / "post-checkout").write_text(trap)
        (hooks / "post-checkout").chmod(0o755)
    settings = {
        "core.hooksPath": str(person / "hooks"),
        "core.fsmonitor": f"touch '{mark}'",
        "core.sshCommand": f"touch '{mark}'",
        "core.pager": f"touch '{mark}'",
        "init.templateDir": str(person / "template"),
        "filter.evil.smudge": f"touch '{mark}'; cat",
        "filter.evil.required": "true",
        "credential.helper": f"!touch '{mark}'",
        f"url.{rig.base.as_uri()}/elsewhere.insteadOf": published.as_uri(),
    }
    here.mkdir()
    git(here, "init", "-q")
    for name, value in settings.items():
        git(here, "config", name, value)
        git(here, "config", "--file", str(person / ".gitconfig"), name, value)
    monkeypatch.chdir(here)
    install(
        rig,
        published.as_uri(),
        HOME=str(person),
        GIT_TEMPLATE_DIR=str(person / "template"),
        GIT_CONFIG_GLOBAL=str(person / ".gitconfig"),
    )

    assert not mark.exists()
    assert (rig.folder / "words.py").exists()


def test_a_folder_of_a_repository_can_be_named_and_none_outside_of_it(rig):
    rig.write(rig.base / "many" / "parts" / "stranger")
    (rig.base / "many" / "link").symlink_to("parts/stranger")
    repository(rig.base / "many")
    many = (rig.base / "many").as_uri()
    for path in ("../x", "a/../../x", "/a", ".git"):
        with pytest.raises(UnfitError, match="not a folder inside"):
            install(rig, many, path=path)
    with pytest.raises(UnfitError, match="is a link"):
        install(rig, many, path="link")

    source, _commit = install(rig, many, path="parts/stranger")

    assert source.endswith("many parts/stranger")
    assert (rig.folder / "module.py").exists()


NO_SOURCES = (
    *("ext::sh -c 'touch x'", "http://example.org/x.git", "git://example.org/x", "fd::17"),
    *("file://\n/x", "parachute://../daily", "parachute://nothing", "/nowhere/at/all", ""),
    *("--upload-pack=touch x", "-x@y:z", "https://me:secret@example.org/x.git"),
    *("\0", "~no-such-user/module", "x" * 5000, "\ud800"),
)


@pytest.mark.parametrize("source", NO_SOURCES, ids=lambda source: ascii(source)[:30])
def test_what_is_not_a_source_is_refused_and_nothing_is_written(rig, source):
    with pytest.raises(ParachuteError) as refused:
        rig.trust.install(source)

    assert "secret" not in str(refused.value)
    assert "is not a folder, an address of git" in str(refused.value)
    assert list(rig.vault.rglob("*")) == []


def test_a_folder_without_a_manifest_and_a_clone_that_fails_are_reported(rig):
    (rig.base / "empty").mkdir()
    with pytest.raises(UnfitError, match=r"has no manifest.yaml"):
        install(rig, str(rig.base / "empty"))
    with pytest.raises(UnfitError, match="does not appear to be a git repository"):
        install(rig, (rig.base / "nothing.git").as_uri())


def test_a_folder_is_copied_without_its_litter(rig):
    folder = rig.write(rig.base / "mine")
    (folder / ".git").mkdir()
    (folder / "__pycache__").mkdir()
    (folder / "__pycache__" / "words.pyc").write_text("")
    source, commit = install(rig, str(folder))

    assert (source, commit) == (f"file://{folder}", None)
    assert not {".git", "__pycache__"} & {path.name for path in rig.folder.iterdir()}
    assert [path.name for path in (rig.vault / "Modules").iterdir()] == ["stranger"]


def test_other_files_than_were_installed_are_not_written_over(rig):
    rig.write()
    before = read_tree(rig.folder).digest
    other = str(rig.write(rig.base / "mine", **{"words.py": "SAID = 'other'\n"}))
    with pytest.raises(UnfitError, match="Modules/stranger holds other files"):
        install(rig, other)

    assert read_tree(rig.folder).digest == before
    with fetched(other, os.environ) as found:
        for _ in range(2):  # what is there already may be put there again
            place(found, rig.vault, "stranger", before)
    assert "other" in (rig.folder / "words.py").read_text()
    assert [path.name for path in (rig.vault / "Modules").iterdir()] == ["stranger"]


def test_nothing_is_written_through_a_link_in_place_of_the_modules_folder(rig):
    away = rig.base / "away"
    away.mkdir()
    (rig.vault / "Modules").symlink_to(away)
    with pytest.raises(UnfitError, match="is a link"):
        install(rig, str(rig.write(rig.base / "mine")))

    assert list(away.iterdir()) == []


def test_a_tag_a_branch_and_a_commit_of_a_repository_can_be_named(rig, published):
    work, url = rig.base / "work/stranger", published.as_uri()
    first = git(work, "rev-parse", "HEAD")
    git(published, "tag", "v1.0.0", first)
    git(published, "branch", "old", first)
    (work / "words.py").write_text("SAID = 'new '\n")
    git(work, "commit", "-qam", "third")
    git(work, "push", "-q", str(published), "HEAD", "HEAD:refs/tags/v2")
    for ref, says in (
        ("nothing", "find remote ref nothing"),
        ("-x", "# before a tag"),
        ("a..b", "git failed"),
    ):
        with pytest.raises(UnfitError, match=says):
            install(rig, f"{url}#{ref}")
        assert not rig.folder.exists()
    for ref in ("v1.0.0", "old", first):
        assert install(rig, f"{url}#{ref}") == (f"{url}#{ref}", first)
        assert (rig.folder / "words.py").read_text() == "SAID = 'as '\n"
        shutil.rmtree(rig.folder)

    rig.trust.install(f"{url}#v1.0.0")
    entry = rig.trust.install(f"{url}#v2")  # another takes the place of the first
    commit = rig.trust.consent("stranger").commit
    assert (entry.record.source, commit) == (f"{url}#v2", git(work, "rev-parse", "HEAD"))
    assert (rig.folder / "words.py").read_text() == "SAID = 'new '\n"
