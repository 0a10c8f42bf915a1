import asyncio
import json
import subprocess
from pathlib import Path

import pytest

from parachuted.access.agent_config import SandboxConfig
from parachuted.agents.sandbox import ContainerOwner, Image, container_options, options
from parachuted.agents.sandbox.options import check_cli, find_cli
from parachuted.agents.sandbox.slots import container_user, name_slot
from parachuted.errors import AgentUnavailableError
from tests.agents.sandbox.conftest import CLI, boxed, spec_of

IMAGE = Image(name="an-image", kind="built")
OWNER = ContainerOwner(user=(1000, 1000), daemon="a-vault", life="1")


SLOT = name_slot(Path("/slots"))


def options_of(config=None, **how):
    return container_options(spec_of(SLOT, "echo", config=config, **how), SLOT, IMAGE, OWNER)


def mounts_of(options):
    return {mount["Target"]: mount for mount in options["HostConfig"]["Mounts"]}


def inspected(engine, container):
    reported = subprocess.run(
        ["docker", "inspect", container], env=dict(engine), capture_output=True, check=True
    ).stdout
    return json.loads(reported)[0]


def test_the_limits_of_a_sandbox_config_are_the_containers():
    config = SandboxConfig(memory="1g", cpus=0.5, pids_limit=17, read_only_root=False)

    host = options_of(config)["HostConfig"]

    assert (host["Memory"], host["MemorySwap"], host["NanoCpus"], host["PidsLimit"]) == (
        1 << 30,
        1 << 30,
        500_000_000,
        17,
    )
    assert host["ReadonlyRootfs"] is False


def test_a_config_that_leaves_a_capability_is_refused():
    with pytest.raises(ValueError, match="no agent keeps a capability"):
        SandboxConfig(cap_drop=["NET_RAW"])
    assert SandboxConfig(cap_drop=["all", "NET_RAW"]).cap_drop == ("ALL",)


def test_only_an_agent_that_may_write_sees_a_writable_vault():
    assert mounts_of(options_of(is_writable=False))["/vault"]["ReadOnly"] is True
    assert mounts_of(options_of(is_writable=True))["/vault"]["ReadOnly"] is False


def test_no_mount_is_of_anything_but_the_slot_and_the_cli():
    sources = [mount["Source"] for mount in options_of()["HostConfig"]["Mounts"]]

    assert all(source.startswith("/slots/") or source == str(CLI) for source in sources)


async def test_the_engine_made_what_was_asked(sandboxes, engine):
    async with boxed(sandboxes, "cat") as at_work:
        shown = await asyncio.to_thread(inspected, engine, at_work.container.id)

    host = shown["HostConfig"]
    assert host["NetworkMode"] == "none"
    assert host["ReadonlyRootfs"] is True
    assert host["CapDrop"] == ["ALL"]
    assert not host["CapAdd"]
    assert host["SecurityOpt"] == ["no-new-privileges:true"]
    assert not host["Privileged"]
    assert (host["Memory"], host["MemorySwap"]) == (512 << 20, 512 << 20)
    assert (host["NanoCpus"], host["PidsLimit"]) == (1_000_000_000, 256)
    assert host["IpcMode"] == "private"
    assert host["LogConfig"]["Type"] == "none"
    assert {limit["Name"]: limit["Hard"] for limit in host["Ulimits"]} == {
        "nofile": 16_384,
        "fsize": 256 << 20,
        "core": 0,
    }
    assert not host["Devices"]
    assert not host["PidMode"]
    assert shown["Config"]["User"] == ":".join(map(str, container_user()))
    assert not [mount for mount in shown["Mounts"] if "docker" in mount["Source"]]
    assert all(
        not mount["RW"]
        for mount in shown["Mounts"]
        if mount["Destination"] not in {"/vault", "/home/agent"}
    )


async def test_it_is_no_one_inside_with_no_capability_and_the_default_filter_of_calls(run):
    ended = await run("id -u; grep -E '^(Cap|NoNewPrivs|Seccomp:)' /proc/self/status")

    lines = ended.out.split("\n")
    assert lines[0] == str(container_user()[0])
    reported = dict(line.split(":\t") for line in lines[1:] if line)
    assert {reported[name] for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")} == {
        "0" * 16
    }
    assert (reported["NoNewPrivs"], reported["Seccomp"].strip()) == ("1", "2")


async def test_it_has_no_network_but_itself(run):
    ended = await run(
        "cat /proc/net/dev | tail -n +3 | cut -d: -f1; cat /proc/net/route | wc -l; cat < "
        "/dev/tcp/1.1.1.1/80"
    )

    assert ended.out.split()[:2] == ["lo", "1"]
    assert ended.code != 0


async def test_it_cannot_write_where_it_does_not_work(run):
    places = [
        "/x",
        "/usr/x",
        "/etc/x",
        "/opt/parachute/claude",
        "/sockets/gateway.sock",
        "/outside/x",
        "/proc/sys/kernel/core_pattern",
        "/sys/x",
    ]

    ended = await run(
        f"for at in {' '.join(places)}; do (echo more >> $at) 2>/dev/null && echo wrote $at; "
        "done; echo done"
    )

    assert ended.out == "done\n"


async def test_it_can_write_where_it_works_and_in_its_own_places_only(run):
    ended = await run(
        "for at in /vault /home/agent /tmp /run /var/tmp; do echo hello > $at/note && cat "
        "$at/note; done"
    )

    assert (ended.out, ended.code) == ("hello\n" * 5, 0)


async def test_an_agent_that_only_reads_cannot_change_its_copy(run):
    ended = await run("touch /vault/note", is_writable=False)

    assert "Read-only file system" in ended.out


async def test_more_memory_than_it_has_ends_it_and_says_so(run):
    ended = await run("python3 -c 'x = bytearray(400 << 20)'", config=SandboxConfig(memory="64m"))
    reported = await run(
        "exec python3 -c 'x = bytearray(400 << 20)'", config=SandboxConfig(memory="64m")
    )

    assert ended.code != 0
    assert "more memory than its sandbox has" in (reported.problem or "")


async def test_processes_without_end_stop_at_the_limit(run):
    line = "n=0; while [ $n -lt 60 ]; do sleep 20 & n=$((n+1)); done; echo started $n"

    ended = await run(line, config=SandboxConfig(pids_limit=24))

    assert "started 60" not in ended.out
    assert "fork" in ended.out.lower()


async def test_nothing_of_the_daemons_environment_is_inside(run, monkeypatch):
    monkeypatch.setenv("ANTHROPIC_API_KEY", "canary-91ab")

    ended = await run("env; cat /proc/1/environ | tr '\\0' '\\n'")

    names = {line.partition("=")[0] for line in ended.out.split("\n") if "=" in line}
    assert "canary-91ab" not in ended.out
    assert names <= {"PATH", "LANG", "TMPDIR", "HOME", "PWD", "HOSTNAME", "SHLVL", "_", "OLDPWD"}


async def test_a_program_that_would_be_root_stays_who_it_is(run):
    """Programs with the set-user bit, such as su, are in /usr; where the vault's copy holds one, it
    means as little.
    """
    ended = await run(
        "cp /usr/bin/id /vault/id; chmod u+s /vault/id; /vault/id -u; su -c 'id -u' </dev/null || "
        "echo refused"
    )

    assert ended.out.split("\n")[0] == str(container_user()[0])
    assert "refused" in ended.out


async def test_device_files_cannot_be_made_nor_mounts(run):
    ended = await run(
        "mknod /vault/sda b 8 0; mount -t tmpfs none /vault; unshare -m true; chroot /vault true; "
        "echo $?"
    )

    assert ended.out.lower().count("not permitted") + ended.out.lower().count("denied") >= 3


def env_of(options):
    return dict(entry.split("=", 1) for entry in options["Env"])


def test_a_box_without_a_network_knows_of_no_proxy():
    options = options_of(env={"A": "b"})
    instructions = json.loads(options["Cmd"][0])

    assert (instructions["command"], instructions["relay"]) == (["echo"], None)
    assert options["WorkingDir"] == "/vault"
    assert env_of(options) == {
        "PATH": env_of(options)["PATH"],
        "LANG": "C.UTF-8",
        "TMPDIR": "/tmp",  # noqa: S108
        "HOME": "/home/agent",
        "A": "b",
    }


@pytest.mark.parametrize("network", ["bridge", ("example.org",)])
def test_a_box_with_one_finds_the_proxy_by_its_usual_names(network):
    options = options_of(network=network)
    env, relay = env_of(options), json.loads(options["Cmd"][0])["relay"]

    assert {env[name] for name in ("HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy")} == {
        "http://127.0.0.1:3128"
    }
    assert env["NO_PROXY"] == "localhost,127.0.0.1"
    assert relay["socket"] == "/sockets/proxy.sock"
    compile(relay["source"], "relay", "exec")


def test_the_cli_of_the_sdk_is_found_and_may_be_mounted():
    cli = find_cli()

    assert cli is not None
    assert check_cli(cli) == cli.resolve()


def test_what_is_not_a_program_of_its_owner_is_never_mounted(tmp_path):
    plain, open_to_all = tmp_path / "plain", tmp_path / "open"
    plain.write_text("x")
    open_to_all.write_text("x")
    open_to_all.chmod(0o777)

    for path in (
        plain,
        open_to_all,
        tmp_path,
        tmp_path / "none",
        "/dev/null",
        "/var/run/docker.sock",
    ):
        with pytest.raises(AgentUnavailableError):
            check_cli(type(tmp_path)(path))


def test_the_places_in_a_box_are_apart_from_each_other():
    places = [
        options.VAULT_IN_BOX,
        options.HOME_IN_BOX,
        options.SOCKETS_IN_BOX,
        options.OUTSIDE_IN_BOX,
        options.CLI_IN_BOX,
    ]

    assert not [
        (one, other)
        for one in places
        for other in places
        if one != other and f"{one}/".startswith(f"{other}/")
    ]
