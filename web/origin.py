"""Requests that a page of another site made a browser send."""

from __future__ import annotations

from urllib.parse import urlsplit


def foreign_origin(origin: str | None, host: str) -> str | None:
    """The `Origin` of a request that a page of another site sent, or None.

    Browsers let any page send some requests to any address, so without this check a page that the operator visits
    could change settings, watch cameras or unload models. Programs send no Origin.
    """
    if origin is None:
        return None
    try:
        same = urlsplit(origin).netloc.lower() == host.lower()
    except ValueError:  # no address at all
        same = False
    return None if same else origin
