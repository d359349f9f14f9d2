"""The cursor of a page of all boxes as text."""

from __future__ import annotations

import base64
import binascii
import json
import zlib
from typing import Final

from pydantic import TypeAdapter, ValidationError

from edge.core.errors import InvalidValue
from scheduler.fleet.pages import FleetCursor

#: Of the text, and of what it holds: far more than any fleet's.
MOST_TEXT: Final = 6000
_MOST_BYTES: Final = 100_000
_KIND: Final = TypeAdapter(FleetCursor)


def cursor_text(cursor: FleetCursor | None) -> str | None:
    """As a query has it; None: there is no next page."""
    if cursor is None:
        return None
    plain = {"before": dict(cursor.before), "ended": sorted(cursor.ended), "shown": sorted(cursor.shown)}
    return base64.urlsafe_b64encode(zlib.compress(json.dumps(plain, sort_keys=True).encode(), 9)).decode()


def cursor_of(text: str) -> FleetCursor:
    """The cursor of a text; the first page's of an empty one. Raises InvalidValue."""
    if not text:
        return FleetCursor()
    try:
        packed = base64.b64decode(text.encode("ascii"), altchars=b"-_", validate=True)
        opened = zlib.decompressobj()
        plain = opened.decompress(packed, _MOST_BYTES)
        if opened.eof:
            return _KIND.validate_json(plain)
    except (ValueError, binascii.Error, zlib.error, ValidationError):
        pass
    raise InvalidValue("query.cursor", text[:100], "`next` of the page before")
