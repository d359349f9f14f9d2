"""A camera's source, as configured: where its pictures come from and how long to wait for them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Literal
from urllib.parse import quote, unquote, urlsplit, urlunsplit

from edge.core import checks
from edge.core.errors import InvalidValue
from edge.core.masks import Mask
from edge.core.secrecy import MASK
from edge.ingest.secrets import Secret, redact, resolve_secret

__all__ = ["MASK", "CameraSource", "Secret", "redact", "resolve_secret"]

Transport = Literal["tcp", "udp"]
Kind = Literal["rtsp", "file", "stills"]


@dataclass(frozen=True)
class CameraSource:
    """One camera.

    `url` is `rtsp://` or `rtsps://host[:port]/path`, `file:///path`, or a plain path: a video file (looped, paced at
    its own rate) or a folder of stills (jpg, png in the order of their names, `seconds_per_picture` each).
    Credentials inside the URL are accepted, but moved out of it at once: `url` never holds them afterwards.
    `password_from` is `env:NAME`, `file:/path`, `file:/path#key` or `secret:NAME` of the file `secrets`, looked up
    anew for each attempt to connect.

    A camera that gives nothing for `stall_timeout_s` is stalled. It is tried again after `retry_first_s`, then after
    `retry_min_s`, doubling up to `retry_max_s`. `max_fps` thins what is offered to the consumer (None: all frames).
    `detect_frozen` reports a picture that does not change at all; switch it off for a scene that is truly still.
    `masks` are blacked out in every picture.

    :raises InvalidValue: a field is out of range; the path begins with `camera.`; passwords are never repeated.
    """

    camera: str
    url: str
    transport: Transport = "tcp"
    username: str = ""
    password_from: str = ""
    stall_timeout_s: float = 5.0
    retry_first_s: float = 0.0
    retry_min_s: float = 1.0
    retry_max_s: float = 30.0
    max_fps: float | None = None
    seconds_per_picture: float = 1.0
    detect_frozen: bool = True
    secrets: Path | None = None
    masks: tuple[Mask, ...] = ()
    inline_password: Secret = field(default_factory=Secret, repr=False)

    def __post_init__(self) -> None:
        if not isinstance(self.camera, str) or not self.camera.strip() or len(self.camera) > 100:
            raise InvalidValue("camera.camera", self.camera, "a name of 1 to 100 characters")
        self._check_url()
        checks.one_of("camera.transport", self.transport, ("tcp", "udp"))
        checks.in_range("camera.stall_timeout_s", self.stall_timeout_s, 0.2, 600.0)
        checks.in_range("camera.retry_first_s", self.retry_first_s, 0.0, 600.0)
        checks.in_range("camera.retry_min_s", self.retry_min_s, 0.1, 600.0)
        checks.in_range("camera.retry_max_s", self.retry_max_s, self.retry_min_s, 3600.0)
        checks.in_range("camera.seconds_per_picture", self.seconds_per_picture, 0.01, 86400.0)
        if self.max_fps is not None:
            checks.in_range("camera.max_fps", self.max_fps, 0.0, 240.0, low_open=True)
        if self.password_from and not self.password_from.startswith(("env:", "file:", "secret:")):
            resolve_secret(self.password_from, "camera.password_from")  # raises, without repeating the text

    def _check_url(self) -> None:
        allowed = "rtsp://host/path, rtsps://host/path, file:///path, or the path of a video file or folder"
        if not isinstance(self.url, str) or not self.url.strip() or any(c in self.url for c in "\r\n\0"):
            raise InvalidValue("camera.url", redact(self.url), allowed)
        if "://" not in self.url:
            return
        try:
            parts = urlsplit(self.url)
            host, _ = parts.hostname, parts.port
        except ValueError:
            raise InvalidValue("camera.url", redact(self.url), allowed) from None
        if parts.scheme not in ("rtsp", "rtsps", "file") or (parts.scheme != "file" and not host):
            raise InvalidValue("camera.url", redact(self.url), allowed)
        credentials, at, place = parts.netloc.rpartition("@")
        if at:
            user, _, password = credentials.partition(":")
            clean = urlunsplit((parts.scheme, place, parts.path, parts.query, parts.fragment))
            object.__setattr__(self, "url", clean)
            if not self.username:
                object.__setattr__(self, "username", unquote(user))
            if not self.password_from and password:
                object.__setattr__(self, "inline_password", Secret(unquote(password)))

    @property
    def kind(self) -> Kind:
        """The kind to open; a path that is a folder now is a folder of stills."""
        if self.url.startswith(("rtsp://", "rtsps://")):
            return "rtsp"
        return "stills" if self.path.is_dir() else "file"

    @property
    def path(self) -> Path:
        """The file or folder, for kinds other than "rtsp"."""
        return Path(unquote(urlsplit(self.url).path)) if self.url.startswith("file://") else Path(self.url)

    def check_folder(self, before: str, allowed: Sequence[str]) -> None:
        """Whether settings that came from outside may name these pictures: of a camera on the network, at the url
        `before`, or in one of the folders `allowed`. Else a user that may change a camera could look at any picture of
        this machine. Raises InvalidValue."""
        if self.kind == "rtsp" or self.url == before:
            return
        real = self.path.resolve()
        if not any(real.is_relative_to(Path(folder).resolve()) for folder in allowed):
            folders = ", ".join(allowed) or "none is allowed"
            raise InvalidValue("url", self.url, f"rtsp://, or files in web.access.media_folders ({folders})")

    @property
    def address(self) -> tuple[str, int]:
        """Host and TCP port of an RTSP camera."""
        parts = urlsplit(self.url)
        return parts.hostname or "", parts.port or (322 if parts.scheme == "rtsps" else 554)

    def password(self, environment: Mapping[str, str] | None = None) -> Secret:
        """The password as it is now. :raises InvalidValue: `password_from` names something absent."""
        if self.password_from:
            return resolve_secret(self.password_from, "camera.password_from", environment, self.secrets)
        return self.inline_password

    def url_with(self, password: Secret) -> str:
        """The URL with credentials inside, for FFmpeg only: never log or store it."""
        if self.kind != "rtsp" or not (self.username or password):
            return self.url
        scheme, _, rest = self.url.partition("://")
        return f"{scheme}://{quote(self.username, safe='')}:{quote(password.reveal(), safe='')}@{rest}"

    def to_json(self) -> dict[str, Any]:
        """All settings but a password that came inside the URL, where secrets are kept, and masks."""
        hidden = ("inline_password", "secrets", "masks")
        return {f.name: getattr(self, f.name) for f in fields(self) if f.name not in hidden}
