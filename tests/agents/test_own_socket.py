"""Own socket: it stands where it was asked for, whatever stood there before, and leaves nothing
open when it cannot.
"""

import os
import socket
from pathlib import Path

import pytest

from parachuted.agents.gateway.listeners import listen_in


@pytest.mark.skipif(
    not Path("/proc/self/fd").is_dir(), reason="only through /proc can a socket have a long name"
)
def test_anybody_who_sees_the_folder_reaches_it_however_long_its_name_is(tmp_path):
    folder = tmp_path / ("long" * 30)
    folder.mkdir()
    (folder / "s.sock").write_text("left by a crash")
    with listen_in(folder, "s.sock") as listening, socket.socket(socket.AF_UNIX) as caller:
        listening.listen()
        assert (folder / "s.sock").stat().st_mode & 0o777 == 0o666
        at = os.open(folder, os.O_RDONLY)
        caller.connect(f"/proc/self/fd/{at}/s.sock")
        os.close(at)


def test_a_link_in_place_of_the_folder_is_not_followed(tmp_path):
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    with pytest.raises(NotADirectoryError):
        listen_in(tmp_path / "link", "s.sock")
    assert list((tmp_path / "real").iterdir()) == []
