"""Settings of a fleet's Ray cluster: addresses, secrets, and how soon a dead box is noticed.

Nothing here needs Ray. Secrets reach Ray's processes by their environment, never by a command line.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from edge.core import checks
from edge.core.errors import InvalidValue

#: The Ray label that names a fleet's box.
BOX_LABEL: Final = "magpie-box"
#: The fleet's amounts have names with this prefix as resources of Ray, apart from Ray's own.
RESOURCE_PREFIX: Final = "magpie."
_LABEL: Final = re.compile(r"[A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?")
#: Ray's sockets lie 63 characters below the folder, and a socket's path has at most 107.
_LONGEST_FOLDER: Final = 40
_SHORTEST_TOKEN: Final = 16
_JOIN_S: Final = 3
#: Switched off, Ray keeps a loopback address as it is given; else its driver and its agents replace it by the machine's
#: own, on which a cluster that was started on loopback does not listen.
_REPLACE_LOOPBACK: Final = "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"


def check_box_name(path: str, name: str) -> None:
    """A box's name has to be a label of Ray. Raises InvalidValue."""
    if not _LABEL.fullmatch(name):
        raise InvalidValue(path, name, "for Ray: at most 63 letters, digits and _ . -, a letter or digit at both ends")


def address_environment(path: str, address: str) -> dict[str, str]:
    """Variables for processes of Ray on a box with this address in the cluster. Raises InvalidValue."""
    try:
        loopback = ipaddress.ip_address(address).is_loopback
    except ValueError:
        raise InvalidValue(path, address, "an IP address of this box") from None
    return {_REPLACE_LOOPBACK: "0"} if loopback else {}


def join_environment() -> dict[str, str]:
    """Variables for a process that joins a cluster. Ray would ask 20 to 120 times, also where its token is refused."""
    return {"RAY_gcs_server_port_wait_time_s": str(_JOIN_S)}


@dataclass(frozen=True)
class RayCertificates:
    """Files of this box, PEM: its certificate, its key, and the authority that signed those of all boxes."""

    certificate: Path
    key: Path
    authority: Path

    def __post_init__(self) -> None:
        for name in ("certificate", "key", "authority"):
            path: Path = getattr(self, name)
            if not path.is_file():
                raise InvalidValue(f"certificates.{name}", str(path), "a file that is there")


@dataclass(frozen=True)
class RaySecurity:
    """Only holders of `token` and of a certificate of the authority may talk to the cluster, and they can run code on
    every box. There is no cluster without either: Ray would send the token, and all data, in clear."""

    token: str = field(repr=False)
    certificates: RayCertificates

    def __post_init__(self) -> None:
        if len(self.token) < _SHORTEST_TOKEN or not self.token.isascii() or not self.token.isprintable():
            raise InvalidValue("token", f"{len(self.token)} characters", f"{_SHORTEST_TOKEN} or more, printable ASCII")

    def environment(self) -> dict[str, str]:
        """Variables for each process of Ray."""
        return {
            "RAY_AUTH_MODE": "token",
            "RAY_AUTH_TOKEN": self.token,
            "RAY_USE_TLS": "1",
            "RAY_TLS_SERVER_CERT": str(self.certificates.certificate),
            "RAY_TLS_SERVER_KEY": str(self.certificates.key),
            "RAY_TLS_CA_CERT": str(self.certificates.authority),
            "RAY_USAGE_STATS_ENABLED": "0",
        }


@dataclass(frozen=True)
class RayNodeSpec:
    """One box's part of the cluster. `head` (HOST:PORT) is the cluster that it joins; None: it is the head, whose state
    is kept in `folder` and that listens on `port` (0: any). `folder` must be short. `warm_workers` processes are kept
    for tasks. A head's store that ended is started again after `restart_s`. `health_s`: after so long without an answer
    a box counts as gone. `headless_s`: after so long without the head's store a box's part of Ray ends itself."""

    box: str
    folder: Path
    security: RaySecurity
    address: str
    head: str | None = None
    port: int = 0
    warm_workers: int = 1
    restart_s: float = 1.0
    health_s: float = 5.0
    headless_s: float = 60.0
    object_store_bytes: int = 80 * 2**20

    def __post_init__(self) -> None:
        check_box_name("box", self.box)
        if len(str(self.folder)) > _LONGEST_FOLDER or not self.folder.is_absolute():
            raise InvalidValue("folder", str(self.folder), f"an absolute path of at most {_LONGEST_FOLDER} characters")
        address_environment("address", self.address)
        checks.in_range("port", self.port, 0, 65535)
        checks.in_range("warm_workers", self.warm_workers, 1, 1000)
        checks.in_range("restart_s", self.restart_s, 0.0, 3600.0)
        checks.in_range("health_s", self.health_s, 1.0, 60.0)
        checks.in_range("headless_s", self.headless_s, 1.0, 3600.0)

    def environment(self) -> Mapping[str, str]:
        """Variables of this box's processes: secrets, the store's place, how soon a dead box is noticed."""
        shared = self.security.environment() | address_environment("address", self.address)
        if self.head is None:
            shared |= {"RAY_gcs_storage": "rocksdb", "RAY_gcs_storage_path": str(self.folder / "store")}
        else:
            shared |= join_environment()
        return shared | {
            "RAY_health_check_initial_delay_ms": "1000",
            "RAY_health_check_period_ms": "1000",
            "RAY_health_check_timeout_ms": "2000",
            "RAY_health_check_failure_threshold": str(max(1, round(self.health_s - 1.0))),
            "RAY_gcs_rpc_server_reconnect_timeout_s": str(round(self.headless_s)),
        }
