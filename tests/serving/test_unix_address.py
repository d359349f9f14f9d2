"""A socket has an address in any folder, however long its path."""

from __future__ import annotations

import os
import socket
from pathlib import Path

from edge.serving.unix_address import short_address


def test_a_short_path_is_its_own_address() -> None:
    with short_address(Path("/run/front.sock")) as address:
        assert address == "/run/front.sock"


def test_a_socket_is_reached_in_a_folder_whose_path_is_too_long(tmp_path: Path) -> None:
    folder = tmp_path / ("d" * 120)
    folder.mkdir()
    path = folder / "front.sock"
    before = set(os.listdir("/proc/self/fd"))
    listener, client = socket.socket(socket.AF_UNIX), socket.socket(socket.AF_UNIX)
    with listener, client, short_address(path) as address:
        assert len(address) < 100
        listener.bind(address)
        listener.listen()
        client.connect(address)
    assert path.is_socket()
    assert set(os.listdir("/proc/self/fd")) == before, "the folder is closed again"
