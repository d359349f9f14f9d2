"""A running appliance over REST, for commands: JSON in, JSON out, errors in words."""

from __future__ import annotations

import argparse
import http.client
import json
import urllib.error
import urllib.request
from collections.abc import Callable
from typing import Any, TypeVar

from edge.core.errors import InvalidValue, MagpieError, NotFound, Unavailable
from edge.core.secrecy import without_credentials
from edge.ingest.secrets import Secret, resolve_secret

_PATIENCE_S = 120.0
_LARGEST, _PART = 64 << 20, 1 << 20
Read = TypeVar("Read")


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """A token is sent only to the address that was given."""

    def redirect_request(self, *_: Any, **__: Any) -> None:
        return None


def add_remote_arguments(parser: argparse.ArgumentParser) -> None:
    """The options that name a running appliance, read by `remote_of`."""
    parser.add_argument("--url", default="http://127.0.0.1:8080", help="a running appliance (%(default)s)")
    parser.add_argument("--token-from", default="", metavar="REF", help="env:NAME or file:/path[#key], an API token")


class Remote:
    """The appliance at `url`, e.g. http://127.0.0.1:8080. Raises InvalidValue for what is not such an address."""

    def __init__(self, url: str, token: Secret | None = None) -> None:
        if not url.startswith(("http://", "https://")):
            raise InvalidValue("--url", without_credentials(url), "http:// or https://")
        self._base = url.rstrip("/") + "/api/v1"
        self._token = token or Secret()
        self._opener = urllib.request.build_opener(_NoRedirect)

    def ask(self, method: str, path: str, body: Any = None) -> Any:
        """The answer's JSON, None for an empty one. Raises NotFound, MagpieError (refused: its words), Unavailable."""
        data = None if body is None else json.dumps(body).encode()
        raw = self._send(method, path, data, lambda response: bytes(response.read(_LARGEST)))
        try:
            return json.loads(raw) if raw else None
        except ValueError as error:
            where = without_credentials(self._base + path)
            raise Unavailable(f"{where}: no appliance answers: {error}") from None

    def fetch(self, path: str, write: Callable[[bytes], object]) -> None:
        """Hand a file of the appliance to `write`, part by part. Raises as `ask`."""

        def read(response: Any) -> None:
            while part := response.read(_PART):
                write(part)

        self._send("GET", path, None, read)

    def content(self, path: str) -> bytes:
        """A file of the appliance as a whole. Raises as `ask`, MagpieError for a very large one."""
        found = self._send("GET", path, None, lambda response: bytes(response.read(_LARGEST + 1)))
        if len(found) > _LARGEST:
            where = without_credentials(self._base + path)
            raise MagpieError(f"{where}: the answer has more than {_LARGEST >> 20} MiB")
        return found

    def _send(self, method: str, path: str, data: bytes | None, read: Callable[[Any], Read]) -> Read:
        """Give the response to `read`, and return its result."""
        headers = {"content-type": "application/json"}
        if self._token:
            headers["authorization"] = f"Bearer {self._token.reveal()}"
        request = urllib.request.Request(self._base + path, data, headers, method=method)
        where = without_credentials(self._base + path)
        try:
            with self._opener.open(request, timeout=_PATIENCE_S) as response:
                return read(response)
        except urllib.error.HTTPError as error:
            words = _words(error, where)
            raise (NotFound(words) if error.code == 404 else MagpieError(words)) from None
        except (urllib.error.URLError, http.client.HTTPException, OSError, ValueError) as error:
            raise Unavailable(f"{where}: no appliance answers: {getattr(error, 'reason', error)}") from None


def remote_of(args: argparse.Namespace) -> Remote:
    """The appliance that `--url` and `--token-from` name. Raises InvalidValue."""
    return Remote(args.url, resolve_secret(args.token_from, "--token-from"))


def _words(error: urllib.error.HTTPError, where: str) -> str:
    hint = " (--token-from gives a token; `magpie user token` makes one)" if error.code == 401 else ""
    try:
        return str(json.loads(error.read(_LARGEST))["error"]["message"]) + hint
    except (http.client.HTTPException, OSError, ValueError, KeyError, TypeError):
        return f"{where} answered {error.code}{hint}"
