"""The test double of the appliance has the methods of the real one's services, with the same parameters."""

from __future__ import annotations

import inspect
from typing import get_type_hints

import pytest
from appliance_double import DictAppliance

from edge.appliance.service import ApplianceService

SERVICES = {
    name: get_type_hints(part.fget)["return"]
    for name, part in vars(ApplianceService).items()
    if isinstance(part, property)
}


def methods(of: type) -> dict[str, list[tuple[str, str, bool]]]:
    """Public methods: for each parameter its name, kind, and whether it may be left out."""
    return {
        name: [
            (p.name, p.kind.name, p.default is not p.empty)
            for p in list(inspect.signature(found).parameters.values())[1:]
        ]
        for name, found in inspect.getmembers(of, inspect.isfunction)
        if not name.startswith("_")
    }


@pytest.mark.parametrize("service", sorted(SERVICES))
def test_the_double_answers_as_the_service(service: str) -> None:
    wanted = methods(SERVICES[service])
    assert wanted
    found = methods(type(getattr(DictAppliance(), service)))
    assert {name: found.get(name) for name in wanted} == wanted
