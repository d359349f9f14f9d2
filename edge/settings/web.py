"""Settings of REST and the page: where they listen, who may come in."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from edge.settings.base import Settings


class AccessSettings(Settings):
    """Access by REST and the page."""

    enabled: bool = Field(True, description="off: everybody who reaches the port is an admin")
    session_hours: float = Field(12, gt=0, le=8760, description="a login ends after so long")
    idle_minutes: float = Field(240, ge=1, le=525600, description="a login ends when it is not used for so long")
    secret_references: tuple[Annotated[str, Field(pattern=r"^(env:[A-Za-z0-9_]+|file:/.*|secret:.*)$")], ...] = Field(
        ("secret:", "file:/run/secrets/"),
        description="prefixes that a password reference by REST may have; this file may name any",
    )
    media_folders: tuple[Annotated[str, Field(pattern=r"^/")], ...] = Field(
        (),
        description="folders whose video files and pictures a camera by REST may show; this file may name any",
    )


class TlsSettings(Settings):
    """Files in PEM form; read again when they change."""

    certificate: str = Field(min_length=1, description="the certificate and those between it and the root")
    key: str = Field(min_length=1, description="its private key, without a passphrase")


def local_host(host: str) -> str:
    """The host of an address at which this machine reaches a port that it opened on `host` itself."""
    reached = {"0.0.0.0": "127.0.0.1", "::": "::1", "": "127.0.0.1"}.get(host, host)
    return f"[{reached}]" if ":" in reached and not reached.startswith("[") else reached


class WebSettings(Settings):
    """Where REST and the page listen."""

    host: str = "127.0.0.1"
    port: int = Field(8080, ge=0, le=65535)
    access: AccessSettings = AccessSettings()
    tls: TlsSettings | None = Field(None, description="https; empty: http")
    hosts: tuple[Annotated[str, Field(pattern=r"^[A-Za-z0-9]([A-Za-z0-9.-]{0,251}[A-Za-z0-9])?$")], ...] = Field(
        (),
        description="names that the page, and served models that need no token, may be asked for by, beside addresses, "
        "localhost and the machine's own; empty: any name where people log in",
    )

    def page(self, port: int | None = None) -> str:
        """The page's address on this machine; `port` is the one that was opened where 0 was asked for."""
        scheme = "http" if self.tls is None else "https"
        return f"{scheme}://{local_host(self.host)}:{self.port if port is None else port}/"
