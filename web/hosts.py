"""Names under which the page may be asked for: a page of another site whose name was made to point here is refused."""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Iterable
from urllib.parse import urlsplit

from edge.settings import WebSettings


class Hosts:
    """The names of `allowed`, this machine's own, localhost, and any address in numbers. Case does not matter."""

    def __init__(self, allowed: Iterable[str], machine: str | None = None) -> None:
        own = (machine if machine is not None else socket.gethostname()).lower()
        self._allowed = {"localhost", own, f"{own}.local", *(name.lower() for name in allowed)}

    @classmethod
    def of_site(cls, web: WebSettings) -> Hosts | None:
        """What the site's settings ask for; None: any name will do.

        A log-in's cookie belongs to one name, so another site's page gains nothing where people log in; where nobody
        does, a name that was made to point here (DNS rebinding) would make its page an admin.
        """
        return Hosts(web.hosts) if web.hosts or not web.access.enabled else None

    def refused(self, header: str) -> str | None:
        """The name in a `Host` header, if it is none of ours; None: it may be used."""
        try:
            name = urlsplit(f"//{header}").hostname or ""
        except ValueError:
            return header[:100]
        if name.rstrip(".") in self._allowed:
            return None
        try:
            ipaddress.ip_address(name)
        except ValueError:
            return name[:100]
        return None
