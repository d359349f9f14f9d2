"""A gentle question whether an RTSP camera answers at all, asked while its reader waits to try again."""

from __future__ import annotations

import socket
import time


def answers(host: str, port: int, tls: bool, timeout_s: float) -> bool:
    """True when `host:port` says anything to an OPTIONS request (RFC 2326 section 10.1) within `timeout_s`.

    No credentials are sent. A hung camera accepts connections (its kernel does) without ever answering, so a
    connection alone counts only where TLS hides the answer.
    """
    ends = time.monotonic() + timeout_s
    try:
        with socket.create_connection((host, port), timeout=timeout_s) as connection:
            if tls:
                return True
            bracketed = f"[{host}]" if ":" in host else host
            request = f"OPTIONS rtsp://{bracketed}:{port}/ RTSP/1.0\r\nCSeq: 1\r\nUser-Agent: magpie\r\n\r\n"
            connection.settimeout(max(0.05, ends - time.monotonic()))
            connection.sendall(request.encode())
            return connection.recv(16).startswith(b"RTSP/1.")
    except (OSError, UnicodeError):  # UnicodeError: a host name that IDNA cannot encode
        return False
