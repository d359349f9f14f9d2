"""Addresses that devices name: which of them are of the device that was asked."""

from __future__ import annotations

import asyncio
import ipaddress
import socket
from collections.abc import Collection
from urllib.parse import SplitResult, urlsplit

import psutil

from edge.core.errors import InvalidValue

_SERVICE = "/onvif/device_service"
Interface = ipaddress.IPv4Interface


def service_of(address: str) -> str:
    """The address of the device service at `address`: host, host:port or http(s)://host[:port][/path]. Raises
    InvalidValue."""
    parts = _split(address if "://" in address else f"http://{address}")
    if parts is None or parts.scheme not in ("http", "https") or not parts.hostname or parts.username is not None:
        raise InvalidValue("addresses", address, "host, host:port or http://host:port/path, without a user")
    if any(c.isspace() or not c.isprintable() for c in address):
        raise InvalidValue("addresses", address, "an address without spaces")
    path = parts.path if parts.path not in ("", "/") else _SERVICE
    return f"{parts.scheme}://{parts.netloc}{path}"


def shown(url: str) -> str:
    """A device's name for people, of the address of its service: its host, with the port where it is not the usual
    one."""
    parts = _split(url)
    return "" if parts is None else parts.netloc.removesuffix(":80" if parts.scheme == "http" else ":443")


def host_of(url: str, schemes: Collection[str]) -> str:
    """The host of an address of one of these schemes, in small letters; "" for anything else."""
    parts = _split(url)
    if parts is None or parts.scheme not in schemes:
        return ""
    return _plain(parts.hostname or "")


def same_host(host: str, known: Collection[str]) -> bool:
    """Whether `host` is one of the device's `known` names and addresses, however it is written."""
    return bool(host) and _plain(host) in known


async def names_of(host: str) -> frozenset[str]:
    """The host itself and the addresses that its name leads to, none if it leads nowhere."""
    try:
        found = await asyncio.get_running_loop().getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        return frozenset({_plain(host)})
    return frozenset({_plain(host), *(_plain(str(info[4][0])) for info in found)})


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
