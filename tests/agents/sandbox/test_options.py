from pathlib import Path

import pytest

from parachuted.access.agent_config import SandboxConfig
from parachuted.agents.job import RunFolder, RunSandbox
from parachuted.agents.sandbox.options import ContainerOwner, Image, sandbox_options
from tests.agents.sandbox.conftest import CLI

IMAGE = Image(name="an-image", kind="built")
OWNER = ContainerOwner(user=(1000, 1000), daemon="a-vault", life="1")


FOLDER = RunFolder(Path("/runs/a1b2"))


def options_of(config=None, env=None, **how):
    sandbox = RunSandbox(config=config or SandboxConfig(), folder=FOLDER, **how)
    return sandbox_options(sandbox, env or {}, CLI, IMAGE, OWNER)


def mounts_of(options):
    return {mount["Target"]: mount for mount in options["HostConfig"]["Mounts"]}


def test_the_limits_of_a_sandbox_config_are_the_containers():
    config = SandboxConfig(memory="1g", cpus=0.5, pids_limit=17, read_only_root=False)

    host = options_of(config)["HostConfig"]

    assert host["Memory"] == host["MemorySwap"] == 1 << 30
    assert (host["NanoCpus"], host["PidsLimit"]) == (500_000_000, 17)
    assert host["ReadonlyRootfs"] is False


def test_its_walls_are_asked_of_the_engine():
    host = options_of()["HostConfig"]

    assert (host["NetworkMode"], host["IpcMode"]) == ("none", "private")
    assert host["LogConfig"]["Type"] == "none"
    assert host["CapDrop"] == ["ALL"]
    assert not {"CapAdd", "Privileged", "Devices", "Binds"} & host.keys()
    assert (host["ReadonlyRootfs"], host["SecurityOpt"]) == (True, ["no-new-privileges:true"])
    limits = {limit["Name"]: limit["Hard"] for limit in host["Ulimits"]}
    assert limits == {"nofile": 16_384, "fsize": 256 << 20, "core": 0}


def test_no_folder_of_this_machine_is_mounted_but_that_of_the_sockets():
    mounts = mounts_of(options_of())
    binds = {place: mount["Source"] for place, mount in mounts.items() if mount["Type"] == "bind"}

    assert binds == {"/sockets": "/runs/a1b2/s", "/opt/parachute/claude": str(CLI)}
    assert all(mounts[place]["ReadOnly"] for place in binds)
    assert mounts.keys() - binds == {"/vault", "/home/agent", "/outside"}
    driver = mounts["/vault"]["VolumeOptions"]["DriverConfig"]  # memory with bounds
    assert (driver["Name"], driver["Options"]["type"]) == ("local", "tmpfs")
    assert {"size=536870912", "nr_inodes=200000"} < set(driver["Options"]["o"].split(","))


def test_a_config_that_leaves_a_capability_is_refused():
    with pytest.raises(ValueError, match="no agent keeps a capability"):
        SandboxConfig(cap_drop=["NET_RAW"])
    assert SandboxConfig(cap_drop=["all", "NET_RAW"]).cap_drop == ("ALL",)


async def test_it_can_write_in_its_own_places_and_has_nothing_of_our_environment(run, monkeypatch):
    monkeypatch.setenv("ANTHROPIC_API_KEY", "canary-91ab")

    ended = await run(
        "for at in /vault /home/agent /tmp /run /var/tmp; do echo hello > $at/note && cat "
        "$at/note; done; env; cat /proc/1/environ | tr '\\0' '\\n'"
    )

    names = {line.partition("=")[0] for line in ended.out.split("\n") if "=" in line}
    assert (ended.out.startswith("hello\n" * 5), ended.code) == (True, 0)
    assert "canary-91ab" not in ended.out
    assert names <= {"PATH", "LANG", "TMPDIR", "HOME", "PWD", "HOSTNAME", "SHLVL", "_", "OLDPWD"}


@pytest.mark.parametrize("start", ["", "exec "])
async def test_more_memory_than_it_has_ends_it_and_says_so(run, start):
    line = f"{start}python3 -c 'x = bytearray(400 << 20)'"
    ended = await run(line, config=SandboxConfig(memory="64m"))

    assert ended.code != 0
    assert "more memory than its sandbox has" in (ended.problem or "")


async def test_processes_without_end_stop_at_the_limit(run):
    line = "n=0; while [ $n -lt 60 ]; do sleep 20 & n=$((n+1)); done; echo started $n"

    ended = await run(line, config=SandboxConfig(pids_limit=24))

    assert "started 60" not in ended.out
    assert "fork" in ended.out.lower()


@pytest.mark.parametrize("network", ["none", "bridge", ("example.org",)])
def test_only_a_box_with_a_network_knows_of_the_proxy(network):
    options = options_of(network=network, env={"A": "b"})
    env = dict(entry.split("=", 1) for entry in options["Env"])
    usual = {"LANG": "C.UTF-8", "TMPDIR": "/tmp", "HOME": "/home/agent", "A": "b"}  # noqa: S108
    names = ("HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy")
    proxy = dict.fromkeys(names, "http://127.0.0.1:3128")
    proxy |= dict.fromkeys(("NO_PROXY", "no_proxy"), "localhost,127.0.0.1")

    assert options["WorkingDir"] == "/vault"
    assert env == {"PATH": env["PATH"], **usual, **(proxy if network != "none" else {})}
    relay = ["3128", "/sockets/proxy.sock"] if network != "none" else []
    assert options["Entrypoint"][5:] == relay
