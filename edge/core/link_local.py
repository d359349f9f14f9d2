"""Addresses that only a machine's own network answers: among them those at which clouds hand out their credentials."""

from __future__ import annotations

import ipaddress


def link_local(address: str) -> bool:
    """Whether the address is of 169.254.0.0/16 or fe80::/10, however it is written; False for no address."""
    try:
        found = ipaddress.ip_address(address.strip("[]").partition("%")[0])
    except ValueError:
        return False
    if isinstance(found, ipaddress.IPv6Address):
        return found.is_link_local or (found.ipv4_mapped is not None and found.ipv4_mapped.is_link_local)
    return found.is_link_local
