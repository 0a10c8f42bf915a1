"""The modules that come with parachuted, in a running daemon."""

from __future__ import annotations

from parachuted.home_files.bundled import bundled_folder
from tests.api.routes.test_modules import install
from tests.stories.daemon_rig import DaemonRig


async def install_official(daemon_rig: DaemonRig, *names: str) -> None:
    """Install these, trusted."""
    for name in names:
        reported = await install(daemon_rig, bundled_folder("modules") / name, "trusted")
        assert reported["status"] == "running", reported["problem"]
