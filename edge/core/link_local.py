"""Addresses that only a machine's own network answers: among them those at which clouds hand out their credentials."""

from __future__ import annotations

import ipaddress

#: IPv6 networks whose last 32 bits are an IPv4 address.
_EMBEDDING = (ipaddress.IPv6Network("::/96"), ipaddress.IPv6Network("64:ff9b::/96"))


def link_local(address: str) -> bool:
    """Whether the address is of 169.254.0.0/16 or fe80::/10, or an IPv6 address that leads to one of the former
    (mapped, compatible, NAT64, 6to4), however it is written; False for no address."""
    try:
        found = ipaddress.ip_address(address.strip("[]").partition("%")[0])
    except ValueError:
        return False
    if isinstance(found, ipaddress.IPv6Address):
        inner = [found.ipv4_mapped, found.sixtofour]
        if any(found in network for network in _EMBEDDING):
            inner.append(ipaddress.IPv4Address(int(found) & 0xFFFFFFFF))
        return found.is_link_local or any(i is not None and i.is_link_local for i in inner)
    return found.is_link_local
