import pytest

from parachuted.agents.sandbox.options import check_cli, find_cli
from parachuted.errors import AgentUnavailableError


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
