import subprocess
import sys

from parachuted.agents.sandbox.sandboxes import EngineProbe, probe_engine


async def test_no_one_there_is_seen_quickly(tmp_path):
    assert await probe_engine({"DOCKER_HOST": f"unix://{tmp_path}/none"}) == EngineProbe(
        is_there=False, has_image=False
    )
    assert await probe_engine({"DOCKER_HOST": "tcp://127.0.0.1:1"}) == EngineProbe(
        is_there=False, has_image=False
    )


async def test_an_engine_with_our_image_is_seen(sandboxes, engine):
    assert await probe_engine(engine) == EngineProbe(is_there=True, has_image=True)


def test_looking_loads_no_library_of_the_engine():
    code = (
        "import sys, parachuted.agents.sandbox.sandboxes, "
        "parachuted.agents.sandbox.sandboxes; print('docker' in sys.modules)"
    )

    assert (
        subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True
        ).stdout
        == "False\n"
    )
