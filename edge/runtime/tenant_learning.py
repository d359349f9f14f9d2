"""The knowledge of tenants as it is kept over restarts: read again, without damaged parts, and written behind."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from edge.core.clock import Clock
from edge.core.errors import InvalidValue
from edge.core.fields import mapping
from edge.core.tenants import Tenant
from scheduler.tenants.known import LearnedTenant

#: Learned curves and loads are written at most so often, in seconds.
_KEEP_S = 30.0


def restored(
    document: Any, tenants: Sequence[Tenant], utc_s: float
) -> tuple[dict[str, LearnedTenant], dict[str, InvalidValue]]:
    """The knowledge that a document has, by tenant, and the error of each of which it is damaged: that is forgotten. If
    the document is none, that is so of all `tenants`."""
    known: dict[str, LearnedTenant] = {}
    errors: dict[str, InvalidValue] = {}
    try:
        found = mapping(mapping({} if document is None else document, "document").get("tenants", {}), "tenants")
    except InvalidValue as error:
        found, errors = {}, {tenant.id: error for tenant in tenants}
    for name, value in found.items():
        path = f"tenants.{name}"
        try:
            known[name] = LearnedTenant.from_json(value, path)
            known[name].check(path)
        except InvalidValue as error:
            errors[name] = error
    lost = {name: LearnedTenant(forgotten="damaged", forgotten_utc_s=utc_s) for name in errors}
    return {**known, **lost}, errors


class LearningWriter:
    """Writes `document()` by `keep` at most every _KEEP_S seconds while it changes."""

    def __init__(
        self, keep: Callable[[dict[str, Any]], None], document: Callable[[], dict[str, Any]], clock: Clock
    ) -> None:
        self._keep, self._document, self._clock = keep, document, clock
        self._last_s, self._unkept = -1e18, False

    def changed(self, at_once: bool = False) -> None:
        """There is something new."""
        self._unkept = True
        if at_once:
            self.now()
        self.look()

    def look(self) -> None:
        """Write, if there is something new and it is time."""
        if self._clock.monotonic() - self._last_s >= _KEEP_S:
            self.now()

    def now(self) -> None:
        """Write what is new."""
        if self._unkept:
            self._unkept, self._last_s = False, self._clock.monotonic()
            self._keep(self._document())
