"""Sockets that take connections before anything answers them."""

from __future__ import annotations

import socket

import pytest

from parachuted.errors import DaemonError
from parachuted.processes.addresses import listening_sockets


def close(sockets):
    for one in sockets:
        one.close()


def test_a_request_that_is_sent_before_anything_answers_waits():
    (one,) = listening_sockets("127.0.0.1", 0)
    with socket.create_connection(one.getsockname(), timeout=60) as client:
        client.sendall(b"hello")
        one.settimeout(60)
        accepted, _address = one.accept()
        with accepted:
            assert accepted.recv(5) == b"hello"
    one.close()


def test_all_addresses_of_a_host_have_one_port_and_one_in_use_is_an_error():
    sockets = listening_sockets("localhost", 0)
    (port,) = {one.getsockname()[1] for one in sockets}
    with pytest.raises(DaemonError, match=f"port {port} cannot be used .*--port"):
        listening_sockets("localhost", port)
    close(sockets)
    close(listening_sockets("localhost", port))  # none was left open
