"""The fleet of the web tests' appliance."""

from __future__ import annotations

from edge.appliance.answers.fleet import FleetAnswer
from edge.appliance.answers.read import read
from web.examples.fleet import FLEET


class DictFleet:
    """Implements `FleetService`: the fleet of the example."""

    def fleet(self) -> FleetAnswer:
        return read(FleetAnswer, FLEET)
