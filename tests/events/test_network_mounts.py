"""Network mounts: which file systems are other machines' too, read from the kernel's table."""

from __future__ import annotations

import pytest

from parachuted.events.disk_scan import network_mount, network_type
from tests.stories.daemon_rig import Live, save

TABLE = """\
22 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw
40 22 0:35 / /home/anna/My\\040Notes rw,nosuid shared:20 - nfs4 server:/notes rw,vers=4.2
41 22 0:36 / /mnt/share rw - cifs //nas/share rw
42 41 0:37 / /mnt/share/local rw - tmpfs tmpfs rw
43 22 0:38 / /mnt/ssh rw master:1 propagate_from:2 - fuse.sshfs anna@host:/ rw
44 22 0:39 / /mnt/over rw - nfs server:/x rw
45 44 0:40 / /mnt/over rw - ext4 /dev/vdb rw
46 22 0:41 / /mnt/vm rw - 9p share rw
garbled
"""


@pytest.mark.parametrize(
    ("folder", "kind"),
    [
        ("/home/anna/My Notes", "nfs4"),
        ("/home/anna/My Notes/deep", "nfs4"),
        ("/home/anna/My Notes 2", None),
        ("/home/anna", "nfs4"),
        ("/mnt/share/x", "cifs"),
        ("/mnt/share/local/x", None),
        ("/mnt/ssh", "fuse.sshfs"),
        ("/mnt/over/x", None),
        ("/mnt/vm", "9p"),
        ("/srv", None),
    ],
)
def test_the_nearest_mount_counts_and_one_within_counts_too(folder, kind):
    assert network_type(folder, TABLE) == kind


def test_where_no_table_is_none_is_known(tmp_path, monkeypatch):
    monkeypatch.setattr("parachuted.events.disk_scan.MOUNTS", tmp_path / "none")
    assert network_mount(tmp_path) is None


async def test_a_vault_on_a_network_is_walked_again_and_again_and_that_is_said(
    live: Live, vault, tmp_path, monkeypatch
):
    table = tmp_path / "mountinfo"
    table.write_text(f"40 22 0:35 / {vault} rw shared:20 - nfs4 server:/notes rw\n")
    monkeypatch.setattr("parachuted.events.disk_scan.MOUNTS", table)
    async with live() as daemon_rig:
        assert "network file system (nfs4)" in daemon_rig.daemon.watched.problems.open["watching"]
        assert daemon_rig.daemon.watched.detector.polling
        daemon_rig.daemon.watched.detector._watcher.poll = (
            daemon_rig.daemon.watched.detector._watcher._read
        ) = lambda: False  # another device's change is not told
        save(vault / "a.md", "# A\n")
        await daemon_rig.until(lambda: daemon_rig.reported("file.created"))
