"""Names under which a port may be asked for: a page of another site whose name was made to point here is refused."""

from __future__ import annotations

import ipaddress
import re
import socket
from collections.abc import Iterable, Sequence
from typing import Final
from urllib.parse import urlsplit

from edge.settings import WebSettings

#: The form of a browser's `Host`. Anything else is not a name, and never goes into a header of an answer.
PLAIN_HOST: Final = re.compile(r"[A-Za-z0-9.\-\[\]:_]{1,260}")


class Hosts:
    """The names of `allowed`, this machine's own (also without its domain), localhost, and any address in numbers.
    Neither case nor a dot at the end matters."""

    def __init__(self, allowed: Iterable[str], machine: str | None = None) -> None:
        own = (machine if machine is not None else socket.gethostname()).lower().removesuffix(".")
        short = own.partition(".")[0]
        self._allowed = {"localhost", own, short, f"{own}.local", f"{short}.local", *(n.lower() for n in allowed)}

    @classmethod
    def of_site(cls, web: WebSettings) -> Hosts | None:
        """The hosts of the site's settings; None: any name will do.

        A log-in's cookie belongs to one name, so another site's page gains nothing where people log in; without a
        log-in, a name that was made to point here (DNS rebinding) would make its page an admin.
        """
        return Hosts(web.hosts) if web.hosts or not web.access.enabled else None

    def refused_of(self, headers: Sequence[str]) -> str | None:
        """The first name in a request's `Host` headers that is none of ours; None: it may go on. A request without
        such a header (HTTP/1.0) comes from no browser."""
        return next((name for name in map(self.refused, headers) if name is not None), None)

    def refused(self, header: str) -> str | None:
        """The name in a `Host` header, if it is none of ours; None: it may be used. Never raises."""
        if not PLAIN_HOST.fullmatch(header):
            return header[:100]
        try:
            name = (urlsplit(f"//{header}").hostname or "").removesuffix(".")
        except ValueError:
            return header[:100]
        if name and name in self._allowed:
            return None
        try:
            ipaddress.ip_address(name)
        except ValueError:
            return name[:100]
        return None
