"""One address, opened at an offset: HTTP with Range, or a file. Each error of a server has its kind.

urllib, not aiohttp: one file after the other needs no event loop (docs/decisions/model-files.md).
"""

from __future__ import annotations

import http.client
import re
import ssl
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import IO, Any, Final, Literal
from urllib.parse import unquote, urlsplit

FailureKind = Literal[
    "unreachable",  # no connection
    "certificate",  # TLS: not the named server
    "redirect",  # to a scheme that is not followed, or in a circle
    "status",  # an HTTP error
    "web_page",  # HTML instead of the file, with status 200
    "encoded",  # compressed although asked not to
    "wrong_length",  # the file there has another size
    "wrong_range",  # another part than the one asked for
    "changed",  # the file there is no longer the one whose beginning is here
    "broke_off",  # the connection ended before the file did
    "timed_out",  # nothing came for too long
    "too_slow",  # next to nothing came for too long
    "too_long",  # it goes on after the file's end
    "wrong_content",  # whole, and not the file
    "no_file",  # file: address without a readable file
]
_AGENT: Final = "magpie-edge"
_BUSY: Final = (408, 425, 429, 500, 502, 503, 504)
_LONGEST_WAIT_S: Final = 60.0


class SourceFailure(Exception):
    """One attempt at one address failed. `again`: worth another try there, `wait_s` later if the server said so;
    `discard`: the part received so far is worth nothing.
    """

    def __init__(
        self, kind: FailureKind, message: str, *, again: bool = False, discard: bool = False, wait_s: float = 0.0
    ) -> None:
        super().__init__(message)
        self.kind, self.message, self.again, self.discard, self.wait_s = kind, message, again, discard, wait_s


@dataclass(frozen=True)
class Source:
    """An opened address: bytes from `start` on; `total` bytes of the whole file, None if not stated. `validator`
    is its strong ETag or Last-Modified, "" without. `read(n)` gives at most n bytes as they come, b"" at the end."""

    start: int
    total: int | None
    validator: str
    read: Callable[[int], bytes]


@contextmanager
def open_source(address: str, offset: int, validator: str, timeout_s: float) -> Iterator[Source]:
    """Open `address` (http, https, file) at `offset` bytes. `validator`: that of an earlier answer of the same address;
    another file there is then not continued. `timeout_s` is for each wait on the network.

    Raises:
        SourceFailure
    """
    with ExitStack() as stack:
        if urlsplit(address).scheme == "file":
            yield _file(stack, Path(unquote(urlsplit(address).path)), offset, validator)
        else:
            yield _http(stack, address, offset, validator, timeout_s)


def _file(stack: ExitStack, path: Path, offset: int, validator: str) -> Source:
    try:
        if not path.is_file():
            raise SourceFailure("no_file", f"{path} is not there")
        stream = stack.enter_context(path.open("rb"))
        status = path.stat()
        if offset > status.st_size or (validator and validator != f"{status.st_mtime_ns}"):
            offset = 0
        stream.seek(offset)
    except OSError as error:
        raise SourceFailure("no_file", f"{path}: {error.strerror}") from None

    def read(n: int) -> bytes:
        try:
            return stream.read(n)
        except OSError as error:  # a stick that was pulled out, a share that went away
            raise SourceFailure("broke_off", f"{path}: {error.strerror}", again=True) from None

    return Source(offset, status.st_size, f"{status.st_mtime_ns}", read)


class _Redirects(urllib.request.HTTPRedirectHandler):
    """Follows to https, and from http to http; nowhere else."""

    def redirect_request(
        self, req: urllib.request.Request, fp: IO[bytes], code: int, msg: str, headers: Any, newurl: str
    ) -> urllib.request.Request | None:
        old, new = urlsplit(req.full_url).scheme, urlsplit(newurl).scheme
        if new != "https" and (old, new) != ("http", "http"):
            raise SourceFailure("redirect", f"it redirects from {old} to {new or 'nowhere'}, which is not followed")
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def _http(stack: ExitStack, address: str, offset: int, validator: str, timeout_s: float) -> Source:
    headers = {"User-Agent": _AGENT, "Accept-Encoding": "identity"}
    if offset:
        headers["Range"] = f"bytes={offset}-"
        if validator:
            headers["If-Range"] = validator
    opener = urllib.request.build_opener(_Redirects)
    with _failures():
        response = opener.open(urllib.request.Request(address, headers=headers), timeout=timeout_s)
    stack.callback(response.close)
    kind = response.headers.get_content_type()
    if kind in ("text/html", "application/xhtml+xml"):
        raise SourceFailure("web_page", "it answers with a web page (a login or error page?) instead of the file")
    encoding = response.headers.get("Content-Encoding", "identity").strip().lower()
    if encoding not in ("", "identity"):
        raise SourceFailure("encoded", f"it answers with the encoding {encoding}, which was not asked for")
    if response.status == 206:
        start, total = _range(response.headers.get("Content-Range", ""), offset)
        found = _validator(response.headers)
        if validator and found and found != validator:
            raise SourceFailure("changed", "the file there was changed in the meantime", again=True, discard=True)
    elif response.status == 200:
        length = response.headers.get("Content-Length", "")
        start, total, found = (
            0,
            int(length) if length.isascii() and length.isdigit() else None,
            _validator(response.headers),
        )
    else:
        raise SourceFailure("status", f"it answers with status {response.status}")

    def read(n: int) -> bytes:
        with _failures():
            return bytes(response.read1(n))

    return Source(start, total, found, read)


def _range(text: str, offset: int) -> tuple[int, int | None]:
    match = re.fullmatch(r"bytes (\d{1,18})-(\d{1,18})/(\d{1,18}|\*)", text.strip())
    if not offset or match is None or int(match[1]) != offset:
        asked = f"from byte {offset} on" if offset else "whole"
        raise SourceFailure(
            "wrong_range", f"it was asked for the file {asked} and answers with the part {text!r}", again=bool(offset),
            discard=True,
        )  # fmt: skip
    return offset, None if match[3] == "*" else int(match[3])


def _validator(headers: Any) -> str:
    """A strong ETag, else Last-Modified, else "" (RFC 9110, 13.1.5: only these may continue a file)."""
    tag = str(headers.get("ETag", "")).strip()
    return tag if re.fullmatch(r'"[^"\r\n]*"', tag) else str(headers.get("Last-Modified", "")).strip()


@contextmanager
def _failures() -> Iterator[None]:
    """Turn what urllib raises into a SourceFailure."""
    try:
        yield
    except urllib.error.HTTPError as error:
        error.close()
        raise _status(error) from None
    except urllib.error.URLError as error:
        if isinstance(error.reason, ssl.SSLCertVerificationError):
            why = error.reason.verify_message
            raise SourceFailure("certificate", f"its certificate is not trusted: {why}") from None
        if isinstance(error.reason, TimeoutError):
            raise SourceFailure("timed_out", "it does not answer in time", again=True) from None
        raise SourceFailure("unreachable", f"it cannot be reached: {error.reason}", again=True) from None
    except TimeoutError:
        raise SourceFailure("timed_out", "nothing came for too long", again=True) from None
    except http.client.InvalidURL as error:
        raise SourceFailure("unreachable", f"not an address: {error}") from None
    except (http.client.HTTPException, OSError) as error:
        words = str(error) or type(error).__name__
        raise SourceFailure("broke_off", f"the connection broke off: {words}", again=True) from None


def _status(error: urllib.error.HTTPError) -> SourceFailure:
    if error.code == 416:
        return SourceFailure("wrong_range", "it has no more than came already", again=True, discard=True)
    if error.code in (301, 302, 303, 307, 308):
        return SourceFailure("redirect", f"it redirects, which is not followed: {str(error.reason)[:200]}")
    busy = error.code in _BUSY
    words = f"it answers with status {error.code} {str(error.reason)[:80]}".rstrip()
    return SourceFailure("status", words, again=busy, wait_s=_retry_after(error.headers) if busy else 0.0)


def _retry_after(headers: Any) -> float:
    """Seconds that the server asks to wait, at most a minute; a date counts from the answer's own Date."""
    text = str(headers.get("Retry-After", "")).strip()
    if text.isascii() and text.isdigit():
        return min(float(text), _LONGEST_WAIT_S)
    try:
        wait = parsedate_to_datetime(text) - parsedate_to_datetime(str(headers.get("Date", "")))
    except (TypeError, ValueError):
        return 0.0
    return min(max(wait.total_seconds(), 0.0), _LONGEST_WAIT_S)
