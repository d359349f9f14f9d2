"""TLS of the page, REST and served models: checked before anything starts, read again when the files change.

New connections get the new certificate; those that are open go on. Files that do not fit together are refused and the
old ones stay in force.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
from pathlib import Path
from typing import Final

from edge.core.errors import InvalidValue
from edge.settings import TlsSettings

log = logging.getLogger(__name__)

_LOOK_S: Final = 10.0


class Tls:
    """The server's context. Raises InvalidValue naming web.tls.certificate or web.tls.key."""

    def __init__(self, settings: TlsSettings) -> None:
        self._settings = settings
        self._seen = self._stamps()
        self.context = _context(settings)
        #: The certificates and the key in force, PEM.
        self.pair = _pair(settings)

    def reload(self) -> bool:
        """Take over changed files; whether anything changed. Raises InvalidValue; then the old ones stay in force."""
        stamps = self._stamps()
        if stamps == self._seen:
            return False
        self._seen = stamps
        _context(self._settings)  # a context that failed to load a pair may have kept half of it
        pair = _pair(self._settings)
        _load(self.context, self._settings)
        self.pair = pair
        return True

    async def watch(self) -> None:
        """Look at the files from time to time, until cancelled."""
        while True:
            await asyncio.sleep(_LOOK_S)
            try:
                if await asyncio.to_thread(self.reload):
                    log.info("the TLS certificate was read again: %s", self._settings.certificate)
            except InvalidValue as error:
                log.error("the changed TLS files are not used: %s", error)

    def _stamps(self) -> tuple[tuple[int, ...] | None, ...]:
        return tuple(_stamp(Path(p)) for p in (self._settings.certificate, self._settings.key))


def _stamp(path: Path) -> tuple[int, ...] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    # The change time, too: files that could not be read are tried again when their permissions are put right.
    return found.st_ino, found.st_mtime_ns, found.st_ctime_ns, found.st_size


def _context(settings: TlsSettings) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["http/1.1"])
    _load(context, settings)
    return context


def _pair(settings: TlsSettings) -> tuple[bytes, bytes]:
    """The files' contents. Raises InvalidValue."""
    found = []
    for field, file in (("certificate", settings.certificate), ("key", settings.key)):
        try:
            text = Path(file).read_bytes()
        except OSError as error:
            raise InvalidValue(f"web.tls.{field}", file, f"a file that can be read ({error.strerror})") from None
        mark = b"CERTIFICATE-----" if field == "certificate" else b"PRIVATE KEY-----"
        if mark not in text:
            what = "a certificate" if field == "certificate" else "a private key"
            raise InvalidValue(f"web.tls.{field}", file, f"{what} in PEM form")
        found.append(text)
    return found[0], found[1]


def _load(context: ssl.SSLContext, settings: TlsSettings) -> None:
    _pair(settings)
    try:
        # The empty passphrase makes a protected key an error instead of a question on the terminal.
        context.load_cert_chain(settings.certificate, settings.key, password="")
    except ssl.SSLError as error:
        if "KEY_VALUES_MISMATCH" in str(error):
            raise InvalidValue("web.tls.key", settings.key, f"the key of {settings.certificate}") from None
        raise InvalidValue(
            "web.tls", f"{settings.certificate}, {settings.key}",
            f"a certificate and its key without a passphrase ({error.reason or 'cannot be used'})",
        ) from None  # fmt: skip
    except OSError as error:  # gone since it was read, as in the middle of a renewal
        files = f"{settings.certificate}, {settings.key}"
        raise InvalidValue("web.tls", files, f"files that can be read ({error.strerror})") from None
