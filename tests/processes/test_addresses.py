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


def test_all_addresses_of_a_host_have_one_port():
    sockets = listening_sockets("localhost", 0)
    assert len({one.getsockname()[1] for one in sockets}) == 1
    close(sockets)


def test_a_port_in_use_is_an_error_that_says_what_to_do():
    (taken,) = listening_sockets("127.0.0.1", 0)
    port = taken.getsockname()[1]
    with pytest.raises(DaemonError, match=f"port {port} cannot be used .*--port"):
        listening_sockets("127.0.0.1", port)
    taken.close()
    close(listening_sockets("127.0.0.1", port))
