"""Races: who owns the vault exchanges files while they are read, as fast as a process of its own
can.
"""

from __future__ import annotations

import contextlib
import itertools
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from parachuted.errors import ParachuteError
from parachuted.modules.hosting.loading import load_class, unload
from tests.modules.stranger import SAID, UntrustedRig, loaded

ATTACKER = """
import os, shutil, sys
folder, away, payload = sys.argv[1:4]
modules = os.path.dirname(folder)
good = {name: open(os.path.join(folder, name)).read() for name in ("words.py", "deep/inner.py")}

def put(path, text):
    with open(path + ".tmp", "w") as file:
        file.write(text)
    os.replace(path + ".tmp", path)

def swapped_file():
    evil = os.path.join(away, "words.py")
    put(evil, payload); os.replace(evil, os.path.join(folder, "words.py")); put(os.path.join(away, "w"), good["words.py"])
    os.replace(os.path.join(away, "w"), os.path.join(folder, "words.py"))

def in_place():
    path = os.path.join(folder, "words.py")
    with open(path, "r+") as file:
        file.write(payload); file.truncate(); file.flush(); file.seek(0); file.write(good["words.py"]); file.truncate()

def link_for_file():
    path = os.path.join(folder, "words.py"); evil = os.path.join(away, "evil.py")
    put(evil, payload); os.symlink(evil, os.path.join(away, "l")); os.replace(os.path.join(away, "l"), path)
    put(os.path.join(away, "w"), good["words.py"]); os.replace(os.path.join(away, "w"), path)

def link_for_folder():
    deep, kept, evil = os.path.join(folder, "deep"), os.path.join(away, "kept"), os.path.join(away, "evil")
    os.makedirs(evil, exist_ok=True); put(os.path.join(evil, "inner.py"), payload); put(os.path.join(evil, "__init__.py"), "")
    os.rename(deep, kept); os.symlink(evil, deep); os.unlink(deep); os.rename(kept, deep)

def whole_folder(at):
    kept, evil = os.path.join(away, "whole"), os.path.join(away, "evil whole")
    if not os.path.isdir(evil):
        shutil.copytree(at, evil)
        put(os.path.join(evil, "words.py" if at == folder else "stranger/words.py"), payload)
    os.rename(at, kept); os.symlink(evil, at); os.unlink(at)
    os.rename(evil, at); os.rename(at, evil); os.rename(kept, at)
    shutil.rmtree(evil)

rounds = [swapped_file, in_place, link_for_file, link_for_folder, lambda: whole_folder(folder), lambda: whole_folder(modules)]
print("ready", flush=True)
parent = os.getppid()
while os.getppid() == parent:
    for one in rounds:
        one()
"""  # noqa: E501


@contextmanager
def attacked(module_rig: UntrustedRig) -> Iterator[None]:
    away = module_rig.base / "away"
    away.mkdir()
    with subprocess.Popen(
        [sys.executable, "-c", ATTACKER, module_rig.folder, away, module_rig.payload],
        stdout=subprocess.PIPE,
    ) as attacker:
        try:
            assert attacker.stdout is not None
            assert attacker.stdout.readline() == b"ready\n"
            yield
            assert attacker.poll() is None, "the attacker gave up"
        finally:
            attacker.kill()


@pytest.fixture
def module_rig(tmp_path, home, vault) -> UntrustedRig:
    made = UntrustedRig(base=tmp_path, home=home, vault=vault)
    made.write()
    return made


@pytest.mark.timeout(900)
def test_only_the_bytes_that_were_shown_are_approved_whatever_is_exchanged_meanwhile(
    module_rig, torture
):
    digest = module_rig.trust.consent("stranger").digest
    approved = refused = 0
    wanted = 10_000 if torture else 100
    with attacked(module_rig):
        for number in itertools.count():
            if number >= wanted and approved and refused:
                break
            try:
                module_rig.trust.approve("stranger", digest)
                approved += 1
            except ParachuteError:
                refused += 1
            for one in module_rig.trust.ready() if number % 5 == 0 else ():
                assert one.tree == digest
                with loaded(one) as cls:
                    assert cls.said == SAID

    assert not module_rig.mark.exists()
    assert [folder.name for folder in (module_rig.home / "modules/stranger").iterdir()] == [
        digest.removeprefix("sha256:")[:12]
    ]


def test_what_is_shown_is_what_its_digest_names_whatever_is_exchanged_meanwhile(
    module_rig, torture
):
    good = module_rig.trust.consent("stranger").digest
    shown = {True: 0, False: 0}
    with attacked(module_rig):
        for _ in range(10_000 if torture else 100):
            with contextlib.suppress(ParachuteError):
                consent, diff = module_rig.trust.review("stranger")
                assert (consent.digest == good) <= ("evil" not in diff)
                shown[consent.digest == good] += 1

    assert shown[True]


def test_a_copy_that_is_exchanged_between_two_loads_does_not_run(module_rig):
    one = module_rig.approve()
    module_rig.write(one.copy.parent / "evil", words__py="")
    (one.copy.parent / "evil" / "words.py").write_text(module_rig.payload)
    one.copy.rename(one.copy.with_name("kept"))
    (one.copy.parent / "evil").rename(one.copy)

    with pytest.raises(ParachuteError, match="approve it again"):
        load_class(one.copy, one.name, one.manifest, one.import_paths, tree=one.tree)
    unload(one.name, one.tree)
    assert not module_rig.mark.exists()
