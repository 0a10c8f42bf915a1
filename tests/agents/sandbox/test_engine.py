import json
import os
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from uuid import uuid4

import pytest

from parachuted.access.agent_config import SandboxConfig
from parachuted.agents.sandbox import ContainerOwner, ContainerShape
from parachuted.agents.sandbox.engine import Engine
from parachuted.agents.sandbox.slots import container_user, make_slot, name_slot
from parachuted.errors import AgentUnavailableError
from parachuted.vault.swap import exchange
from tests.agents.sandbox.conftest import CLI
from tests.engine import containers

LABEL = f"engine-{uuid4().hex}"
OWNER = ContainerOwner(user=container_user(), daemon=LABEL, life="1")


@pytest.fixture
def docker(engine, sandboxes):
    made = Engine(engine)
    yield made
    made.close()


def launch(docker, slot):
    shape = ContainerShape(config=SandboxConfig(), is_writable=True, cli=CLI)
    return docker.launch(shape, slot, docker.image(), OWNER)


def reported(launched, *command):
    frame = json.dumps(
        {"command": command, "env": {"PATH": "/usr/bin:/bin"}, "cwd": "/", "relay": None}
    ).encode()
    launched.stream.sendall(len(frame).to_bytes(4, "big") + frame)
    with launched.stream, launched.stream.makefile("rb") as said:
        return said.read().decode(errors="replace")


def left(engine):
    return containers(engine, of=f"org.parachuted.daemon={LABEL}")


def test_no_one_who_answers_is_reported_in_words(tmp_path):
    with pytest.raises(
        AgentUnavailableError, match=f"no Docker engine answers at unix://{tmp_path}/none; install"
    ):
        Engine({"DOCKER_HOST": f"unix://{tmp_path}/none"})


def test_what_was_launched_waits_and_is_known_by_its_label(docker, engine, tmp_path):
    slot = name_slot(tmp_path)
    make_slot(slot)

    launched = launch(docker, slot)

    assert docker.strays(OWNER) == []
    assert docker.strays(replace(OWNER, life="2")) == [launched.id]
    assert docker.strays(replace(OWNER, daemon="another", life="2")) == []
    launched.stream.close()
    docker.remove(launched.id)
    docker.remove(launched.id)
    assert left(engine) == []


@pytest.mark.parametrize("which", ["work", "home", "sockets", "outside"])
def test_a_folder_that_is_a_link_is_not_mounted(docker, engine, tmp_path, which):
    slot = name_slot(tmp_path / "slots")
    make_slot(slot)
    secret = tmp_path / "secret"
    secret.mkdir()
    folder = getattr(slot, which)
    folder.rename(tmp_path / "away")
    folder.symlink_to(secret)

    with pytest.raises(AgentUnavailableError, match="not those that were made for it"):
        launch(docker, slot)

    assert left(engine) == []


def test_a_folder_that_is_swapped_while_it_is_mounted_is_found_out(
    docker, engine, tmp_path, torture
):
    """Somebody swaps the vault's copy for a link to a secret as fast as can be; what starts sees
    what was meant, or nothing starts.
    """
    slot = name_slot(tmp_path / "slots")
    make_slot(slot)
    secret, real = tmp_path / "secret", slot.work
    secret.mkdir()
    (secret / "canary").touch()
    (tmp_path / "link").symlink_to(secret)
    folder = os.open(tmp_path, os.O_RDONLY)
    swap_names = partial(exchange, folder, str(real.relative_to(tmp_path)), "link")
    stop, started, refused = threading.Event(), 0, 0

    def swap():
        swaps = 0
        while not stop.is_set():
            swap_names()
            swaps += 1
            time.sleep(0.002)
        if real.is_symlink():
            swap_names()
        return swaps

    with ThreadPoolExecutor(1) as pool:
        swapping = pool.submit(swap)
        try:
            for _ in range(500 if torture else 12):
                try:
                    launched = launch(docker, slot)
                except AgentUnavailableError:
                    refused += 1
                    continue
                started += 1
                assert "canary" not in reported(launched, "ls", "/vault")
                docker.remove(launched.id)
        finally:
            stop.set()
        swaps = swapping.result()
    os.close(folder)

    assert refused
    assert swaps > 50
    assert left(engine) == []


def test_an_image_that_does_not_begin_as_ours_is_reported(docker, engine, tmp_path, monkeypatch):
    slot = name_slot(tmp_path)
    make_slot(slot)
    (slot.sockets / ".slot").write_text("another")

    with pytest.raises(AgentUnavailableError, match="mounted other folders"):
        launch(docker, slot)

    assert left(engine) == []
