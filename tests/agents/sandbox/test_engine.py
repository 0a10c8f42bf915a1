from dataclasses import replace
from uuid import uuid4

import pytest

from parachuted.agents.sandbox import ContainerOwner, container_options
from parachuted.agents.sandbox.engine import Engine
from parachuted.agents.sandbox.slots import container_user, make_slot, name_slot
from parachuted.errors import AgentUnavailableError
from tests.agents.sandbox.conftest import spec_of
from tests.engine import containers

LABEL = f"engine-{uuid4().hex}"
OWNER = ContainerOwner(user=container_user(), daemon=LABEL, life="1")


@pytest.fixture
def docker(engine, sandboxes):
    made = Engine(engine)
    yield made
    made.close()


def launch(docker, slot):
    options = container_options(spec_of(slot, "cat"), slot, docker.image(), OWNER)
    return docker.start(options, f"parachute-sandbox-{slot.id}")


def left(engine):
    return containers(engine, of=f"org.parachuted.daemon={LABEL}")


def test_no_one_who_answers_is_reported_in_words(tmp_path):
    with pytest.raises(
        AgentUnavailableError, match=f"no Docker engine answers at unix://{tmp_path}/none; install"
    ):
        Engine({"DOCKER_HOST": f"unix://{tmp_path}/none"})


def test_what_was_launched_is_known_by_its_label(docker, engine, tmp_path):
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
