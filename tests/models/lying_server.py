"""A server of one file that breaks off and lies as the test orders, and remembers what it was asked."""

from __future__ import annotations

import http.server
import re
import shutil
import ssl
import subprocess
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType

import pytest


@dataclass(frozen=True)
class Answer:
    """How one request is answered; by default with the file, rightly, also in part."""

    content: bytes | None = None  # something else than the file
    status: int | None = None  # 200 or 206 by default
    cut: int | None = None  # so many bytes, then the connection ends
    ranges: bool = True  # False: Range is ignored
    content_range: str | None = None
    length: int | None = None  # what Content-Length says
    chunked: bool = False
    reset: bool = False  # cut by a reset instead of an end
    headers: dict[str, str] = field(default_factory=dict)
    hold: Callable[[], object] | None = None  # called after `hold_at` bytes of the body
    hold_at: int = 0


@dataclass(frozen=True)
class Asked:
    """A client's request."""

    path: str
    range: str
    if_range: str
    encoding: str


class LyingServer:
    """Answers one after the other, the last one for ever. `asked` has every request."""

    def __init__(self, content: bytes, *answers: Answer, tls: Path | None = None) -> None:
        self.content, self.answers = content, list(answers) or [Answer()]
        self.asked: list[Asked] = []
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_: object) -> None:
                pass

            def do_GET(self) -> None:
                outer._answer(self)

        class Server(http.server.ThreadingHTTPServer):
            def handle_error(self, *_: object) -> None:
                pass  # clients that go away are part of the tests

        self._server = Server(("127.0.0.1", 0), Handler)
        self._scheme = "http"
        if tls is not None:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(tls, tls.with_suffix(".key"))
            self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
            self._scheme = "https"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True)

    def url(self, path: str = "/net.onnx") -> str:
        """An address of the server."""
        return f"{self._scheme}://127.0.0.1:{self._server.server_address[1]}{path}"

    def __enter__(self) -> LyingServer:
        self._thread.start()
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def _answer(self, handler: http.server.BaseHTTPRequestHandler) -> None:
        asked = Asked(
            handler.path,
            handler.headers.get("Range", ""),
            handler.headers.get("If-Range", ""),
            handler.headers.get("Accept-Encoding", ""),
        )
        self.asked.append(asked)
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        whole = self.content if answer.content is None else answer.content
        match = re.fullmatch(r"bytes=(\d+)-", asked.range)
        tag = answer.headers.get("ETag", "")
        same = not asked.if_range or asked.if_range in (tag, answer.headers.get("Last-Modified", ""))
        body, status, content_range = whole, 200, ""
        if match and answer.ranges and same and int(match[1]) < len(whole):
            body, status = whole[int(match[1]) :], 206
            content_range = f"bytes {match[1]}-{len(whole) - 1}/{len(whole)}"
        handler.send_response_only(answer.status or status)
        if answer.content_range is not None or content_range:
            handler.send_header("Content-Range", answer.content_range or content_range)
        if answer.chunked:
            handler.send_header("Transfer-Encoding", "chunked")
        else:
            handler.send_header("Content-Length", str(len(body) if answer.length is None else answer.length))
        for name, value in answer.headers.items():
            handler.send_header(name, value)
        handler.end_headers()
        handler.wfile.flush()
        if answer.hold is not None:
            handler.wfile.write(body[: answer.hold_at])
            handler.wfile.flush()
            answer.hold()
            body = body[answer.hold_at :]
        self._send(handler, body, answer)

    def _send(self, handler: http.server.BaseHTTPRequestHandler, body: bytes, answer: Answer) -> None:
        sent = body if answer.cut is None else body[: answer.cut]
        if answer.chunked:
            for at in range(0, len(sent), 8192):
                piece = sent[at : at + 8192]
                handler.wfile.write(b"%x\r\n%s\r\n" % (len(piece), piece))
            if answer.cut is None:
                handler.wfile.write(b"0\r\n\r\n")
        else:
            handler.wfile.write(sent)
        if answer.cut is not None or answer.length is not None:
            handler.close_connection = True
            if answer.reset:
                linger = b"\x01\x00\x00\x00\x00\x00\x00\x00"
                handler.connection.setsockopt(1, 13, linger)  # SOL_SOCKET, SO_LINGER: a reset instead of an end


def certificate(folder: Path) -> Path:
    """A certificate of its own for 127.0.0.1, its key beside it (.key)."""
    if shutil.which("openssl") is None:
        pytest.skip("openssl makes the certificate")
    made = folder / "server.pem"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2",
         "-keyout", str(made.with_suffix(".key")), "-out", str(made), "-subj", "/CN=mirror",
         "-addext", "subjectAltName=IP:127.0.0.1"],
        check=True, capture_output=True,
    )  # fmt: skip
    return made


def wait_until(condition: Callable[[], bool]) -> None:
    """Until it holds; the test's own time limit ends it otherwise."""
    while not condition():
        time.sleep(0.005)
