import json
from dataclasses import replace
from pathlib import Path

from parachuted.agents.sandbox.options import make_frame
from parachuted.agents.sandbox.slots import name_slot
from tests.agents.sandbox.conftest import spec_of

SLOT = name_slot(Path("/slots"))


def reported(**how):
    return json.loads(make_frame(spec_of(SLOT, "echo", "hello", **how)))


def test_a_box_without_a_network_knows_of_no_proxy():
    frame = reported(env={"A": "b"})

    assert (frame["command"], frame["cwd"], frame["relay"]) == (["echo", "hello"], "/vault", None)
    assert frame["env"] == {
        "PATH": frame["env"]["PATH"],
        "LANG": "C.UTF-8",
        "TMPDIR": "/tmp",  # noqa: S108
        "HOME": "/home/agent",
        "A": "b",
    }


def test_a_box_with_one_finds_the_proxy_by_its_usual_names():
    for network in ("bridge", ("example.org",)):
        frame = reported(network=network)

        assert {
            frame["env"][name]
            for name in ("HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy")
        } == {"http://127.0.0.1:3128"}
        assert frame["env"]["NO_PROXY"] == "localhost,127.0.0.1"
        assert frame["relay"]["socket"] == "/sockets/proxy.sock"
        compile(frame["relay"]["source"], "relay", "exec")


def test_the_frame_is_the_same_for_all_callers():
    spec = spec_of(SLOT, "true")

    assert make_frame(spec) == make_frame(replace(spec, run="another", agent="another"))
