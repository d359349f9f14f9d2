"""Addresses that devices name: which of them are of the device that was asked."""

from __future__ import annotations

import asyncio
import ipaddress
import socket
from collections.abc import Collection
from dataclasses import dataclass
from typing import Final
from urllib.parse import SplitResult, urlsplit

import psutil

from edge.core.errors import InvalidValue
from edge.discovery.daemon_thread import in_daemon_thread

_SERVICE: Final = "/onvif/device_service"
_LONGEST: Final = 1000
_USUAL_PORTS: Final = {"http": 80, "https": 443}
Interface = ipaddress.IPv4Interface


@dataclass(frozen=True)
class Host:
    """A host, looked up once. `addresses`: those that its name led to, IPv4 first; none where it led nowhere."""

    name: str
    addresses: tuple[str, ...]

    @property
    def known(self) -> frozenset[str]:
        """Its name and addresses."""
        return frozenset({self.name, *self.addresses})


def service_of(address: str) -> str:
    """The address of the device service at `address`: host, host:port or http(s)://host[:port][/path]; one and the same
    for each way to write it. Raises InvalidValue."""
    if len(address) > _LONGEST or any(c.isspace() or not c.isprintable() for c in address):
        raise InvalidValue("addresses", address, f"an address without spaces, at most {_LONGEST} characters")
    if address.count(":") > 1 and not any(part in address for part in ("://", "[", "@")):
        raise InvalidValue("addresses", address, "an IPv6 address in brackets: [fe80::1] or [fe80::1]:8080")
    parts = _split(address if "://" in address else f"http://{address}")
    if parts is None or parts.scheme not in ("http", "https") or not parts.hostname or parts.username is not None:
        raise InvalidValue("addresses", address, "host, host:port or http://host:port/path, without a user")
    path = parts.path if parts.path not in ("", "/") else _SERVICE
    return f"{parts.scheme}://{_netloc(parts)}{path}"


def shown(url: str) -> str:
    """A device's name for people, of the address of its service: its host, with the port and the path where they are
    not the usual ones."""
    parts = _split(url)
    if parts is None:
        return ""
    return _netloc(parts) + (parts.path if parts.path not in ("", "/", _SERVICE) else "")


def _netloc(parts: SplitResult) -> str:
    host = _plain(parts.hostname or "")
    host = f"[{host}]" if ":" in host else host
    return host if parts.port in (None, _USUAL_PORTS.get(parts.scheme)) else f"{host}:{parts.port}"


def host_of(url: str, schemes: Collection[str]) -> str:
    """The host of an address of one of these schemes, in small letters; "" for anything else."""
    parts = _split(url)
    if parts is None or parts.scheme not in schemes:
        return ""
    return _plain(parts.hostname or "")


def same_host(host: str, known: Collection[str]) -> bool:
    """Whether `host` is one of the device's `known` names and addresses, however it is written."""
    return bool(host) and _plain(host) in known


async def looked_up(host: str) -> Host:
    """The host with the addresses that its name leads to. A look-up that takes too long may be left alone: its thread
    delays no other."""
    name = _plain(host)
    if _is_address(name):
        return Host(name, (name,))
    try:
        found = await asyncio.wrap_future(in_daemon_thread(f"look-up of {name}", lambda: _answers(host)))
    except (OSError, UnicodeError):
        return Host(name, ())
    return Host(name, tuple(dict.fromkeys(sorted(map(_plain, found), key=lambda a: ":" in a))))


def _answers(host: str) -> list[str]:
    return [str(info[4][0]) for info in socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)]


def without_user(url: str) -> str:
    """An address without the user and the password before its host."""
    parts = _split(url)
    return "" if parts is None else parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()


def interfaces(network: str = "") -> tuple[Interface, ...]:
    """This machine's IPv4 addresses with their networks, loopback last; with a `network` those that are in it. Raises
    InvalidValue for no network, or one that this machine has no address in."""
    wanted = None
    if network:
        try:
            wanted = ipaddress.IPv4Network(network, strict=False)
        except ValueError:
            raise InvalidValue("network", network, "an IPv4 network such as 10.0.0.0/24") from None
    found = sorted(own_interfaces(), key=lambda i: (i.is_loopback, i))
    chosen = tuple(i for i in found if wanted is None or i.ip in wanted)
    if wanted is not None and not chosen:
        own = ", ".join(sorted({str(i.network) for i in found}))
        raise InvalidValue("network", network, f"a network that this machine has an address in: {own}")
    return chosen


def own_interfaces() -> set[Interface]:
    """This machine's IPv4 addresses with their networks."""
    found = set()
    for addresses in psutil.net_if_addrs().values():
        for one in addresses:
            if one.family == socket.AF_INET and one.netmask:
                found.add(ipaddress.IPv4Interface(f"{one.address}/{one.netmask}"))
    return found


def _split(url: str) -> SplitResult | None:
    try:
        parts = urlsplit(url)
        _ = parts.port  # read now: it is checked when it is read
    except ValueError:
        return None
    return parts


def _plain(host: str) -> str:
    try:
        return str(ipaddress.ip_address(host.strip("[]")))
    except ValueError:
        return host.lower().rstrip(".")


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True
