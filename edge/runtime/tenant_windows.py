"""Windows of tenants with cameras: realised accuracies, and the mean share that their cameras had.

Accuracy is known a window late. A window counts when all cameras were measured, or when the next one's accuracies come;
an accuracy that comes later, or a second time, is left out.
"""

from __future__ import annotations

from collections.abc import Mapping

from edge.core.alarms import AccuracyMeasured
from edge.core.tenants import Tenant
from scheduler.tenants.known import SharingReport


class TenantWindows:
    """Reports of windows, until they are taken."""

    def __init__(self) -> None:
        self._accuracy: dict[int, dict[str, float]] = {}
        self._done = 0
        self._due: dict[str, SharingReport] = {}
        self._taken: dict[str, SharingReport] = {}
        self._given: dict[str, tuple[float, float]] = {}

    @property
    def due(self) -> bool:
        """A window was measured and is not decided on."""
        return bool(self._due)

    def gave(self, given: Mapping[str, float], seconds: float) -> None:
        """Tenants had these shares for so long."""
        for tenant, share in given.items():
            share_s, over_s = self._given.get(tenant, (0.0, 0.0))
            self._given[tenant] = (share_s + share * seconds, over_s + seconds)

    def measured(
        self,
        fact: AccuracyMeasured,
        tenants: tuple[Tenant, ...],
        owner: Mapping[str, str],
        utc_s: float,
        window_s: float,
    ) -> None:
        """A camera's window was measured; `owner` is the tenant of each camera that there is."""
        if fact.window <= self._done:
            return  # late or doubled: that window was decided on
        self._accuracy.setdefault(fact.window, {}).setdefault(fact.camera, fact.accuracy)
        ended = [w for w, seen in self._accuracy.items() if set(owner) <= set(seen) or w < fact.window]
        for window in sorted(ended):
            self._done = max(self._done, window)
            seen = self._accuracy.pop(window)
            for tenant in tenants:
                values = [a for c, a in seen.items() if owner.get(c) == tenant.id]
                share_s, over_s = self._given.pop(tenant.id, (0.0, 0.0))
                if values and over_s > 0:
                    mean, share = sum(values) / len(values), min(1.0, share_s / over_s)
                    self._due[tenant.id] = SharingReport(utc_s, window_s, 1.0, mean, share, len(values))

    def take(self) -> dict[str, SharingReport]:
        """The reports by tenant; none is due after that."""
        self._taken, self._due = self._due, {}
        return dict(self._taken)

    def put_back(self) -> None:
        """The reports that were taken last were not decided on: they are due again, but for tenants with newer ones."""
        self._due = {**self._taken, **self._due}
