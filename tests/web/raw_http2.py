"""A gRPC client that follows HTTP/2 to the letter and sends as much of a message as it may, but never the end of it."""

from __future__ import annotations

import socket
import struct
from types import TracebackType

_DATA, _HEADERS, _RESET, _SETTINGS, _PING, _GOAWAY, _WINDOW = 0, 1, 3, 4, 6, 7, 8
_FRAME = 16_384


class RawCall:
    """One connection with one call, whose message claims to have `size` bytes. `token`: its authorization."""

    def __init__(self, address: str, path: str, size: int, token: str | None = None) -> None:
        host, _, port = address.rpartition(":")
        self._socket = socket.create_connection((host, int(port)), 30.0)
        self._buffer = b""
        self._initial, self._connection, self._stream = 65_535, 65_535, 65_535
        self._size = size
        self._first = b"\0" + struct.pack(">I", size)
        self.sent = 0
        #: The server has answered, or ended the call.
        self.ended = False
        headers = {":method": "POST", ":scheme": "http", ":path": path, ":authority": address, "te": "trailers"}
        headers["content-type"] = "application/grpc"
        if token is not None:
            headers["authorization"] = f"Bearer {token}"
        block = b"".join(_literal(name, value) for name, value in headers.items())
        self._socket.sendall(
            b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + _frame(_SETTINGS, 0, 0) + _frame(_HEADERS, 4, 1, block)
        )

    def send_most(self) -> int:
        """Send all but the last byte, as far as the server lets it; returns the bytes sent so far. It gives up when the
        server has twice answered a ping since it last made room."""
        quiet = 0
        while quiet < 2 and not self.ended and self.sent < self._size + 4:
            room = min(self._connection, self._stream, _FRAME, self._size + 4 - self.sent)
            if room <= 0:
                self._round_trip()
                quiet = 0 if min(self._connection, self._stream) > 0 else quiet + 1
                continue
            payload = (self._first + bytes(room))[:room]
            self._first = b""
            self._socket.sendall(_frame(_DATA, 0, 1, payload))
            self.sent += room
            self._connection -= room
            self._stream -= room
        return self.sent

    def wait_end(self) -> None:
        """Until the server ends the call."""
        while not self.ended:
            self._take()

    def _round_trip(self) -> None:
        self._socket.sendall(_frame(_PING, 0, 0, b"8 bytes!"))
        while not self.ended and self._take() != (_PING, 1):
            pass

    def _take(self) -> tuple[int, int]:
        """The kind and flags of the next frame, which is obeyed."""
        head = self._exactly(9)
        if self.ended:
            return (_GOAWAY, 0)
        size, kind, flags = int.from_bytes(head[:3], "big"), head[3], head[4]
        stream, payload = int.from_bytes(head[5:], "big"), self._exactly(size)
        if kind == _SETTINGS and not flags & 1:
            for key, value in struct.iter_unpack(">HI", payload):
                if key == 4:
                    self._stream += value - self._initial
                    self._initial = value
            self._socket.sendall(_frame(_SETTINGS, 1, 0))
        elif kind == _WINDOW:
            if stream:
                self._stream += int.from_bytes(payload, "big")
            else:
                self._connection += int.from_bytes(payload, "big")
        elif kind == _PING and not flags & 1:
            self._socket.sendall(_frame(_PING, 1, 0, payload))
        elif kind in (_RESET, _GOAWAY) or (kind == _HEADERS and flags & 1):
            self.ended = True
        return (kind, flags & 1)

    def _exactly(self, size: int) -> bytes:
        while len(self._buffer) < size:
            got = self._socket.recv(65_536)
            if not got:
                self.ended = True
                return bytes(size)
            self._buffer += got
        found, self._buffer = self._buffer[:size], self._buffer[size:]
        return found

    def close(self) -> None:
        """Leave without a word."""
        self._socket.close()

    def __enter__(self) -> RawCall:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _frame(kind: int, flags: int, stream: int, payload: bytes = b"") -> bytes:
    return len(payload).to_bytes(3, "big") + bytes([kind, flags]) + stream.to_bytes(4, "big") + payload


def _literal(name: str, value: str) -> bytes:
    """A header field of HPACK without indexing and without Huffman's code (names and values under 127 bytes)."""
    key, content = name.encode(), value.encode()
    return b"\0" + bytes([len(key)]) + key + bytes([len(content)]) + content
