"""Measures fair share over a run: the amount that each tenant had of one resource, against its share."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import Any

from edge.simulation.fleet_ledger import FleetLedger
from edge.simulation.fleet_scenario import FleetScenario
from scheduler.fleet.fair import TenantTree


class FairMeter:
    """Adds up resource x time between rows. Measures nothing where the scenario expects nothing of it."""

    def __init__(self, scenario: FleetScenario) -> None:
        self._expect = scenario.expect.hfs
        self._tree = TenantTree(scenario.tenants)
        self._jobs = {arriving.job.id: arriving.job for arriving in scenario.jobs}
        self._open: dict[str, float] = defaultdict(float)
        self._had: dict[str, float] = defaultdict(float)
        self._due: dict[str, float] = defaultdict(float)
        self._whole = 0.0

    def pass_time(self, ledger: FleetLedger, to_s: float) -> None:
        """From the last row until `to_s` everything stayed as it is."""
        if self._expect is None:
            return
        resource = self._expect.resource
        past_s = min(to_s, self._expect.to_s) - max(ledger.now_s, self._expect.from_s)
        if past_s <= 0.0:
            return
        whole = sum(box.capacity.get(resource, 0.0) for box in ledger.boxes.values() if box.up)
        for holding in ledger.everything():
            tenant = self._jobs[holding.key[0]].tenant
            if tenant is not None:
                self._had[tenant] += holding.demand.get(resource, 0.0) * past_s
        for tenant, share in self._tree.shares(self._open, whole).items():
            self._due[tenant] += share * past_s
        self._whole += whole * past_s

    def note(self, ledger: FleetLedger, row: Mapping[str, Any]) -> None:
        """A row was entered: more, or less, is asked for."""
        if self._expect is not None and row["event"] in ("submitted", "ended"):
            job = self._jobs[row["job"]]
            if job.tenant is not None:
                tasks = job.tasks if row["event"] == "submitted" else -1
                self._open[job.tenant] += tasks * job.demand.get(self._expect.resource, 0.0)

    def errors(self) -> dict[str, float]:
        """By tenant: parts of the whole that it had above (+) or below (-) its share."""
        return {t: (self._had[t] - due) / self._whole for t, due in self._due.items()} if self._whole else {}
